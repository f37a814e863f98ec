//! What features keep of a session, and the names of their tasks.

use crate::ConnId;

use crate::held::watch::Watch;
use crate::link::proof::Proof;
use crate::login::identity::Login;
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

/// What every feature works with.
pub(crate) type Engine = engine::engine::Engine<Features>;
/// A request before it has its place in a queue.
pub(crate) type Asked = engine::engine::Asked<Features>;
/// One connection to a node, or the wish for one.
pub(crate) type Link = engine::link::Link<Features>;
/// A request that is to be sent again.
pub(crate) type Retry = engine::retry::Retry<Features>;
/// What waits for one reply.
pub(crate) type Ticket = engine::link::Ticket<Features>;
/// Who gets a reply.
pub(crate) type Owner = engine::link::Owner<TaskKind>;

/// What a task asks a node; where nothing else is said, the ticket's `conn` names the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// The reply says what a command is; `conn` numbers the question.
    Learn,
    /// It says whether clients are somebody that have not said who they are; the one that `conn` names waits for that.
    DefaultUser,
    /// It goes into the inquiry; `part` is the shard.
    Inquiry,
    /// It goes into the emulation; `part` is the question.
    Emulation,
    /// It goes into the fan; `part` is the part.
    Fan,
    /// It goes into the transaction over several shards; `part` is the part, and `place` says what was asked.
    Execution,
    /// It says whether a fan's part was let go; `conn` names its connection, which is that of the link `part`.
    Unblock,
    /// It says that the topic that `conn` names is subscribed to.
    Subscribe,
    /// It says that it is not any more; `conn` names who waits, `part` is the shard.
    Unsubscribe,
    /// It says that the node tells of changes; `part` is the shard.
    Track,
    /// It says what the key has now of the check that `conn` names.
    Check,
    /// It shows that the node lives.
    Probe,
    /// It says which number the node gave to the connection.
    Name,
    /// It says whether the node knows WAITAOF.
    Waitaof,
    /// It says whether the node has noted how far it is, for the part `part` of the fan that `conn` names.
    Mark,
    /// It says which role the node has: see `inspection.rs`. `place` is the node, `part` its shard.
    Role,
    /// It says how far the node is with replication: see [`crate::reading::Readers::absorb_poll`].
    Poll,
}

/// Which number a node gave to a connection, as far as that is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum NodeName {
    /// It was not asked.
    #[default]
    Unasked,
    /// It was, and has not said so.
    Asked,
    /// This one.
    Known(i64),
    /// It does not say.
    Hidden,
}

impl NodeName {
    /// The number, if it is known.
    pub(crate) fn known(self) -> Option<i64> {
        match self {
            NodeName::Known(name) => Some(name),
            NodeName::Unasked | NodeName::Asked | NodeName::Hidden => None,
        }
    }

    /// The node is asked. What is known stays so.
    pub(crate) fn ask(&mut self) {
        if *self == NodeName::Unasked {
            *self = NodeName::Asked;
        }
    }
}

/// What features keep of a link.
#[derive(Debug, Default)]
pub(crate) struct LinkFeatures {
    /// Scripts that this connection brought to its node.
    pub loaded: Loaded,
    /// Which client holds it, if it is held.
    pub held_by: Option<ConnId>,
    /// In a cluster, the slot of keys that are watched on it, if it is held.
    pub watched_slot: Option<u16>,
    /// Its node has lost keys since it is held: what is asked to be watched there now may be elsewhere.
    pub has_lost_keys: bool,
    /// Which number the node gave to this connection.
    pub name: NodeName,
    /// Whether its node knows WAITAOF; `None` as long as it has not said so. See [`crate::held::acknowledged`].
    pub knows_waitaof: Option<bool>,
    /// CLIENT UNBLOCK may yet come for who waits here: another client must not get the connection.
    pub is_sought: bool,
    /// It is not any more what its profile wants.
    pub is_altered: bool,
    /// CLIENT UNBLOCK of ours may yet come, until the node has said what came of it.
    pub is_unblocked: bool,
}

/// Our state for one client connection.
pub(crate) type Session = session::Session<Features>;
/// Whom a place waits for.
pub(crate) type Owed = replies::Owed<TaskId>;

/// What makes a reply of what nodes answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskId {
    /// One node, and if it misses a script, the request goes once more.
    Repeat(Id),
    /// The nodes of a SCAN, one after the other.
    Scan(Id),
    /// The nodes of a merge.
    Merge(Id),
    /// An inquiry.
    Inquiry(Id),
    /// A command over several shards.
    Emulation(Id),
    /// An XREAD that waits on several shards.
    Fan(Id),
    /// The nodes of a topic, or those that are to tell of changes.
    Subscription,
    /// One node, which counts those who get a message through us in its own way.
    Receivers(Receivers),
    /// One node, which runs a transaction.
    Exec,
    /// The same, of a transaction that may have to be sent again.
    Replay(Id),
    /// The nodes of a transaction over several shards.
    Execution(Id),
    /// The same, with what is added here.
    Mixture(Id),
    /// One node, which says whether the client is who it says that it is.
    Login(Id),
    /// One node, which says whether the client may ask what is answered here.
    Judged(Id),
}

/// What features keep of a session.
#[derive(Debug)]
pub(crate) struct SessionFeatures {
    /// What it asked for last.
    pub last: Number,
    /// What it asked for and we only remember.
    pub wishes: Wishes,
    /// What it is subscribed to, or sees beside its replies, if anything.
    pub subscribed: Option<Box<Subscribed>>,
    /// As CLIENT SETNAME set it, if it did.
    pub name: Option<Box<Name>>,
    /// Who it is.
    pub login: Login,
    /// The log was told that a request of it was refused with CROSSSLOT.
    pub is_cross_slot_told: bool,
    /// Whether keys are watched for it.
    pub watch: Watch,
    /// What it has begun with MULTI.
    pub transaction: Option<Box<Transaction>>,
    /// What concerns its reads, if they may go to replicas.
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
            is_cross_slot_told: false,
            watch: Watch::No,
            transaction: None,
            reads: None,
        }
    }
}

/// What a client asked for that changes nothing here; CLIENT LIST shows it.
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
    /// As CLIENT SETNAME set it; empty if it did not.
    pub(crate) fn name(&self) -> &[u8] {
        self.name.as_ref().map_or(&[], |name| &name.text)
    }

    /// Bytes of what the client leaves behind that is its own: its name, and what it has said of keys that it tracks.
    pub(crate) fn left_bytes(&self) -> usize {
        let name = self.name.as_ref().map_or(0, |name| name.charge.bytes());
        name + self.tracking().map_or(0, |tracking| tracking.charge.bytes())
    }

    /// The same as [`SessionFeatures::left_bytes`], added up anew.
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
        // A look into a box would cost each request more than these few bytes more cost an idle client. Eight of them are
        // for the generation of its profile, and eight for keys that are watched on several shards.
        assert!(size_of::<Session>() <= 400, "{}", size_of::<Session>());
        assert_eq!(Replies::<TaskId>::PLACE_BYTES, 32);
    }
}
