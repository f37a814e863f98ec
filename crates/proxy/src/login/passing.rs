//! Users of the nodes (`--auth=nodes`): what a client says in AUTH is said to the nodes, and they decide who it is and what
//! it may do.
//!
//! ```text
//!   AUTH bob b ─► a connection over which only AUTH goes ─┬─► +OK ─────────► bob's own profiles: AUTH bob b, HELLO, requests
//!                                                        └─► -WRONGPASS … ─► the client, which stays who it was
//!   nothing said ─► is the nodes' default user open? ─ yes ─► the first profile
//!                                                    └ no ──► NOAUTH
//! ```
//!
//! A profile is of one user and one password ([`Who::Client`]), so that no request ever goes over a connection that somebody
//! else has logged in on. Whoever says the same shares the connections. One shard is asked for all; the others are told
//! when their connections of the profile begin, and what they have against it is what requests to them are answered.
//!
//! What the proxy answers itself no node judges. So of that, only what concerns the client alone is left; what concerns
//! others is confined to clients of the same user, sent to the nodes, or refused ([`decided`]).

use crate::ConnId;
use crate::core::Core;
use crate::errors::{self, Lost};
use crate::features::{Asked, Link, Owed, Owner, Session, TaskId, TaskKind};
use crate::limits::Authority;
use crate::link::greeting::PING;
use crate::link::profiles::{Profile, Who};
use crate::link::{LinkIx, ProfileId, Use};
use crate::local;
use crate::login::Login;
use crate::login::credentials::Credentials;
use crate::proxy::{Peer, Proxy};
use crate::requests::Step;
use crate::requests::route::Keys;
use crate::session::Reason;
use command::{
    AclQuestion, Carry, ClientTask, Command, Flags, Local, Merge, PubSubQuestion, Refusal, Within,
};
use resp::Request;
use stdx::{Id, Slab, append};
use users::DEFAULT;

/// What a worker knows of logins that nodes decide.
#[derive(Debug)]
pub(crate) struct Passing {
    pub default_user: DefaultUser,
    /// Clients that wait to be told whether they are in.
    pub attempts: Slab<Attempt>,
    /// What clients are told once a node has said that they may ask for it.
    judged: Slab<Vec<u8>>,
}

/// Whether clients are somebody to the nodes that have not said who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DefaultUser {
    /// No node was asked yet.
    Unknown,
    /// They are the default user.
    Open,
    /// They are not.
    Closed,
}

/// What a client has said of itself, until a node has answered.
#[derive(Debug)]
pub(crate) struct Attempt {
    credentials: Credentials,
    name: Box<[u8]>,
    /// What it wants beside that, if it has said HELLO.
    hello: Option<Hello>,
}

#[derive(Debug)]
struct Hello {
    resp3: bool,
    name: Option<Box<[u8]>>,
}

/// Longer names and passwords are said to no node: as much as Redis takes of somebody who is not logged in.
const WORD_BYTES_MAX: usize = 16 * 1024;

impl Passing {
    pub(crate) fn new(credentials: &Credentials) -> Passing {
        // The first profile's connections are ours alone if we are somebody by ourselves.
        let is_ours = credentials.request().is_some();
        let default_user = if is_ours { DefaultUser::Closed } else { DefaultUser::Unknown };
        Passing { default_user, attempts: Slab::default(), judged: Slab::default() }
    }
}

/// Whether an error of a node is about who asks.
pub(crate) fn is_denial(error: &str) -> bool {
    ["WRONGPASS ", "NOAUTH ", "NOPERM "].iter().any(|word| error.starts_with(word))
}

impl Core {
    /// Whether the nodes decide who clients are.
    #[inline]
    pub(crate) fn has_users_of_nodes(&self) -> bool {
        self.settings.authority == Authority::Nodes
    }

    /// Who a client is that has just arrived, or has said RESET.
    pub(crate) fn newcomer(&self) -> Login {
        match self.settings.authority {
            Authority::Proxy => Login::newcomer(&self.logins.users),
            Authority::Nodes => Login::of_default_user(self.logins.passing.default_user),
        }
    }

    /// `AUTH [user] password`
    pub(crate) fn auth_at_nodes(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        let (user, password) = match request.len() {
            2 => (None, request.arg(1)),
            3 => (Some(request.arg(1)), request.arg(2)),
            _ => return errors::write(reply, errors::SYNTAX),
        };
        self.ask_to_log_in(session, (user, password), None, reply);
    }

    /// `HELLO version AUTH user password [SETNAME name]`: all of it comes true, or nothing.
    pub(crate) fn hello_at_nodes(
        &mut self,
        session: &mut Session,
        (user, password): (&[u8], &[u8]),
        (resp3, name): (bool, Option<&[u8]>),
        reply: &mut Vec<u8>,
    ) {
        if let Some(Err(text)) = name.map(local::check_name) {
            return errors::write(reply, text);
        }
        let hello = Hello { resp3, name: name.map(Box::from) };
        self.ask_to_log_in(session, (Some(user), password), Some(hello), reply);
    }

    /// Says to a node what the client says of itself. Nothing behind it is read before the node has answered.
    fn ask_to_log_in(
        &mut self,
        session: &mut Session,
        (user, password): (Option<&[u8]>, &[u8]),
        hello: Option<Hello>,
        reply: &mut Vec<u8>,
    ) {
        let name = user.unwrap_or(DEFAULT);
        if name.len().max(password.len()) > WORD_BYTES_MAX {
            return errors::write(reply, errors::CREDENTIALS_TOO_LONG);
        }
        let ix = match self.login_link() {
            Ok(ix) => ix,
            Err(lost) => return errors::write(reply, &lost.text()),
        };
        let credentials = Credentials::new(user, password);
        let attempt = Attempt { credentials: credentials.clone(), name: name.into(), hello };
        let place =
            session.replies.reserve(Owed::Task(TaskId::Login(self.logins.passing.attempts.insert(attempt))));
        session.hold.add(Reason::Order);
        let request = credentials.request().unwrap_or_default();
        self.engine.enqueue_on(ix, request, Asked::by_client(session.conn, place));
    }

    /// The connection over which clients log in.
    fn login_link(&mut self) -> Result<LinkIx, Lost> {
        let kind = Profile { who: Who::Nobody, ..Profile::default() };
        let profile = self.profiles.of_kind(kind, self.engine.now);
        self.profiles.touch(profile, self.engine.now);
        self.shared_link(profile, self.engine.topology.keyless())
    }

    /// A node has answered `reply` to what the session says of itself; appends what the client gets.
    pub(crate) fn end_attempt(&mut self, session: &mut Session, id: Id, reply: &[u8], out: &mut Vec<u8>) {
        let Some(Attempt { credentials, name, hello }) = self.lose_attempt(session, id) else { return };
        if reply != OK {
            return append(out, reply);
        }
        let resp3 = hello.as_ref().map_or(session.resp3, |hello| hello.resp3);
        if !self.enter_as(session, &credentials, &name, resp3) {
            return errors::write(out, errors::USERS_MAX);
        }
        let Some(hello) = hello else { return append(out, OK) };
        if let Some(name) = hello.name {
            let named = self.set_name(session, &name);
            debug_assert!(named.is_ok(), "it was checked before it was said to a node");
        }
        local::write_hello(session, out);
    }

    /// Nobody waits for it any more: no node will answer, or one has.
    pub(crate) fn lose_attempt(&mut self, session: &mut Session, id: Id) -> Option<Attempt> {
        session.hold.remove(Reason::Order);
        self.engine.todo.clients_to_resume.push(session.conn);
        self.logins.passing.attempts.remove(id)
    }

    /// The session is `name` from now on, and goes over connections that are so too. False if there are too many.
    fn enter_as(
        &mut self,
        session: &mut Session,
        credentials: &Credentials,
        name: &[u8],
        resp3: bool,
    ) -> bool {
        let identities = &mut self.profiles.identities;
        let Some(id) = identities.enter(credentials, name, self.limits.identities_max) else {
            return false;
        };
        let Some(login) = identities.user(id).map(Login::of_nodes) else { return false };
        let kind = Profile { resp3, who: Who::Client(id), ..self.profiles.kind(session.profile) };
        if self.profiles.of_kind(kind, self.engine.now) == ProfileId::NONE {
            self.profiles.identities.forget_unused(id);
            return false;
        }
        if session.resp3 != resp3 {
            // Messages come in the new protocol from now on: not before the client knows.
            session.replies.raise_barrier(session.replies.front());
        }
        self.change_profile(session, kind);
        session.features.login = login;
        true
    }

    /// A profile of whom the session is, in which replies are of RESP2.
    pub(crate) fn plain_profile(&mut self, session: &Session) -> ProfileId {
        let kind = self.profiles.kind(session.profile).plain();
        let profile = self.profiles.of_kind(kind, self.engine.now);
        self.profiles.touch(profile, self.engine.now);
        profile
    }

    /// The clients that `session` may know of and do something to: those of this user; without one, all.
    pub(crate) fn confined_to(&self, session: &Session) -> Option<Box<[u8]>> {
        self.has_users_of_nodes().then(|| session.features.login.name().into())
    }

    /// What is not sent on `link`, for this reason.
    #[cold]
    pub(crate) fn not_sent_on(&self, link: &Link, reason: &str) -> Lost {
        match self.is_denied(link.profile, reason) {
            true => {
                let shard = self.engine.shard_name(link.shard).to_owned();
                Lost::Denied { shard, error: reason.to_owned() }
            }
            false => self.engine.not_sent(link.shard, reason),
        }
    }

    /// Whether `reason`, for which a connection of `profile` cannot be had, is what its node has against the client.
    pub(crate) fn is_denied(&self, profile: ProfileId, reason: &str) -> bool {
        matches!(self.profiles.kind(profile).who, Who::Client(_)) && is_denial(reason)
    }

    /// Clients' own profiles that nothing is left of are forgotten, and so are passwords with them.
    pub(crate) fn forget_profiles(&mut self) {
        for profile in self.profiles.deserted(&self.limits, self.engine.now) {
            let is_heard = self.subscriptions.topics.has_profile(profile);
            if !is_heard && self.engine.links.iter().all(|link| link.profile != profile) {
                self.profiles.remove(profile);
            }
        }
    }
}

const OK: &[u8] = b"+OK\r\n";

/// Who answers what the proxy would otherwise answer by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decided {
    /// The proxy: it is about the client itself, or the same for all.
    Here,
    /// A node, which has its own opinion of who may ask.
    OneNode,
    /// The proxy, if a node does not mind.
    HereIfAllowed(PubSubQuestion),
    /// All nodes, likewise.
    AllNodes(Merge),
    /// Nobody.
    Refused(&'static str),
}

const OF_OTHERS: &str = "with --auth=nodes shardis cannot check this user's permission, and the command affects clients of other users";
const OF_EACH_NODE: &str = "with --auth=nodes each node has a log of its own: ask the nodes";
const NOT_QUEUED: &str = "with --auth=nodes shardis cannot check this user's permission within a transaction";
const SHARED_CONNS: &str =
    "with --auth=nodes it is not available, since invalidations come over links that all users share";

/// Who answers `local`.
fn decided(local: Local) -> Decided {
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
        Local::PubSub(question) => Decided::HereIfAllowed(question),
        Local::Client(ClientTask::Track | ClientTask::Caching) => Decided::Refused(SHARED_CONNS),
        // CLIENT LIST, KILL and UNBLOCK are confined to clients of the same user, and INFO asks the nodes.
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

/// What becomes in a transaction of what the proxy would otherwise answer by itself.
pub(crate) fn within_transaction(local: Local, command: &Command) -> Within {
    match (command.within_transaction(), decided(local)) {
        (Within::Here, Decided::OneNode) => Within::Kept,
        // Between the replies of a node to a transaction there is none that says whether.
        (Within::Here, Decided::HereIfAllowed(_)) => Within::Refused(Refusal::Never(NOT_QUEUED)),
        (Within::Here, Decided::Refused(why)) => Within::Refused(Refusal::Never(why)),
        (within, _) => within,
    }
}

impl Core {
    /// Carries out what the proxy answers by itself, as far as that needs no node's opinion of who asks.
    pub(crate) fn answer_with_nodes(
        &mut self,
        session: &mut Session,
        local: Local,
        command: &Command,
        request: &Request<'_>,
        (keys, reply): (&mut Keys, &mut Vec<u8>),
    ) {
        match decided(local) {
            Decided::Here => self.answer_here(session, local, command, request, reply),
            Decided::OneNode => self.send(session, command, self.engine.topology.keyless(), request.bytes),
            Decided::HereIfAllowed(question) => {
                let mut answer = Vec::new();
                self.pubsub(question, request, &mut answer);
                self.answer_if_allowed(session, request, answer);
            }
            Decided::AllNodes(merge) => self.send_to_all(session, command, merge, request, keys),
            Decided::Refused(why) => {
                self.refuse_command(session, command, Refusal::Never(why), request);
            }
        }
    }
}

impl Core {
    /// Sends `request` to a node, to hear whether it may be asked for: then `answer` answers it.
    fn answer_if_allowed(&mut self, session: &mut Session, request: &Request<'_>, answer: Vec<u8>) {
        let ix = match self.link_for(session, self.engine.topology.keyless()) {
            Ok(ix) => ix,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        let place =
            session.replies.reserve(Owed::Task(TaskId::Judged(self.logins.passing.judged.insert(answer))));
        self.engine.enqueue_on(ix, request.bytes, Asked::by_client(session.conn, place));
    }

    /// What no node sees must wait until one has said whether clients must log in. `None` if that is known, or cannot be
    /// asked now; else the request is read again when there is an answer.
    pub(crate) fn ask_for_default_user(&mut self, session: &mut Session, command: &Command) -> Option<Step> {
        let is_seen = match command.carry {
            Carry::Here(Local::Hello) => false,
            Carry::Here(_) | Carry::Transaction(_) | Carry::Admin(..) | Carry::Refused(_) => {
                command.flags.contains(Flags::NO_AUTH)
            }
            _ => true,
        };
        if is_seen || !session.features.login.is_unknown() {
            return None;
        }
        // How the connection is greeted says it: see [`Proxy::note_default_user`].
        let Ok(ix) = self.shared_link(ProfileId::FIRST, self.engine.topology.keyless()) else {
            session.features.login.give_up_asking();
            return None;
        };
        session.hold.add(Reason::Question);
        let asked = Asked { owner: Owner::Task(TaskKind::DefaultUser), ..Asked::by_client(session.conn, 0) };
        self.engine.enqueue_on(ix, PING, asked);
        Some(self.read_again())
    }

    /// A node has answered `reply` to what may be answered here: appends what the client gets.
    pub(crate) fn end_judgement(&mut self, id: Id, reply: &[u8], out: &mut Vec<u8>) {
        let answer = self.forget_judgement(id);
        let may_ask = !resp::reply::is_error(reply);
        append(out, if may_ask { &answer } else { reply });
    }

    /// Nobody waits for it any more, and what it would have been.
    pub(crate) fn forget_judgement(&mut self, id: Id) -> Vec<u8> {
        self.logins.passing.judged.remove(id).unwrap_or_default()
    }
}

impl Proxy {
    /// The client that `conn` names has waited for a node to say whether it must log in, which it has, or will not.
    pub(crate) fn end_question_for_default_user(&mut self, conn: ConnId) {
        let Some(Peer::Client(session)) = self.peers.get_mut(conn) else { return };
        session.features.login.give_up_asking();
        session.hold.remove(Reason::Question);
        self.core.engine.todo.clients_to_resume.push(conn);
    }

    /// The connection `ix` was greeted with `reply`: if nobody has logged in on it, that says whether the default user is
    /// open. One shard counts; what others think, they say to each request.
    pub(crate) fn note_default_user(&mut self, ix: LinkIx, reply: &[u8]) {
        let core = &mut self.core;
        let link = &core.engine.links[ix];
        let is_first = link.used_by == Use::Shared && link.profile == ProfileId::FIRST;
        let is_ours = core.settings.credentials.request().is_some();
        if !core.has_users_of_nodes() || is_ours || !is_first || link.shard != core.engine.topology.keyless()
        {
            return;
        }
        let is_closed = reply.starts_with(b"-NOAUTH ");
        let default_user = if is_closed { DefaultUser::Closed } else { DefaultUser::Open };
        if std::mem::replace(&mut core.logins.passing.default_user, default_user) == default_user {
            return;
        }
        for index in 0..self.peers.places() {
            let Some(conn) = self.peers.id_at(index) else { continue };
            if let Some(Peer::Client(session)) = self.peers.get_mut(conn)
                && core.profiles.kind(session.profile).who == Who::Pool
            {
                session.features.login = core.newcomer();
            }
        }
    }
}
