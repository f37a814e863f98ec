//! What an operator sends to the nodes through the proxy (`--allow-admin`): to all of them, but for what would take
//! them away from us.

use crate::core::Core;
use crate::errors;
use crate::route::Keys;
use crate::session::Session;
use command::{Admin, Command, Merge, Refusal, Report};
use resp::Request;

/// Parameters by which a node could not be reached any more, or not by us.
const CUTTING_OFF: [&[u8]; 8] = [
    b"bind",
    b"bind-source-addr",
    b"port",
    b"protected-mode",
    b"requirepass",
    b"tls-port",
    b"unixsocket",
    b"unixsocketperm",
];

/// How a subcommand of DEBUG is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Debug {
    /// It ends the node, or puts keys where they do not belong.
    Refused,
    /// Argument 2 is a key.
    ByKey,
    /// To one node; nothing changes by it.
    AnyShard,
    /// To all nodes.
    AllShards(Merge),
}

impl Core {
    /// Carries out `request` if the operator let administration through; else `why` is told.
    pub(crate) fn administer(
        &mut self,
        session: &mut Session,
        command: &Command,
        (why, admin): (&'static str, Admin),
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        if !self.settings.allow_admin {
            return self.refuse_command(session, command, Refusal::Admin(why), request);
        }
        match admin {
            Admin::AllShards(merge) => self.send_to_all(session, command, merge, request, keys),
            Admin::ConfigSet if sets_password(request) => self.set_password(session, request.arg(3)),
            Admin::ConfigSet => match cutting_off(request) {
                Some(parameter) => self.refuse(session, &errors::cuts_off(parameter)),
                None => self.send_to_all(session, command, Merge::AllOk, request, keys),
            },
            Admin::Debug => match Debug::of(request.arg(1)) {
                Debug::Refused => {
                    self.refuse_command(session, command, Refusal::Never(DEBUG_REFUSED), request);
                }
                Debug::ByKey => {
                    let shard = request
                        .get(2)
                        .map_or_else(|| self.topology.keyless(), |key| self.topology.shard_of(key));
                    self.send(session, command, shard, request.bytes);
                }
                Debug::AnyShard => self.send(session, command, self.topology.keyless(), request.bytes),
                Debug::AllShards(merge) => self.send_to_all(session, command, merge, request, keys),
            },
        }
    }
}

const DEBUG_REFUSED: &str = "this would end the nodes or put keys where they do not belong";

/// Whether CONFIG SET is about the password that clients say, and nothing else: that is ours and not the nodes'.
fn sets_password(request: &Request<'_>) -> bool {
    request.len() == 4 && request.arg(2).eq_ignore_ascii_case(b"requirepass")
}

/// The first parameter of CONFIG SET that must not be changed through us.
fn cutting_off(request: &Request<'_>) -> Option<&'static [u8]> {
    request
        .args()
        .skip(2)
        .step_by(2)
        .find_map(|name| CUTTING_OFF.into_iter().find(|parameter| parameter.eq_ignore_ascii_case(name)))
}

impl Debug {
    fn of(subcommand: &[u8]) -> Debug {
        match subcommand.to_ascii_lowercase().as_slice() {
            b"segfault"
            | b"panic"
            | b"restart"
            | b"crash-and-recover"
            | b"assert"
            | b"oom"
            | b"leak"
            | b"populate"
            | b"replicate"
            | b"drop-cluster-packet-filter"
            | b"close-cluster-link-on-packet-drop" => Debug::Refused,
            b"object" | b"sdslen" | b"listpack" | b"ziplist" | b"quicklist" | b"htstats-key"
            | b"digest-value" => Debug::ByKey,
            b"protocol" | b"help" | b"error" | b"stringmatch-len" | b"mallctl" | b"mallctl-str" => {
                Debug::AnyShard
            }
            b"digest" => Debug::AllShards(Merge::Report(Report::Digest)),
            _ => Debug::AllShards(Merge::AnyReply),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ends_a_node_is_refused_whatever_its_case() {
        assert_eq!(Debug::of(b"SegFault"), Debug::Refused);
        assert_eq!(Debug::of(b"OBJECT"), Debug::ByKey);
        assert_eq!(Debug::of(b"sleep"), Debug::AllShards(Merge::AnyReply));
    }
}
