//! Errors by which a node declines a request.

use crate::errors;
use topology::{Address, SLOTS, ShardId};

pub(crate) const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// Why a node has not carried out a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Declined {
    /// Its keys are there, from now on.
    Moved { slot: u16, address: Address },
    /// Its keys are on their way there: this request is to go after them.
    Ask { slot: u16, address: Address },
    /// Its keys cannot be had now, and may be in a moment.
    Later,
    /// The node is no primary any more.
    NoPrimary,
}

impl Declined {
    /// What an error of a node says, if it says that nothing was carried out. `from` is the node's address; in a cluster it
    /// may leave out the host of another if that is the same. A single redis-server says less: what looks like more there
    /// is the work of a script.
    pub(crate) fn parse(reply: &[u8], from: &Address, is_cluster: bool) -> Option<Declined> {
        let line = reply.strip_prefix(b"-")?.strip_suffix(b"\r\n")?;
        let mut words = line.split(|&byte| byte == b' ');
        let word = words.next()?;
        Some(match word {
            b"LOADING" => Declined::Later,
            b"READONLY" | b"MASTERDOWN" => Declined::NoPrimary,
            // A primary becomes a replica, or a stream has gone, perhaps elsewhere; but not if a client wanted it.
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

    /// What who waits is told if its time is up: `reply` is what the node said.
    pub(crate) fn reason(&self, reply: &[u8]) -> String {
        match self {
            Declined::Moved { .. } | Declined::Ask { .. } => errors::REDIRECTED.to_owned(),
            Declined::Later | Declined::NoPrimary => {
                String::from_utf8_lossy(reply).trim_matches(['-', '\r', '\n']).to_owned()
            }
        }
    }

    /// What the node may carry out behind a request that it has declined so.
    pub(crate) fn behind(&self) -> Behind {
        match self {
            Declined::Moved { .. } | Declined::Ask { .. } => Behind::Nothing,
            Declined::Later => Behind::Anything,
            // A replica answers reads, with what it had when it was a primary.
            Declined::NoPrimary => Behind::Reads,
        }
    }
}

/// What a node that has declined a request may carry out of what was sent behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    Reads,
    Anything,
}

/// The address `host:port`, where an empty host is that of `from`.
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

/// Whose keys a request is about, whatever topology comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Aim {
    Slot(u16),
    Shard(ShardId),
}

impl Default for Aim {
    fn default() -> Aim {
        Aim::Slot(0)
    }
}

/// How an error ends by which a client has ended the wait of another.
pub(crate) const BY_CLIENT: &[u8] = b"via CLIENT UNBLOCK";
