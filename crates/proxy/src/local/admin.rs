//! Commands of an operator for the nodes, sent through the proxy (`--allow-admin`). They go to all nodes, unless they
//! would cut the nodes off from shardis.

use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::local::corvus;
use crate::login::passing;
use crate::requests::route::Keys;
use command::{Admin, Command, Merge, Refusal, Report};
use resp::Request;

/// Parameters that could make a node unreachable, for all or for shardis.
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

/// The route of a subcommand of DEBUG.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Debug {
    /// Refused with this error, since it would do harm.
    Refused(&'static str),
    /// Argument 2 is a key.
    ByKey,
    /// To one node; it changes nothing.
    AnyShard,
    /// To all nodes.
    AllShards(Merge),
}

impl Core {
    /// Carries out `request` if the operator has allowed administration. Else refuses it with `why`.
    pub(crate) fn administer(
        &mut self,
        session: &mut Session,
        command: &Command,
        (why, admin): (&'static str, Admin),
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        if let Some(name) = (admin == Admin::ConfigSet).then(|| corvus::set_by_file(request.arg(2))).flatten()
        {
            return self.cx.refuse(session, &errors::set_by_file(name));
        }
        if !self.cx.settings.allow_admin {
            return self.cx.refuse_command(session, command, Refusal::Admin(why), request);
        }
        match admin {
            Admin::AllShards(merge) => self.cx.send_to_all(session, command, merge, request, keys),
            Admin::ConfigSet if sets_password(request) && !passing::has_users_of_nodes(&self.cx) => {
                self.set_password(session, request.arg(3))
            }
            Admin::ConfigSet => match cutting_off(request) {
                Some(parameter) => self.cx.refuse(session, &errors::cuts_off(parameter)),
                None => self.cx.send_to_all(session, command, Merge::AllOk, request, keys),
            },
            Admin::Debug => match Debug::of(request.arg(1), request.get(2)) {
                Debug::Refused(why) => {
                    self.cx.refuse_command(session, command, Refusal::Never(why), request);
                }
                Debug::ByKey => {
                    let shard = request.get(2).map_or_else(
                        || self.cx.engine.topology.keyless(),
                        |key| self.cx.engine.topology.shard_of(key),
                    );
                    self.cx.send(session, command, shard, request.bytes);
                }
                Debug::AnyShard => {
                    self.cx.send(session, command, self.cx.engine.topology.keyless(), request.bytes)
                }
                Debug::AllShards(merge) => self.cx.send_to_all(session, command, merge, request, keys),
            },
        }
    }
}

const ENDS_NODES: &str = "it would stop nodes or put keys on wrong shards";
/// A link on which a push comes in place of a reply is closed, together with all its requests.
const PUSHES: &str = "its pushes would break the link that all clients share";

/// Whether CONFIG SET sets only the password of clients, which belongs to shardis and not to the nodes.
fn sets_password(request: &Request<'_>) -> bool {
    request.len() == 4 && request.arg(2).eq_ignore_ascii_case(b"requirepass")
}

/// The first parameter of CONFIG SET that must not be changed through shardis.
fn cutting_off(request: &Request<'_>) -> Option<&'static [u8]> {
    request
        .args()
        .skip(2)
        .step_by(2)
        .find_map(|name| CUTTING_OFF.into_iter().find(|parameter| parameter.eq_ignore_ascii_case(name)))
}

impl Debug {
    fn of(subcommand: &[u8], word: Option<&[u8]>) -> Debug {
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
            | b"close-cluster-link-on-packet-drop" => Debug::Refused(ENDS_NODES),
            b"protocol" if word.is_some_and(|word| word.eq_ignore_ascii_case(b"push")) => {
                Debug::Refused(PUSHES)
            }
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
    fn commands_that_end_a_node_are_refused_in_any_case() {
        assert_eq!(Debug::of(b"SegFault", None), Debug::Refused(ENDS_NODES));
        assert_eq!(Debug::of(b"OBJECT", Some(b"k")), Debug::ByKey);
        assert_eq!(Debug::of(b"sleep", Some(b"0")), Debug::AllShards(Merge::AnyReply));
    }

    #[test]
    fn commands_that_cause_pushes_on_links_are_refused() {
        assert_eq!(Debug::of(b"Protocol", Some(b"Push")), Debug::Refused(PUSHES));
        for word in [&b"attrib"[..], b"map", b"bignum"] {
            assert_eq!(Debug::of(b"protocol", Some(word)), Debug::AnyShard);
        }
    }
}
