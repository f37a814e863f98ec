//! Whether the proxy or the nodes answer a request that the proxy could answer itself.

use command::{AclQuestion, ClientTask, Local, Merge, PubSubQuestion};

/// The answerer of a request that the proxy could answer itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decided {
    /// The proxy: the request is about the client itself, or the answer is the same for all.
    Here,
    /// A node, which decides about the permission.
    OneNode,
    /// The proxy, if a node permits it.
    HereIfAllowed(PubSubQuestion),
    /// All nodes, which decide about the permission.
    AllNodes(Merge),
    /// Refused.
    Refused(&'static str),
}

pub(crate) const OF_OTHERS: &str = "with --auth=nodes shardis cannot check this user's permission, and the command affects clients of other users";

pub(crate) const OF_EACH_NODE: &str = "with --auth=nodes each node has a log of its own: ask the nodes";

const OF_OPERATORS: &str =
    "with --auth=nodes shardis cannot check this user's permission: ask the admin listener (--admin)";

pub(crate) const NOT_QUEUED: &str =
    "with --auth=nodes shardis cannot check this user's permission within a transaction";

/// The answerer of `local`.
pub(crate) fn decided(local: Local) -> Decided {
    match local {
        Local::Acl(question) => match question {
            AclQuestion::Categories | AclQuestion::GenPass | AclQuestion::WhoAmI => Decided::Here,
            AclQuestion::DryRun | AclQuestion::GetUser | AclQuestion::List | AclQuestion::Users => {
                Decided::OneNode
            }
            AclQuestion::SetUser | AclQuestion::Load | AclQuestion::Save => Decided::AllNodes(Merge::AllOk),
            AclQuestion::DelUser => Decided::AllNodes(Merge::AnyReply),
            AclQuestion::Log => Decided::Refused(OF_EACH_NODE),
        },
        Local::Client(ClientTask::Pause | ClientTask::Unpause) | Local::Monitor | Local::ResetStatistics => {
            Decided::Refused(OF_OTHERS)
        }
        Local::Proxy(_) => Decided::Refused(OF_OPERATORS),
        Local::PubSub(question) => Decided::HereIfAllowed(question),
        Local::Client(ClientTask::Track | ClientTask::Caching) => Decided::Refused(SHARED_CONNS),
        // CLIENT LIST, KILL and UNBLOCK are limited to clients of the same user, and INFO asks the nodes.
        Local::Client(_)
        | Local::Info
        | Local::Ping
        | Local::Echo
        | Local::Quit
        | Local::Reset
        | Local::Select
        | Local::Time
        | Local::Command(_)
        | Local::ClientId
        | Local::ClientSetname
        | Local::ClientGetname
        | Local::ClientSetinfo
        | Local::ConfigGet
        | Local::Role
        | Local::Lolwut
        | Local::Hello
        | Local::Auth
        | Local::Cluster(_)
        | Local::Subscribe(_)
        | Local::Unsubscribe(_)
        | Local::Help
        | Local::ReplicaReads(_)
        | Local::Accepted => Decided::Here,
    }
}

pub(crate) const SHARED_CONNS: &str =
    "with --auth=nodes it is not available, since invalidations come over links that all users share";
