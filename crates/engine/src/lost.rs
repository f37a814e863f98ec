//! What becomes of a request without a reply.

use std::time::Duration;

/// Why a request got no answer from the node that owns its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Not a byte was written: it certainly did not run.
    NotSent {
        /// Whose node.
        shard: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The same: the node does not let the client in, and says this.
    Denied {
        /// Whose node.
        shard: String,
        /// Its own words.
        error: String,
    },
    /// The connection ended after a byte had been written: it may have run.
    Broken {
        /// Whose node.
        shard: String,
    },
    /// No reply in time: it may have run, or may yet run.
    TimedOut {
        /// Whose node.
        shard: String,
        /// How long we waited.
        after: Duration,
    },
    /// What came was no reply: it may have run.
    Garbled {
        /// Whose node.
        shard: String,
    },
}

impl Lost {
    /// The error line's text, without its type byte.
    pub fn text(&self) -> String {
        match self {
            Lost::NotSent { shard, reason } => format!("TRYAGAIN shard {shard} unavailable: {reason}"),
            Lost::Denied { error, .. } => error.clone(),
            Lost::Broken { shard } => {
                format!("ERR node connection lost, outcome unknown (shard {shard})")
            }
            Lost::TimedOut { shard, after } => {
                let after_ms = after.as_millis();
                format!("ERR node timeout after {after_ms} ms, outcome unknown (shard {shard})")
            }
            Lost::Garbled { shard } => {
                format!("ERR node protocol error, outcome unknown (shard {shard})")
            }
        }
    }

    /// Whether the request certainly did not run.
    pub fn is_not_sent(&self) -> bool {
        matches!(self, Lost::NotSent { .. } | Lost::Denied { .. })
    }

    /// What is wrong with the node, without its name.
    pub fn reason(&self) -> String {
        match self {
            Lost::NotSent { reason, .. } => reason.clone(),
            Lost::Denied { error, .. } => error.clone(),
            Lost::Broken { .. } => "connection lost".to_owned(),
            Lost::TimedOut { after, .. } => format!("no answer in {} ms", after.as_millis()),
            Lost::Garbled { .. } => "protocol error".to_owned(),
        }
    }

    /// What a client is told whose command was not carried out since a value that it needs could not be read: whatever
    /// became of the question, nothing was changed, and the command may be repeated.
    pub fn of_gathering(self) -> Lost {
        let reason = self.reason();
        let (Lost::NotSent { shard, .. }
        | Lost::Denied { shard, .. }
        | Lost::Broken { shard }
        | Lost::TimedOut { shard, .. }
        | Lost::Garbled { shard }) = self;
        Lost::NotSent { shard, reason }
    }
}
