//! The reference page of all commands, written from the table.

use std::fmt::Write as _;

use crate::carry::{
    AclQuestion, Across, Admin, Carry, ClientTask, Guard, Local, Merge, Refusal, Report, Script, Topic,
    Transaction, Wait,
};
use crate::command::Command;
use crate::table::{SECTIONS, Section};
use crate::within::Within;

/// docs/commands.md: each command with its number of arguments, its routing, and remarks.
pub fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for section in &SECTIONS {
        write_section(&mut page, section);
    }
    page
}

const INTRODUCTION: &str = "\
<!-- Generated from crates/command by `SHARDIS_BLESS=1 cargo test -p command --test reference`. -->

# Commands

What shardis does with each command of Redis 7.0, and of those that came after it with each of Redis 8.0 and Valkey 8.1;
the notes say since when they are there. Nodes that are older answer such a command with their own error. Commands of
modules and of still newer versions are learnt from the nodes and carried by the same rules, if their keys can be told
from their arguments. [compatibility.md](compatibility.md) says which servers have been tried.

*Arguments* counts the command's name, as Redis does. A command is *not atomic* where other clients can see one shard
changed and another not yet; if a shard fails then, the others may have carried out their part.

*In MULTI* tells what becomes of it in a [transaction](transactions.md): it is *kept* and sent with the others to their shard;
answered *here* at its place; *asked* of all shards or clients when the others have run; carried out *at once*; kept by *one shard*
only, if there are no more; or refused (*no*).
";

fn write_section(page: &mut String, section: &Section) {
    let _ = write!(page, "\n## {}\n\n", section.title);
    page.push_str("| command | arguments | carried | in MULTI | notes |\n| --- | --- | --- | --- | --- |\n");
    for command in section.commands {
        if command.carry != Carry::Container {
            write_command(page, command);
        }
        command.subcommands.iter().for_each(|subcommand| write_command(page, subcommand));
    }
}

fn write_command(page: &mut String, command: &Command) {
    let name = command.name.to_ascii_uppercase().replace('|', " ");
    let arguments = match command.arity {
        exactly @ 0.. => exactly.to_string(),
        at_least => format!("{} or more", at_least.unsigned_abs()),
    };
    let _ = writeln!(
        page,
        "| {name} | {arguments} | {} | {} | {} |",
        carried(command),
        in_multi(command),
        notes(command)
    );
}

fn in_multi(command: &Command) -> &'static str {
    match command.within_transaction() {
        Within::AtOnce => "at once",
        Within::Kept | Within::Select => "kept",
        Within::KeptByOneShard => "one shard",
        Within::KeptByOneShardOrAsked | Within::Asked => "asked",
        Within::Here => "here",
        Within::NotInRedis | Within::Refused(_) => "no",
    }
}

/// The way of the requests of `command` to the nodes, for people.
pub fn carried(command: &Command) -> &'static str {
    match command.carry {
        Carry::Shard | Carry::ShardIf(_) if command.single_key().is_some() => "by the shard of its key",
        Carry::Split(_) | Carry::Blocking(Wait::BlockAcross) => "split over the shards of its keys",
        Carry::AllShards(_) | Carry::Blocking(Wait::Replicas) => "by all shards",
        Carry::Shard | Carry::ShardIf(_) | Carry::Script(_) | Carry::Blocking(_) => {
            "by the shard of its keys"
        }
        Carry::Publish(_) => "by the shard of its channel",
        Carry::Cursor => "by all shards, one after the other",
        Carry::AnyShard => "by any shard",
        Carry::OnlyShard(_) => "by the only shard",
        Carry::Transaction(Transaction::Watch) => "by the shard of its keys",
        Carry::Transaction(Transaction::Execute) => "by the shard of the transaction's keys",
        Carry::Transaction(_) | Carry::Here(_) => "by shardis itself",
        Carry::Admin(..) => "with `--allow-admin`",
        Carry::Refused(Refusal::Later(_)) => "not yet",
        Carry::Refused(Refusal::Never(_) | Refusal::Admin(_)) => "refused",
        Carry::Refused(Refusal::Unknown(_)) => "as an unknown command",
        Carry::Container => "by its subcommands",
    }
}

fn notes(command: &Command) -> String {
    let since = command.since.to_string();
    let notes = [since, own_notes(command)].into_iter().filter(|note| !note.is_empty());
    let notes = notes.collect::<Vec<_>>().join("; ");
    match command.across {
        Across::Refused => notes,
        Across::Gathered | Across::Carried | Across::Moved | Across::Popped | Across::ReadByGroup => {
            format!(
                "{notes}; over several refused, or [emulated](cross-shard.md) with `--cross-shard=emulate`"
            )
        }
    }
}

fn own_notes(command: &Command) -> String {
    match command.carry {
        Carry::Blocking(Wait::Block) => {
            "all keys on one shard; with BLOCK the client has a connection of its own while it waits".into()
        }
        Carry::Blocking(Wait::BlockAcross) => {
            "the streams in the order of the keys; with BLOCK the client has a connection of its own to each shard \
             while it waits, and is answered with what the first shard has and what the others have by then"
                .into()
        }
        Carry::Blocking(Wait::Replicas) => {
            "the least number of all shards, each of which has then all that this client wrote there: \
             [replicas.md](replicas.md); the client has a connection of its own to each shard while it waits; in a \
             transaction at once, of its shard"
                .into()
        }
        Carry::Blocking(_) => {
            "all keys on one shard; the client has a connection of its own while it waits".into()
        }
        Carry::ShardIf(Guard::Patterns) => {
            "all keys on one shard; BY and GET with a pattern that names other keys are refused".into()
        }
        Carry::ShardIf(Guard::Database(_)) if command.single_key().is_none() => {
            "all keys on one shard; with DB to another database there".into()
        }
        Carry::ShardIf(Guard::Database(_)) => "to another database of the key's shard".into(),
        Carry::Script(script) => {
            let repaired = match script {
                Script::Body => "the script is kept for EVALSHA",
                Script::Sha => "a script that shardis has seen is loaded where it is missing",
                Script::Function => "functions that shardis has seen are loaded where they are missing",
            };
            format!("all keys on one shard; without keys by the first shard; {repaired}")
        }
        Carry::Shard if command.single_key().is_none() => "all keys on one shard".into(),
        Carry::Split(merge) | Carry::AllShards(merge) => {
            format!("{}; not atomic across shards", merged(merge))
        }
        Carry::Transaction(step) => transaction_note(step).into(),
        Carry::Cursor => "the cursor tells the shard: pass it on as it is".into(),
        Carry::Publish(_) => {
            "the clients of shardis count as receivers, and whoever else is subscribed at the node".into()
        }
        Carry::Refused(Refusal::Later(what)) => format!("needs {what}"),
        Carry::Refused(Refusal::Never(why) | Refusal::Admin(why) | Refusal::Unknown(why)) => why.into(),
        Carry::Admin(why, Admin::AllShards(merge)) => format!("{why}; by all shards, {}", merged(merge)),
        Carry::Admin(why, Admin::ConfigSet) => {
            format!("{why}; by all shards, but for what would cut them off: addresses, ports, passwords")
        }
        Carry::Admin(why, Admin::Debug) => {
            format!(
                "{why}; by the shard of its key or by all shards, as DEBUG SLEEP, which stalls them all; what would end \
                 a node is refused"
            )
        }
        Carry::OnlyShard(why) => format!("refused where there are several: {why}"),
        Carry::Here(local) => local_note(local).into(),
        Carry::Shard | Carry::AnyShard | Carry::Container => String::new(),
    }
}

/// Differences between a transaction on links that clients share and one of Redis.
fn transaction_note(step: Transaction) -> &'static str {
    match step {
        Transaction::Begin => {
            "commands are checked and kept by shardis until EXEC; their keys must be on one shard"
        }
        Transaction::Execute => {
            "atomic: sent to the one shard in one piece; with `--transactions=per-shard` to each of several"
        }
        Transaction::Discard => "",
        Transaction::Watch => {
            "all keys on one shard, that of the transaction, or with `--transactions=per-shard` on several; the client has a connection of its own until EXEC, \
             DISCARD or UNWATCH"
        }
        Transaction::Unwatch => "",
    }
}

/// Where our answer is not all that Redis's would be.
fn local_note(local: Local) -> &'static str {
    match local {
        Local::Subscribe(Topic::Channel | Topic::ShardChannel) => {
            "by the shard of the channel; an error in the place of a channel whose shard cannot be had; not in \
             transactions; `__keyspace@…` and `__keyevent@…`: of all shards"
        }
        Local::Subscribe(Topic::Pattern) => {
            "on all shards; an error if one of them cannot be had; not in transactions"
        }
        Local::Client(ClientTask::Track) => {
            "over all shards; with NOLOOP, a client is not told of texts that it writes by SET, SETEX, PSETEX or MSET, up \
             to 16 KiB, while its node has them, for which the node is asked; of what scripts read that may write it is told by the keys that they name"
        }
        Local::Monitor => {
            "the requests of the clients of all workers; of an argument 64 KiB are shown; what scripts do at a node is not"
        }
        Local::PubSub(_) => "over the clients of all workers; who subscribes elsewhere is not counted",
        Local::Cluster(_) => "one node, which owns all slots, at the address that the client used",
        Local::Acl(AclQuestion::Load | AclQuestion::Save) => {
            "the file that `--acl-file` names, for all workers"
        }
        Local::Acl(AclQuestion::SetUser | AclQuestion::DelUser) => {
            "for all workers; nodes know nothing of it"
        }
        Local::Acl(_) => "the users of shardis ([users.md](users.md)), not those of nodes",
        Local::Client(ClientTask::Pause | ClientTask::Unpause) => "all clients of all workers; nodes go on",
        Local::Client(ClientTask::List | ClientTask::Kill) => "over the clients of all workers",
        Local::Client(ClientTask::Unblock) => "over the clients of all workers",
        Local::Client(ClientTask::Switch)
        | Local::ClientSetinfo
        | Local::ReplicaReads(_)
        | Local::Accepted => "accepted; changes nothing",
        Local::Info => {
            "`memory` and `keyspace` are sums over the nodes; `usec` of `commandstats` is the time from queueing a \
             request for a node to its reply"
        }
        Local::ResetStatistics => "the proxy's own; nodes keep theirs",
        _ => "",
    }
}

/// The way in which the replies of several shards become one, for people.
pub fn merged(merge: Merge) -> &'static str {
    match merge {
        Merge::Sum => "the replies are added up",
        Merge::AllOk => "OK once all shards said so",
        Merge::Values => "the values in the order of the keys",
        Merge::Concat => "the lists one behind the other",
        Merge::RandomNonNil => "the reply of a shard picked at random among those that have keys",
        Merge::FirstReply => "all shards answer the same",
        Merge::And => "1 where all shards say 1, or where shardis loads the script itself",
        Merge::AnyReply => "the first shard's reply if none fails",
        Merge::OneSucceeded => "one shard's success is enough",
        Merge::Least => "the least number counts",
        Merge::Report(report) => reported(report),
    }
}

fn reported(report: Report) -> &'static str {
    match report {
        Report::SlowlogEntries => "the newest entries of all shards; ids are each node's own",
        Report::LatencyHistory => "the events of all shards by time",
        Report::LatencyLatest => "the latest and the worst of all shards",
        Report::LatencyHistogram => "calls and what they took are added up",
        Report::MemoryStats => "sums, and of each ratio the largest",
        Report::Texts => "the shards' texts under their names, where they differ",
        Report::Config => "all values where shards differ",
        Report::Libraries => "each library once",
        Report::RunningScript => "of a shard that runs a script, if there is one",
        Report::Digest => "the digest of all keys",
    }
}
