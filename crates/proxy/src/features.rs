//! The state that features keep with a session, and the names of their tasks.

use crate::ConnId;

use crate::held::watch::Watch;
use crate::link::proof::Proof;
use crate::login::identity::Login;
use crate::namespace::Named;
use crate::pubsub::audience::Receivers;
use crate::pubsub::subscribed::Subscribed;
use crate::reading::reads::Reads;
use crate::scripts::known::Loaded;
use crate::session::{self, replies};
use crate::tracking::Tracking;
use crate::transaction::queued::Transaction;
use command::Number;
use engine::memory::Charge;
use stdx::Id;

/// The features of the proxy.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Features {}

impl engine::features::Features for Features {
    type Task = TaskId;
    type Session = SessionFeatures;
    type Kind = TaskKind;
    type Command = Number;
    const NO_COMMAND: Number = Number::NONE;
    type Link = LinkFeatures;
    type Proof = Proof;

    fn end_link(features: &mut LinkFeatures) {
        let &mut LinkFeatures { has_lost_keys, watched_slot, is_altered, is_unblocked, .. } = features;
        *features =
            LinkFeatures { has_lost_keys, watched_slot, is_altered, is_unblocked, ..LinkFeatures::default() };
    }
}

/// The engine with the features of the proxy.
pub(crate) type Engine = engine::engine::Engine<Features>;
/// The owner and kind of a request before its place in a queue is known.
pub(crate) type Asked = engine::engine::Asked<Features>;
/// One connection to a node, or the plan for one.
pub(crate) type Link = engine::link::Link<Features>;
/// A request that is to be sent again.
pub(crate) type Retry = engine::retry::Retry<Features>;
/// The owner of one reply in flight.
pub(crate) type Ticket = engine::link::Ticket<Features>;
/// The owner of a reply.
pub(crate) type Owner = engine::link::Owner<TaskKind>;

/// The purpose of a task's request to a node. Unless its text says otherwise, the ticket's `conn` names the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// The reply describes a command; `conn` numbers the question.
    Learn,
    /// The reply shows whether clients that have not logged in are a user. The client in `conn` waits for it.
    DefaultUser,
    /// The reply goes to an inquiry; `part` is the shard.
    Inquiry,
    /// The reply goes to an emulation; `part` is the question.
    Emulation,
    /// The reply goes to a fan; `part` is the part.
    Fan,
    /// The reply goes to a transaction over several shards; `part` is the part, and `place` tells the question.
    Execution,
    /// The reply shows whether the part of a fan was unblocked; `conn` names its connection, which is that of link
    /// `part`.
    Unblock,
    /// The reply confirms a subscription to the topic in `conn`, a channel or a pattern.
    Subscribe,
    /// The same for a shard channel, whose node may decline it.
    SubscribeShard,
    /// The same for the end of a subscription to a shard channel.
    UnsubscribeShard,
    /// The reply confirms the end of a subscription to a channel or a pattern; `conn` names the client that waits, `part` is the shard.
    Unsubscribe,
    /// The reply confirms that the node reports changes; `part` is the shard.
    Track,
    /// The reply holds the present value for the check in `conn`.
    Check,
    /// The reply shows that the node lives.
    Probe,
    /// The reply holds the node's number for the connection.
    Name,
    /// The reply shows whether the node knows WAITAOF.
    Waitaof,
    /// The reply shows whether the write that marks the node's offset has run, for part `part` of the fan in `conn`.
    Mark,
    /// The reply holds the role of the node: see `inspection.rs`. `place` is the node, `part` its shard.
    Role,
    /// The reply holds the memory of the node `place`: see `node_memory.rs`.
    Memory,
    /// The reply holds the node's replication offset: see [`crate::reading::Readers::absorb_poll`].
    Poll,
}

/// A node's number for a connection, as far as known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeName {
    /// The node was not asked.
    #[default]
    Unasked,
    /// The node was asked and has not answered.
    Asked,
    /// The number.
    Known(i64),
    /// The node does not tell.
    Hidden,
}

impl NodeName {
    /// The number, if known.
    pub(crate) fn known(self) -> Option<i64> {
        match self {
            NodeName::Known(name) => Some(name),
            NodeName::Unasked | NodeName::Asked | NodeName::Hidden => None,
        }
    }

    /// Notes that the node is asked. A known number stays.
    pub(crate) fn ask(&mut self) {
        if *self == NodeName::Unasked {
            *self = NodeName::Asked;
        }
    }
}

/// State of features in a link.
#[derive(Debug, Default)]
pub(crate) struct LinkFeatures {
    /// Scripts that this connection has loaded on its node.
    pub loaded: Loaded,
    /// The client that holds the link, if any.
    pub held_by: Option<ConnId>,
    /// In a cluster, the slot of the keys that are watched on a held link.
    pub watched_slot: Option<u16>,
    /// Whether the node has lost keys since the link is held. Keys of a new WATCH may then be elsewhere.
    pub has_lost_keys: bool,
    /// The node's number for this connection.
    pub name: NodeName,
    /// Whether the node knows WAITAOF; `None` if unknown. See [`crate::held::acknowledged`].
    pub knows_waitaof: Option<bool>,
    /// Whether a CLIENT UNBLOCK for the waiting client may still arrive. Another client must not get the link then.
    pub is_sought: bool,
    /// Whether the state of the connection differs from its profile.
    pub is_altered: bool,
    /// Whether a CLIENT UNBLOCK of ours may still arrive, because the node has not answered it.
    pub is_unblocked: bool,
}

/// Our state for one client connection.
pub(crate) type Session = session::Session<Features>;
/// The source of the reply for a place.
pub(crate) type Owed = replies::Owed<TaskId>;

/// The task that makes one reply of the replies of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskId {
    /// The nodes of a SCAN, one after another.
    Scan(Id),
    /// The nodes of a merge.
    Merge(Id),
    /// An inquiry.
    Inquiry(Id),
    /// A command over several shards.
    Emulation(Id),
    /// An XREAD that waits on several shards.
    Fan(Id),
    /// The nodes of a topic, or the nodes that must report changes.
    Subscription,
    /// One node, whose number of receivers of a message is corrected for the receivers behind shardis.
    Receivers(Receivers),
    /// One node, which runs a transaction.
    Exec,
    /// The same, for a transaction that may have to be sent again.
    Replay(Id),
    /// The nodes of a transaction over several shards.
    Execution(Id),
    /// The same, for a transaction with replies that are made here.
    Mixture(Id),
    /// One node, which decides about a login.
    Login(Id),
    /// One node, which decides whether the client may send a request that is answered here.
    Judged(Id),
}

/// State of features in a session.
#[derive(Debug)]
pub(crate) struct SessionFeatures {
    /// The last command.
    pub last: Number,
    /// Settings that shardis only remembers.
    pub wishes: Wishes,
    /// Subscriptions, and other output beside replies.
    pub subscribed: Option<Box<Subscribed>>,
    /// The name set by CLIENT SETNAME.
    pub name: Option<Box<Name>>,
    /// The client's identity.
    pub login: Login,
    /// The namespace of the client's user.
    pub namespace: Option<Box<Named>>,
    /// Whether the log has reported a CROSSSLOT error of this client.
    pub is_cross_slot_told: bool,
    /// Whether keys are watched for it.
    pub watch: Watch,
    /// The transaction since MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// State of reads, if they may go to replicas.
    pub reads: Option<Box<Reads>>,
}

impl Default for SessionFeatures {
    fn default() -> SessionFeatures {
        SessionFeatures {
            last: Number::NONE,
            wishes: Wishes::default(),
            subscribed: None,
            name: None,
            login: Login::default(),
            namespace: None,
            is_cross_slot_told: false,
            watch: Watch::No,
            transaction: None,
            reads: None,
        }
    }
}

/// Settings of a client that change nothing here. CLIENT LIST shows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wishes {
    /// READONLY.
    pub replica_reads: bool,
    /// CLIENT NO-EVICT.
    pub no_evict: bool,
    /// CLIENT NO-TOUCH.
    pub no_touch: bool,
}

/// A client's name.
#[derive(Debug)]
pub(crate) struct Name {
    pub text: Box<[u8]>,
    pub charge: Charge,
}

impl SessionFeatures {
    /// The name set by CLIENT SETNAME; empty if there is none.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_ref().map_or(&[], |name| &name.text)
    }

    /// Bytes that the client leaves behind and that belong to it: its name, and its keys for tracking.
    pub(crate) fn left_bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.charge.bytes());
        name + self.tracking().map_or(0, |tracking| tracking.charge.bytes())
    }

    /// The same as [`SessionFeatures::left_bytes`], summed up anew.
    pub(crate) fn add_up_left(&self) -> usize {
        self.name().len() + self.tracking().map_or(0, Tracking::held_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::replies::Replies;

    #[test]
    fn a_ticket_stays_small() {
        assert_eq!(size_of::<Ticket>(), 40);
    }

    #[test]
    fn an_idle_session_is_small() {
        // A box would cost each request one more look-up, and these few bytes cost an idle client little. Eight of them
        // are for the generation of its profile, and eight for keys that are watched on several shards. Sixteen are for a
        // namespace and its replies.
        assert!(size_of::<Session>() <= 416, "{}", size_of::<Session>());
        assert_eq!(Replies::<TaskId>::PLACE_BYTES, 32);
    }
}
