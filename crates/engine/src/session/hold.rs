//! Why the next request of a session is not read yet.

/// A reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// An earlier request takes another way, and nothing may overtake it. It is in flight on a draining or a held link,
    /// waits in the retry queue, or is carried out by a task. Each such request counts.
    Order,
    /// A node is asked about the meaning of the request or the identity of the client.
    Question,
    /// CLIENT PAUSE.
    Pause,
}

/// The present reasons.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hold {
    /// Number of earlier requests that the next one must not overtake.
    order: u32,
    question: bool,
    pause: bool,
}

impl Hold {
    /// Whether there is no reason.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.order == 0 && !(self.question | self.pause)
    }

    /// Whether `reason` is present.
    #[inline]
    pub fn has(self, reason: Reason) -> bool {
        match reason {
            Reason::Order => self.order > 0,
            Reason::Question => self.question,
            Reason::Pause => self.pause,
        }
    }

    /// Number of earlier requests that nothing may overtake.
    #[inline]
    pub fn order(self) -> u32 {
        self.order
    }

    /// Adds a reason. Only [`Reason::Order`] counts how often.
    #[inline]
    pub fn add(&mut self, reason: Reason) {
        match reason {
            Reason::Order => self.order += 1,
            Reason::Question => self.question = true,
            Reason::Pause => self.pause = true,
        }
    }

    /// Removes a reason once. Returns whether it was present.
    #[inline]
    pub fn remove(&mut self, reason: Reason) -> bool {
        let was = self.has(reason);
        match reason {
            Reason::Order => self.order -= 1,
            Reason::Question => self.question = false,
            Reason::Pause => self.pause = false,
        }
        was
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_counts_and_the_others_do_not() {
        let mut hold = Hold::default();
        assert!(hold.is_empty());
        for reason in [Reason::Order, Reason::Question, Reason::Pause] {
            hold.add(reason);
            hold.add(reason);
            assert!(hold.has(reason) && !hold.is_empty(), "{reason:?}");
            assert!(hold.remove(reason), "{reason:?}");
        }
        assert_eq!(hold.order(), 1);
        assert!(!hold.remove(Reason::Pause) && hold.remove(Reason::Order) && hold.is_empty());
    }
}
