//! A worker's connection: its requests, and its replies in their order.

use crate::class::Work;
use resp::request::Scanner;
use std::collections::VecDeque;

/// Requests from MULTI on.
#[derive(Debug)]
pub(crate) struct Block {
    pub work: Work,
    /// The replies so far, if a command was refused.
    pub replies: Vec<u8>,
    pub is_refused: bool,
}

/// One connection of a worker.
#[derive(Debug, Default)]
pub(crate) struct Client {
    pub input: Vec<u8>,
    pub scanner: Scanner,
    pub is_resp3: bool,
    pub block: Option<Block>,
    /// Its next request waits for a key, or for room.
    pub is_stalled: bool,
    /// Replies that are there or awaited.
    replies: VecDeque<Option<Vec<u8>>>,
    /// The number of the first of them.
    front: u64,
    out: Vec<u8>,
}

impl Client {
    /// The number of a new place in the order of replies.
    pub(crate) fn reserve(&mut self) -> u64 {
        self.replies.push_back(None);
        self.front + self.replies.len() as u64 - 1
    }

    /// Fills the place `number`.
    pub(crate) fn fill(&mut self, number: u64, reply: Vec<u8>) {
        let at = number.checked_sub(self.front).and_then(|at| usize::try_from(at).ok());
        if let Some(place) = at.and_then(|at| self.replies.get_mut(at)) {
            *place = Some(reply);
        }
        while let Some(Some(reply)) = self.replies.front() {
            self.out.extend_from_slice(reply);
            self.replies.pop_front();
            self.front += 1;
        }
    }

    /// Adds a reply that is there.
    pub(crate) fn answer(&mut self, reply: Vec<u8>) {
        let number = self.reserve();
        self.fill(number, reply);
    }

    /// Replies to send.
    pub(crate) fn take_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_keep_the_order_of_requests() {
        let mut client = Client::default();
        let [first, second] = [client.reserve(), client.reserve()];
        client.fill(second, b"2".to_vec());
        client.answer(b"3".to_vec());
        assert!(client.take_out().is_empty());
        client.fill(first, b"1".to_vec());
        assert_eq!(client.take_out(), b"123");
        client.fill(first, b"again".to_vec());
        assert!(client.take_out().is_empty());
    }
}
