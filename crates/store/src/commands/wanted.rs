//! Results that connections wait for, and how each is taken from a key that is ready.

use crate::commands::lists;
use crate::commands::stream_groups::{Reader, show_news};
use crate::commands::zsets::{self, Side};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::list::End;
use crate::values::stream::Id;

/// The result that a connection waits for.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// An element of a list, or several.
    Element { end: End, count: Option<usize> },
    /// An element that goes to another list.
    Shift { ends: (End, End), target: Box<[u8]> },
    /// A member of a sorted set, or several.
    Member { side: Side, count: Option<usize> },
    /// Entries of streams behind these ids, one for each key in order.
    Entries { reader: Reader, after: Vec<Id> },
    /// Acknowledgements by replicas. There are no replicas, so the wait always times out.
    Replicas,
}

impl Wanted {
    /// Whether the read is one of a group's member.
    pub(crate) fn has_group(&self) -> bool {
        matches!(self, Wanted::Entries { reader: Reader { membership: Some(_), .. }, .. })
    }

    /// Takes the result from `key`, number `at` of the keys. Returns false and writes nothing if there is none.
    pub(crate) fn take(
        &self,
        keyspace: &mut Keyspace,
        key: &[u8],
        at: usize,
        out: &mut Reply,
    ) -> Result<bool, Error> {
        match self {
            Wanted::Element { end, count } => lists::show_popped(keyspace, key, *end, *count, out),
            Wanted::Shift { ends, target } => lists::shift(keyspace, key, target, *ends, out),
            Wanted::Member { side, count } => zsets::show_popped(keyspace, key, *side, *count, out),
            Wanted::Entries { reader, after } => {
                let after = after.get(at).copied().unwrap_or_default();
                show_news(keyspace, key, reader, after, out)
            }
            Wanted::Replicas => Ok(false),
        }
    }
}
