//! Errors by which a node declines a request.

use crate::errors;
use topology::{Address, SLOTS, ShardId};

pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// The reason why a node has not run a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    /// The keys are at `address` from now on.
    Moved { slot: u16, address: Address },
    /// The keys are being moved to `address`, and this request follows them.
    Ask { slot: u16, address: Address },
    /// The keys cannot be reached now, and may be in a moment.
    Later,
    /// The node is no longer a primary.
    NoPrimary,
}

impl Declined {
    /// The meaning of a node's error, if it says that the request did not run. `from` is the node's address. In a
    /// cluster, an error may leave out the host of another node on the same host. A single redis-server uses only
    /// some of these errors; the others come from a script.
    pub(crate) fn parse(reply: &[u8], from: &Address, is_cluster: bool) -> Option<Declined> {
        let line = reply.strip_prefix(b"-")?.strip_suffix(b"\r\n")?;
        let mut words = line.split(|&byte| byte == b' ');
        let word = words.next()?;
        Some(match word {
            b"LOADING" => Declined::Later,
            b"READONLY" | b"MASTERDOWN" => Declined::NoPrimary,
            // A primary becomes a replica, or a stream was deleted or moved. A client's CLIENT UNBLOCK is no reason.
            b"UNBLOCKED" if !line.ends_with(BY_CLIENT) => Declined::NoPrimary,
            _ if !is_cluster => return None,
            b"TRYAGAIN" | b"CLUSTERDOWN" => Declined::Later,
            b"MOVED" | b"ASK" => {
                let mut next = || std::str::from_utf8(words.next()?).ok();
                let slot = next()?.parse().ok().filter(|slot| *slot < SLOTS)?;
                let address = address_of(next()?, from)?;
                match word {
                    b"MOVED" => Declined::Moved { slot, address },
                    _ => Declined::Ask { slot, address },
                }
            }
            _ => return None,
        })
    }

    /// The error for a client whose time is up; `reply` is the node's.
    pub(crate) fn reason(&self, reply: &[u8]) -> String {
        match self {
            Declined::Moved { .. } | Declined::Ask { .. } => errors::REDIRECTED.to_owned(),
            Declined::Later | Declined::NoPrimary => {
                String::from_utf8_lossy(reply).trim_matches(['-', '\r', '\n']).to_owned()
            }
        }
    }

    /// The requests behind a declined one that its node may run.
    pub(crate) fn behind(&self) -> Behind {
        match self {
            Declined::Moved { .. } => Behind::Nothing,
            // The node runs requests for keys that it still has.
            Declined::Ask { .. } => Behind::OtherKeys,
            Declined::Later => Behind::Anything,
            // A replica answers reads, with its data from the time as a primary.
            Declined::NoPrimary => Behind::Reads,
        }
    }
}

/// The requests that a node may run though it has declined one before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    OtherKeys,
    Reads,
    Anything,
}

/// The address `host:port`, where an empty host stands for that of `from`.
pub(crate) fn address_of(text: &str, from: &Address) -> Option<Address> {
    let (host, port) = text.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = match (host.trim_matches(['[', ']']), from) {
        ("" | "?", Address::Tcp { host, .. }) => host.clone(),
        ("" | "?", _) => return None,
        (host, _) => host.to_owned(),
    };
    Some(Address::Tcp { host, port })
}

/// The keys of a request, in a form that every topology can locate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Aim {
    Slot(u16),
    Shard(ShardId),
}

impl Default for Aim {
    fn default() -> Aim {
        Aim::Slot(0)
    }
}

/// The effect of a request on its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Reads,
    Writes,
    /// The command is not known. It may write, and a replica may run it.
    Unknown,
}

/// The end of the error for a wait that a client ended by CLIENT UNBLOCK.
pub(crate) const BY_CLIENT: &[u8] = b"via CLIENT UNBLOCK";
