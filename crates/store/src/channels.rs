//! Subscriptions of all connections.

use std::collections::{BTreeMap, BTreeSet};

use stdx::glob;

use crate::caller_id::CallerId;
use crate::replies::Reply;

/// The three kinds of subscription.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SUBSCRIBE: a channel by its name.
    Channel,
    /// PSUBSCRIBE: all channels whose names match.
    Pattern,
    /// SSUBSCRIBE: a shard channel, which has a name space of its own.
    Shard,
}

impl Kind {
    /// Names of the confirmations of a subscription and of its end.
    pub(crate) fn words(self) -> (&'static str, &'static str) {
        match self {
            Kind::Channel => ("subscribe", "unsubscribe"),
            Kind::Pattern => ("psubscribe", "punsubscribe"),
            Kind::Shard => ("ssubscribe", "sunsubscribe"),
        }
    }
}

/// Subscriptions of one connection, by kind.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions([BTreeSet<Box<[u8]>>; 3]);

impl Subscriptions {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(BTreeSet::is_empty)
    }

    /// Counts as SUBSCRIBE and its relatives do: channels and patterns together, shard channels apart.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        let [channels, patterns, shard_channels] = &self.0;
        if kind == Kind::Shard { shard_channels.len() } else { channels.len() + patterns.len() }
    }

    pub(crate) fn names(&self, kind: Kind) -> impl Iterator<Item = &[u8]> {
        self.0[kind as usize].iter().map(|name| &**name)
    }

    /// Returns false if it existed already.
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8]) -> bool {
        self.0[kind as usize].insert(name.into())
    }

    /// Returns false if it did not exist.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) -> bool {
        self.0[kind as usize].remove(name)
    }
}

/// All subscriptions, by kind and name, each with its connections in the order of their arrival.
#[derive(Debug, Default)]
pub(crate) struct Channels([BTreeMap<Box<[u8]>, Vec<CallerId>>; 3]);

impl Channels {
    pub(crate) fn add(&mut self, kind: Kind, name: &[u8], caller: CallerId) {
        self.0[kind as usize].entry(name.into()).or_default().push(caller);
    }

    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8], caller: CallerId) {
        let all = &mut self.0[kind as usize];
        if let Some(callers) = all.get_mut(name) {
            callers.retain(|other| *other != caller);
            if callers.is_empty() {
                all.remove(name);
            }
        }
    }

    /// Receivers of a message, each with the pattern that matched. A connection with several matching subscriptions gets
    /// several copies.
    pub(crate) fn receivers(&self, kind: Kind, channel: &[u8]) -> Vec<(CallerId, Option<Box<[u8]>>)> {
        let by_name = self.0[kind as usize].get(channel).into_iter().flatten().map(|caller| (*caller, None));
        let patterns = self.0[Kind::Pattern as usize].iter();
        let matching =
            patterns.filter(|(pattern, _)| kind == Kind::Channel && glob::matches(pattern, channel));
        let by_pattern = matching.flat_map(|(pattern, callers)| {
            callers.iter().map(move |caller| (*caller, Some(pattern.clone())))
        });
        by_name.chain(by_pattern).collect()
    }

    /// Names of a kind that have subscribers and match `pattern`.
    pub(crate) fn names(&self, kind: Kind, pattern: Option<&[u8]>) -> Vec<&[u8]> {
        let names = self.0[kind as usize].keys().map(|name| &**name);
        names.filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name))).collect()
    }

    /// Number of subscribers of one name.
    pub(crate) fn subscribers(&self, kind: Kind, name: &[u8]) -> usize {
        self.0[kind as usize].get(name).map_or(0, Vec::len)
    }
}

/// Writes a message in the form for one of its receivers.
pub(crate) fn write_message(
    kind: Kind,
    pattern: Option<&[u8]>,
    channel: &[u8],
    message: &[u8],
    out: &mut Reply,
) {
    let word: &[u8] = match (kind, pattern) {
        (_, Some(_)) => b"pmessage",
        (Kind::Shard, None) => b"smessage",
        _ => b"message",
    };
    out.push(3 + usize::from(pattern.is_some()));
    out.bulk(word);
    pattern.into_iter().for_each(|pattern| out.bulk(pattern));
    out.bulk(channel);
    out.bulk(message);
}
