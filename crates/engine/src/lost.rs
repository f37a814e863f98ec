//! The fate of a request without a reply.

use std::time::Duration;

/// Why a request got no reply from the node that owns its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Not a byte was written: the request certainly did not run.
    NotSent {
        /// The shard of the node.
        shard: String,
        /// The fault of the node.
        reason: String,
    },
    /// The node does not let the client in. The request certainly did not run.
    Denied {
        /// The shard of the node.
        shard: String,
        /// The node's error.
        error: String,
    },
    /// The connection ended after a byte was written: the request may have run.
    Broken {
        /// The shard of the node.
        shard: String,
    },
    /// No reply came in time: the request may have run, or may still run.
    TimedOut {
        /// The shard of the node.
        shard: String,
        /// The time waited.
        after: Duration,
    },
    /// The bytes that came were no reply: the request may have run.
    Garbled {
        /// The shard of the node.
        shard: String,
    },
}

impl Lost {
    /// The text of the error reply, without its type byte.
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

    /// The fault of the node, without its name.
    pub fn reason(&self) -> String {
        match self {
            Lost::NotSent { reason, .. } => reason.clone(),
            Lost::Denied { error, .. } => error.clone(),
            Lost::Broken { .. } => "connection lost".to_owned(),
            Lost::TimedOut { after, .. } => format!("no answer in {} ms", after.as_millis()),
            Lost::Garbled { .. } => "protocol error".to_owned(),
        }
    }

    /// The error for a command that did not run because a value that it needs could not be read. Whatever happened to
    /// the read, nothing was changed, and the client may repeat the command.
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
