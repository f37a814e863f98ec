//! The treatment of a command between MULTI and EXEC.
//!
//! Redis carries out nearly all of them there. A transaction over several nodes cannot: it runs on one of them, in one
//! piece. A command for the others is refused when it is queued, so that nothing of the transaction runs. Local replies
//! of the proxy are spliced into those of the node.

use crate::carry::{AclQuestion, Admin, Carry, ClientTask, Local, ProxyQuestion, Refusal, Transaction};
use crate::command::Command;
use crate::sets::Flags;

/// The treatment of a command in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Within {
    /// Carried out when it comes: it ends the transaction, or is an error that leaves it as it is.
    AtOnce,
    /// Kept, and sent with the others: its keys and channels must be on the shard of the transaction.
    Kept,
    /// The same, if there is one shard only.
    KeptByOneShard,
    /// The same; asked of all if there are several: it only reads.
    KeptByOneShardOrAsked,
    /// Answered by the proxy, at its place among the node's replies.
    Here,
    /// All shards, or all workers of the proxy, are asked when the other commands have run.
    Asked,
    /// SELECT: kept; the client is in that database from then on.
    Select,
    /// Redis refuses it as well.
    NotInRedis,
    /// Refused.
    Refused(Refusal),
}

impl Command {
    /// Its treatment in a transaction.
    pub fn within_transaction(&self) -> Within {
        match self.carry {
            Carry::Transaction(Transaction::Unwatch) => Within::Kept,
            Carry::Transaction(_) | Carry::Here(Local::Quit | Local::Reset) => Within::AtOnce,
            _ if self.flags.contains(Flags::NO_MULTI) => Within::NotInRedis,
            Carry::Shard | Carry::ShardIf(_) | Carry::Script(_) | Carry::Split(_) => Within::Kept,
            // Waiting commands do not wait in a transaction.
            Carry::Blocking(_) | Carry::Publish(_) | Carry::AnyShard => Within::Kept,
            Carry::Cursor => Within::KeptByOneShardOrAsked,
            Carry::AllShards(_) if self.flags.contains(Flags::READONLY) => Within::KeptByOneShardOrAsked,
            Carry::AllShards(_) | Carry::OnlyShard(_) | Carry::Admin(_, Admin::AllShards(_)) => {
                Within::KeptByOneShard
            }
            Carry::Admin(_, Admin::ConfigSet | Admin::Debug) => Within::Refused(Refusal::Never(BY_ARGUMENTS)),
            Carry::Here(local) => local.within_transaction(),
            Carry::Refused(refusal) => Within::Refused(refusal),
            // Only its subcommands are ever asked for.
            Carry::Container => Within::NotInRedis,
        }
    }
}

impl Local {
    fn within_transaction(self) -> Within {
        let why = match self {
            // The node's own answer is as of when the others ran.
            Local::Ping | Local::Echo | Local::Time | Local::Lolwut => return Within::Kept,
            Local::Select => return Within::Select,
            Local::Command(_)
            | Local::ClientId
            | Local::ClientSetname
            | Local::ClientGetname
            | Local::ClientSetinfo
            | Local::ConfigGet
            | Local::Role
            | Local::Cluster(_)
            | Local::PubSub(_)
            | Local::Proxy(
                ProxyQuestion::Explain
                | ProxyQuestion::Info
                | ProxyQuestion::Topology
                | ProxyQuestion::Slowlog
                | ProxyQuestion::HotKeys
                | ProxyQuestion::BigKeys
                | ProxyQuestion::HotSlots
                | ProxyQuestion::UpdateSlotMap,
            )
            | Local::Help
            | Local::ReplicaReads(_)
            | Local::Accepted => return Within::Here,
            Local::Client(
                ClientTask::Describe
                | ClientTask::Switch
                | ClientTask::GetRedirect
                | ClientTask::Caching
                | ClientTask::TrackingState,
            ) => return Within::Here,
            Local::Acl(
                AclQuestion::Categories
                | AclQuestion::DryRun
                | AclQuestion::GenPass
                | AclQuestion::GetUser
                | AclQuestion::List
                | AclQuestion::Log
                | AclQuestion::Users
                | AclQuestion::WhoAmI,
            ) => return Within::Here,
            Local::Auth | Local::Hello => WHO_ASKS,
            Local::Subscribe(_)
            | Local::Unsubscribe(_)
            | Local::Monitor
            | Local::Client(ClientTask::Reply | ClientTask::Track) => WHAT_COMES,
            Local::Info | Local::Client(ClientTask::List) => return Within::Asked,
            Local::Acl(
                AclQuestion::DelUser | AclQuestion::Load | AclQuestion::Save | AclQuestion::SetUser,
            )
            | Local::Proxy(ProxyQuestion::Reload)
            | Local::ResetStatistics
            | Local::Client(
                ClientTask::Kill | ClientTask::Pause | ClientTask::Unblock | ClientTask::Unpause,
            ) => ALL_CLIENTS,
            // These commands are carried out at once.
            Local::Quit | Local::Reset => return Within::AtOnce,
        };
        Within::Refused(Refusal::Never(why))
    }
}

/// The reason of a refusal for commands on all shards.
pub(crate) const ALL_SHARDS: &str = "a transaction runs on one shard, and this needs all";
const ALL_CLIENTS: &str = "a transaction runs on one shard, and this concerns all clients";
const BY_ARGUMENTS: &str = "a transaction runs on one shard, and this goes where its arguments say";
const WHO_ASKS: &str = "the commands of a transaction were checked for who its client is and what it speaks";
const WHAT_COMES: &str = "a transaction runs on one shard, and this changes what its client hears of";

impl Within {
    /// The refusal of commands that need all shards, if there are several.
    pub const NEEDS_ALL_SHARDS: Refusal = Refusal::Never(ALL_SHARDS);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::find;

    #[track_caller]
    fn within(name: &str) -> Within {
        let (container, own) = name.split_once(' ').unwrap_or((name, ""));
        let command = find(container.as_bytes()).expect("in the table");
        command.subcommand(own.as_bytes()).unwrap_or(command).within_transaction()
    }

    #[test]
    fn a_commands_needs_decide_its_place_in_a_transaction() {
        for name in ["get", "mset", "blpop", "xread", "wait", "publish", "eval", "ping", "unwatch", "move"] {
            assert_eq!(within(name), Within::Kept, "{name}");
        }
        for name in ["flushall", "script flush", "slowlog get"] {
            assert_eq!(within(name), Within::KeptByOneShard, "{name}");
        }
        for name in ["dbsize", "keys", "scan", "randomkey"] {
            assert_eq!(within(name), Within::KeptByOneShardOrAsked, "{name}");
        }
        for name in ["info", "client list"] {
            assert_eq!(within(name), Within::Asked, "{name}");
        }
        for name in ["client id", "command", "acl whoami", "cluster slots", "config get", "pubsub numsub"] {
            assert_eq!(within(name), Within::Here, "{name}");
        }
        for name in ["multi", "watch", "exec", "discard", "quit", "reset"] {
            assert_eq!(within(name), Within::AtOnce, "{name}");
        }
        for (name, why) in [
            ("client kill", ALL_CLIENTS),
            ("acl setuser", ALL_CLIENTS),
            ("auth", WHO_ASKS),
            ("subscribe", WHAT_COMES),
            ("config set", BY_ARGUMENTS),
        ] {
            assert_eq!(within(name), Within::Refused(Refusal::Never(why)), "{name}");
        }
        assert_eq!((within("select"), within("save")), (Within::Select, Within::NotInRedis));
    }
}
