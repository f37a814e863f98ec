//! PROXY EXPLAIN and `shardis explain`: the way of a request, without sending it.

use crate::context::Context;
use crate::cross_slot::remedy::Remedy;
use crate::errors;
use crate::limits::CrossShard;
use crate::policy::{Named, Policy};
use crate::requests::objection::Objection;
use crate::requests::route::Keys;
use crate::rewritten::Rewritten;
use command::{Across, Carry, Command, Flags, Local, Merge, Refusal, Resolved, Topic, Wait};
use resp::Request;
use topology::{ShardId, Topology};

/// The rules that decide about the way of a request.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    /// The owners of keys.
    pub topology: &'a Topology,
    /// See [`CrossShard`].
    pub cross_shard: CrossShard,
    /// Whether clients may change the nodes.
    pub allow_admin: bool,
    /// Number of databases.
    pub databases: u16,
    /// The policy of the client's listener.
    pub policy: Option<&'a Policy>,
}

impl<'a> Rules<'a> {
    /// The rules by which this worker goes for a client of `listener`.
    pub(crate) fn of(cx: &'a Context, listener: u16) -> Rules<'a> {
        Rules {
            topology: &cx.engine.topology,
            cross_shard: cx.settings.cross_shard,
            allow_admin: cx.settings.allow_admin,
            databases: cx.settings.databases,
            policy: cx.settings.access.policies.of(listener),
        }
    }
}

/// The way of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explanation {
    /// The command by its full name; empty if it is unknown.
    pub command: String,
    /// The rule of the command table.
    pub carried: &'static str,
    /// The way of this request.
    pub route: &'static str,
    /// The error that the client would get at once; empty if there is none.
    pub refused: String,
    /// The nodes that would get a part.
    pub targets: Vec<Target>,
    /// The merge of the replies; empty if there is one reply.
    pub merged: &'static str,
    /// Whether the request may be sent a second time.
    pub sent_again: &'static str,
    /// Whether a replica may answer, if the policy for reads allows it.
    pub is_read: bool,
}

/// One node that would get the request or a part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The shard's name.
    pub shard: String,
    /// The address of its primary; empty if none is known.
    pub node: String,
    /// The keys that are there: the first [`KEYS_SHOWN_MAX`].
    pub keys: Vec<Vec<u8>>,
    /// The slots of these keys, if keys go by slots.
    pub slots: Vec<u16>,
    /// Number of keys.
    pub key_count: usize,
}

/// Keys of one node that are shown.
pub const KEYS_SHOWN_MAX: usize = 100;

/// The way of one request, before it is described.
enum Way {
    /// Whole to one shard.
    One(ShardId),
    /// The parts in [`Keys::parts`], each by itself.
    Parts(Merge),
    /// The parts in [`Keys::parts`], step by step.
    Emulated,
    /// The parts in [`Keys::parts`], whose client waits for all.
    Waits,
    /// Whole to all shards.
    All(Merge),
    /// Whole to one shard after the other.
    InTurn,
    /// To all shards, for a report of shardis.
    Told,
    /// To the shards of the channels in [`Keys::parts`], or to all; clients share the subscription.
    Subscribed,
    /// Nowhere.
    Here,
    Refused(String),
}

/// Explains `request`.
pub fn explain(rules: &Rules<'_>, request: &Request<'_>) -> Explanation {
    match rules.policy.map(|policy| policy.names.meaning(request.arg(0))) {
        Some(Named::As(name)) => {
            let words = std::iter::once(name).chain(request.args().skip(1));
            explain_named(rules, &Rewritten::of(words, request.len()).request())
        }
        Some(Named::Nothing) => refused_by(Resolved::Unknown, request),
        Some(Named::AsWritten) | None => explain_named(rules, request),
    }
}

/// Explains `request` with the name that Redis has for its command.
fn explain_named(rules: &Rules<'_>, request: &Request<'_>) -> Explanation {
    let (resolved, number) = command::resolve_numbered(request);
    let command = match resolved {
        Resolved::Command(command) => command,
        Resolved::Unknown => {
            return Explanation {
                carried: "as its line in COMMAND INFO of a node says",
                route: "a node is asked about the command first, since the table lacks it",
                ..Explanation::default()
            };
        }
        resolved => return refused_by(resolved, request),
    };
    let mut keys = Keys::default();
    keys.resize(rules.topology.divisions());
    let objection = rules.policy.and_then(|policy| policy.objection(command, number, request));
    let way = match objection {
        Some(text) => Way::Refused(text),
        None => way(rules, command, request, &mut keys),
    };
    describe(rules, command, &way, request, &keys)
}

/// A request that names no command of the right form.
fn refused_by(resolved: Resolved<'_>, request: &Request<'_>) -> Explanation {
    let mut error = Vec::new();
    resolved.write_error(&mut error, request);
    Explanation { route: "refused", refused: text_of(&error), ..Explanation::default() }
}

fn way(rules: &Rules<'_>, command: &Command, request: &Request<'_>, keys: &mut Keys) -> Way {
    let refused = |refusal: Refusal| {
        let mut error = Vec::new();
        refusal.write_error(&mut error, command, request);
        Way::Refused(text_of(&error))
    };
    match command.carry {
        Carry::ShardIf(_) | Carry::OnlyShard(_)
            if let Some(objection) = Objection::to(command, request, rules.topology, rules.databases) =>
        {
            match objection {
                Objection::Refusal(refusal) => refused(refusal),
                Objection::MissingDatabase => Way::Refused(errors::DB_OUT_OF_RANGE.to_owned()),
            }
        }
        Carry::Split(merge) => match keys.find(command, request, rules.topology) {
            // A key lacks its value: the node refuses the whole.
            2.. if !command.splits_evenly(request.len()) => Way::One(rules.topology.keyless()),
            2.. => Way::Parts(merge),
            _ => by_keys(rules, command, keys),
        },
        Carry::Blocking(Wait::Replicas) => Way::All(Merge::Least),
        Carry::AllShards(merge) => Way::All(merge),
        Carry::Publish(_) => Way::One(rules.topology.shard_of(request.arg(1))),
        Carry::Cursor => Way::InTurn,
        Carry::AnyShard | Carry::OnlyShard(_) => Way::One(rules.topology.keyless()),
        Carry::Here(Local::Info) => Way::Told,
        Carry::Here(Local::Subscribe(Topic::Pattern)) => Way::Subscribed,
        Carry::Here(Local::Subscribe(_)) => {
            keys.positions.extend(1..request.len());
            keys.divide(request, rules.topology);
            Way::Subscribed
        }
        Carry::Here(_) | Carry::Container => Way::Here,
        Carry::Admin(why, _) if !rules.allow_admin => refused(Refusal::Admin(why)),
        Carry::Admin(..) => Way::All(Merge::AnyReply),
        Carry::Refused(refusal) => refused(refusal),
        Carry::Transaction(_) if keys.find(command, request, rules.topology) == 0 => Way::Here,
        Carry::Shard | Carry::ShardIf(_) | Carry::Script(_) | Carry::Blocking(_) | Carry::Transaction(_) => {
            keys.find(command, request, rules.topology);
            by_keys(rules, command, keys)
        }
    }
}

/// The way of a request by the shards of its keys.
fn by_keys(rules: &Rules<'_>, command: &Command, keys: &Keys) -> Way {
    match (keys.parts.as_slice(), command.carry) {
        ([], _) => Way::One(rules.topology.keyless()),
        ([part], _) => Way::One(part.shard),
        (_, Carry::Blocking(Wait::BlockAcross)) => Way::Waits,
        _ if rules.cross_shard == CrossShard::Refuse || command.across == Across::Refused => {
            let example = rules.topology.tagged_keys();
            Way::Refused(Remedy::of(command).text(example.as_deref()))
        }
        _ => Way::Emulated,
    }
}

fn describe(
    rules: &Rules<'_>,
    command: &Command,
    way: &Way,
    request: &Request<'_>,
    keys: &Keys,
) -> Explanation {
    let topology = rules.topology;
    let whole = |shard: ShardId| target(topology, shard, keys.positions.iter().map(|&at| request.arg(at)));
    let parts = || {
        // In one pass: there may be as many parts as keys.
        let mut owned = vec![Vec::new(); keys.parts.len()];
        for (&at, &part) in keys.positions.iter().zip(&keys.part_of_key) {
            owned[part as usize].push(request.arg(at));
        }
        let parts = keys.parts.iter().zip(owned);
        parts.map(|(part, owned)| target(topology, part.shard, owned.into_iter())).collect::<Vec<_>>()
    };
    let all = || topology.all_shards().map(|shard| target(topology, shard, [].into_iter())).collect();
    let (route, targets, merged) = match way {
        Way::One(shard) => ("whole to one shard", vec![whole(*shard)], ""),
        Way::Parts(merge) => ("one part for each shard, at the same time", parts(), command::merged(*merge)),
        Way::Emulated => ("emulated: values are fetched, and the result is written", parts(), ""),
        Way::Waits => ("one part for each shard; the client waits for the first", parts(), ""),
        Way::All(merge) => ("whole to all shards", all(), command::merged(*merge)),
        Way::InTurn => ("whole to one shard after the other, by the cursor", all(), ""),
        Way::Told => ("answered by shardis, which asks all shards", all(), ""),
        Way::Subscribed if keys.parts.is_empty() => ("on all shards, once for all clients", all(), ""),
        Way::Subscribed => ("on the shard of the channel, once for all clients", parts(), ""),
        Way::Here => ("answered by shardis", Vec::new(), ""),
        Way::Refused(_) => ("refused", Vec::new(), ""),
    };
    let is_read = command.flags.contains(Flags::READONLY) && !targets.is_empty();
    Explanation {
        command: command.name.replace('|', " "),
        carried: command::carried(command),
        route,
        refused: if let Way::Refused(text) = way { text.clone() } else { String::new() },
        sent_again: sent_again(topology, &targets, is_read),
        merged: if targets.len() > 1 { merged } else { "" },
        targets,
        is_read,
    }
}

fn sent_again(topology: &Topology, targets: &[Target], is_read: bool) -> &'static str {
    match () {
        () if targets.is_empty() => "it is not sent",
        () if is_read => "yes: it changes nothing",
        () if topology.is_cluster() => "only if the node says that it did not run it",
        () => "no: it may have run",
    }
}

/// The part with these keys, for `shard`.
fn target<'k>(topology: &Topology, shard: ShardId, keys: impl ExactSizeIterator<Item = &'k [u8]>) -> Target {
    let key_count = keys.len();
    let shown: Vec<Vec<u8>> = keys.take(KEYS_SHOWN_MAX).map(<[u8]>::to_vec).collect();
    Target {
        shard: topology.shard(shard).name.clone(),
        node: topology.primary_address(shard).map(ToString::to_string).unwrap_or_default(),
        slots: shown.iter().filter_map(|key| topology.slot_of_key(key)).collect(),
        keys: shown,
        key_count,
    }
}

/// The text of an error reply.
fn text_of(error: &[u8]) -> String {
    String::from_utf8_lossy(error.strip_suffix(b"\r\n").unwrap_or(error)).trim_start_matches('-').to_owned()
}
