//! CLIENT: what a client may know of itself and of others, and do to them.

use crate::core::Core;
use crate::errors;
use crate::features::{Asked, Owed, Session, SessionFeatures, Wishes};
use crate::link::profiles::Profile;
use crate::local::inquiry::{self, Gathered, Question};
use crate::session::{Mute, Phase, Reason};
use crate::tracking::{self, Mode};
use crate::transaction::Transaction;
use command::{ClientTask, Topic};
use resp::integer::parse_i64;
use resp::{Request, encode};
use std::collections::BTreeSet;
use std::fmt::Write;
use stdx::Instant;
use topology::NodeId;
use users::Users;

/// Which clients CLIENT LIST shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// All, or all of a type.
    Type(Option<Type>),
    /// Those, in this order, as often as they are named.
    Ids { named: Vec<u64>, all: BTreeSet<u64> },
}

/// Types of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// What most clients are.
    Normal,
    /// A client that has subscribed to something.
    Subscriber,
    /// A primary or a replica: none of ours.
    Other,
}

/// Which clients CLIENT KILL closes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    id: Option<u64>,
    kind: Option<Type>,
    peer: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
    user: Option<Vec<u8>>,
    /// None, whatever else is said.
    is_nobody: bool,
}

/// No client has a longer address: the path of a socket has 108 bytes at most.
const ADDRESS_BYTES_MAX: usize = 256;

impl Core {
    /// Carries out `task`. What is not answered at once leaves `reply` empty.
    pub(crate) fn client(
        &mut self,
        session: &mut Session,
        task: ClientTask,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        match task {
            ClientTask::List => match Listing::parse(request) {
                Err(text) => encode::error(reply, &text),
                Ok(_) if request.len() > 3 + self.limits.names_max => errors::write(reply, errors::NAMES_MAX),
                Ok(listing) => self.list_clients(session, listing),
            },
            ClientTask::Describe => {
                encode::verbatim(reply, self.client_line(session).as_bytes(), session.resp3);
            }
            ClientTask::Kill => match self.parse_filter(session, request) {
                Err(text) => encode::error(reply, &text),
                Ok((filter, skips_me)) => {
                    self.kill_clients(session, filter, skips_me, request.len() == 3);
                }
            },
            ClientTask::Reply => set_mute(session, request.arg(2), reply),
            ClientTask::Switch => switch(session, request, reply),
            ClientTask::GetRedirect => encode::integer(reply, session.features.redirect_number()),
            ClientTask::Track => self.track(session, request, reply),
            ClientTask::Unblock => {
                if let Some((client, by_error)) = parse_unblock(request, reply) {
                    let gathered = Gathered::Unblocked { waits: None, by_error };
                    let user = self.confined_to(session);
                    self.ask_workers(session, Question::Seek { client, user, by_error }, gathered);
                }
            }
            ClientTask::Pause => self.pause_clients(session, request, reply),
            ClientTask::Unpause => self.unpause_clients(session),
            ClientTask::TrackingState => {
                tracking::write_state(session.features.tracking(), session.resp3, reply)
            }
            ClientTask::Caching => self.set_caching(session, request.arg(2), reply),
        }
    }

    /// The session's line in CLIENT LIST.
    pub(crate) fn client_line(&self, session: &Session) -> String {
        line(session, self.profiles.kind(session.profile), self.engine.now)
    }

    fn list_clients(&mut self, session: &mut Session, listing: Listing) {
        // Our own line is as of now: what is pipelined behind this request does not show in it.
        let own = listing.takes(session).then(|| (session.origin.client, self.client_line(session)));
        let user = self.confined_to(session);
        let question = Question::List { asker: session.origin.client, listing: listing.clone(), user };
        let lines: Vec<_> = own.into_iter().collect();
        let charge = self.engine.memory.charge_gathered(inquiry::bytes_of(&lines));
        let gathered = Gathered::Lines { listing, lines, charge };
        if self.ask_workers(session, question, gathered) {
            // The answer is much longer than the question: the next request is read once it was given.
            session.turn();
        }
    }

    /// Which clients the session wants to be closed, as far as that is its business.
    fn parse_filter(&self, session: &Session, request: &Request<'_>) -> Result<(Filter, bool), Vec<u8>> {
        let Some(user) = self.confined_to(session) else {
            return Filter::parse(request, Some(&self.logins.users));
        };
        let (mut filter, skips_me) = Filter::parse(request, None)?;
        filter.is_nobody = filter.user.as_ref().is_some_and(|named| **named != *user);
        filter.user = Some(user.into_vec());
        Ok((filter, skips_me))
    }

    fn kill_clients(&mut self, session: &mut Session, filter: Filter, skips_me: bool, by_address: bool) {
        let hits_me = !skips_me && filter.takes(session);
        let question = Question::Kill { asker: session.origin.client, filter };
        let gathered = Gathered::Killed { count: u64::from(hits_me), by_address };
        if self.ask_workers(session, question, gathered) && hits_me {
            // The reply still goes out; nothing behind this request is carried out.
            session.phase = Phase::Closing { linger: false };
        }
    }
}

impl Core {
    /// Asks the node `id` to let the client go that waits on the connection which it calls `name`. What it says is
    /// the reply at `place`: the one who waits gets his over the connection on which he waits, so that nothing that has
    /// come for him meanwhile is lost. False if it cannot be asked.
    pub(crate) fn unblock(
        &mut self,
        session: &mut Session,
        place: u32,
        id: NodeId,
        name: i64,
        by_error: bool,
    ) -> bool {
        let asked = Asked::by_client(session.conn, place);
        let is_asked = self.ask_to_unblock((session.profile, id), name, by_error, asked);
        if is_asked {
            session.replies.expect(place, Owed::Node);
        }
        is_asked
    }
}

impl Type {
    fn parse(word: &[u8]) -> Result<Type, Vec<u8>> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Type::Normal),
            b"pubsub" => Ok(Type::Subscriber),
            b"master" | b"replica" | b"slave" => Ok(Type::Other),
            _ => Err([b"ERR Unknown client type '", word, b"'"].concat()),
        }
    }
}

impl Listing {
    /// `CLIENT LIST [TYPE type | ID id …]`
    fn parse(request: &Request<'_>) -> Result<Listing, Vec<u8>> {
        let is = |word: &str| request.arg(2).eq_ignore_ascii_case(word.as_bytes());
        match request.len() {
            2 => Ok(Listing::Type(None)),
            4 if is("type") => Type::parse(request.arg(3)).map(|kind| Listing::Type(Some(kind))),
            4.. if is("id") => {
                let ids = request.args().skip(3).map(|id| parse_i64(id).map(|id| id as u64));
                let named = ids.collect::<Option<Vec<_>>>().ok_or(errors::INVALID_CLIENT_ID)?;
                Ok(Listing::Ids { all: named.iter().copied().collect(), named })
            }
            _ => Err(errors::SYNTAX.into()),
        }
    }

    /// Whether `session` is shown.
    pub(crate) fn takes(&self, session: &Session) -> bool {
        match self {
            Listing::Type(kind) => kind.is_none_or(|kind| kind == kind_of(session)),
            Listing::Ids { all, .. } => all.contains(&session.origin.client),
        }
    }

    /// Appends one text of all lines: the oldest clients first, or in the order that was asked for.
    pub(crate) fn write(&self, mut lines: Vec<(u64, String)>, resp3: bool, out: &mut Vec<u8>) {
        lines.sort_unstable();
        let texts: Vec<&[u8]> = match self {
            Listing::Type(_) => lines.iter().map(|(_, line)| line.as_bytes()).collect(),
            Listing::Ids { named, .. } => {
                let line = |id: &u64| lines.binary_search_by_key(id, |(client, _)| *client).ok();
                named.iter().filter_map(line).map(|at| lines[at].1.as_bytes()).collect()
            }
        };
        encode::verbatim_of(out, &texts, resp3);
    }
}

impl Filter {
    /// `CLIENT KILL ip:port` or `CLIENT KILL option value …`: the filter, and whether the client itself is spared. Of
    /// `users` one must be named, if they are known.
    fn parse(request: &Request<'_>, users: Option<&Users>) -> Result<(Filter, bool), Vec<u8>> {
        let (mut filter, mut skips_me) = (Filter::default(), true);
        if request.len() == 3 {
            filter.is_nobody = request.arg(2).len() > ADDRESS_BYTES_MAX;
            filter.peer = (!filter.is_nobody).then(|| request.arg(2).to_vec());
            return Ok((filter, false));
        }
        let mut index = 3;
        while let Some(value) = request.get(index) {
            match request.arg(index - 1).to_ascii_lowercase().as_slice() {
                b"id" => {
                    let id = parse_i64(value).and_then(|id| u64::try_from(id).ok()).filter(|&id| id > 0);
                    filter.id = Some(id.ok_or(errors::CLIENT_ID_RANGE)?);
                }
                b"type" => filter.kind = Some(Type::parse(value)?),
                // Nobody's address is that long.
                b"addr" | b"laddr" if value.len() > ADDRESS_BYTES_MAX => filter.is_nobody = true,
                b"addr" => filter.peer = Some(value.to_vec()),
                b"laddr" => filter.local = Some(value.to_vec()),
                b"user" if users.is_none_or(|users| users.get(value).is_some()) => {
                    filter.user = Some(value.to_vec())
                }
                b"user" => return Err([b"ERR No such user '", value, b"'"].concat()),
                b"skipme" if value.eq_ignore_ascii_case(b"yes") => skips_me = true,
                b"skipme" if value.eq_ignore_ascii_case(b"no") => skips_me = false,
                _ => return Err(errors::SYNTAX.into()),
            }
            index += 2;
        }
        // An option without its value.
        if request.len() % 2 == 1 { Err(errors::SYNTAX.into()) } else { Ok((filter, skips_me)) }
    }

    /// Whether `session` is closed.
    pub(crate) fn takes(&self, session: &Session) -> bool {
        !self.is_nobody
            && self.id.is_none_or(|id| id == session.origin.client)
            && self.kind.is_none_or(|kind| kind == kind_of(session))
            && self.peer.as_ref().is_none_or(|peer| **peer == *session.origin.peer.as_bytes())
            && self.local.as_ref().is_none_or(|local| **local == *session.origin.local.as_bytes())
            && session.features.is_of(self.user.as_deref())
    }
}

impl SessionFeatures {
    /// Whether its user is `user`, if that is said.
    pub(crate) fn is_of(&self, user: Option<&[u8]>) -> bool {
        user.is_none_or(|user| user == self.login.name())
    }
}

fn kind_of(session: &Session) -> Type {
    if session.features.has_topics() { Type::Subscriber } else { Type::Normal }
}

/// Its line in CLIENT LIST, with Redis's fields in Redis's order.
fn line(session: &Session, profile: Profile, now: Instant) -> String {
    let mut line = String::new();
    let seconds = |since: Instant| now.since(since).as_secs();
    let flags = flags(session);
    let (parked, parked_bytes) = session.replies.parked();
    let output = session.replies.output().len();
    // Writing to a String cannot fail.
    let _ = write!(
        line,
        "id={} addr={} laddr={} fd={}",
        session.origin.client, session.origin.peer, session.origin.local, session.origin.descriptor
    );
    let _ = write!(line, " name={}", String::from_utf8_lossy(session.features.name()));
    let _ = write!(line, " age={} idle={}", seconds(session.origin.created_at), seconds(session.active_at));
    let transaction = session.features.transaction.as_deref();
    let multi = transaction.map_or(-1, |transaction| i64::from(transaction.commands()));
    let multi_mem = transaction.map_or(0, Transaction::held_bytes);
    let [sub, psub, ssub] = Topic::ALL.map(|kind| session.features.topic_count(kind));
    let _ = write!(line, " flags={flags} db={} sub={sub} psub={psub} ssub={ssub}", profile.database);
    let _ = write!(line, " multi={multi}");
    let (used, size) = (session.input.bytes.len(), session.input.bytes.capacity());
    let _ = write!(line, " qbuf={used} qbuf-free={} argv-mem=0 multi-mem={multi_mem}", size - used);
    let _ = write!(line, " rbs={} rbp={output} obl={output} oll={parked}", session.replies.output_capacity());
    let _ = write!(
        line,
        " omem={parked_bytes} tot-mem={} events=",
        session.memory_bytes() + session.features.left_bytes()
    );
    line.extend((!session.paused).then_some('r'));
    line.extend(session.replies.output.blocked.then_some('w'));
    let name = session.features.last.name().unwrap_or("NULL");
    let (user, version) =
        (String::from_utf8_lossy(session.features.login.name()), 2 + u8::from(profile.resp3));
    let redirect = session.features.redirect_number();
    let _ = writeln!(line, " cmd={name} user={user} redir={redirect} resp={version}");
    line
}

/// A letter for each thing that is special about it, in Redis's order; `N` if nothing is.
fn flags(session: &Session) -> String {
    let closing = !matches!(session.phase, Phase::Open | Phase::Ending);
    let Wishes { replica_reads, no_evict, no_touch } = session.features.wishes;
    let is_subscribed = kind_of(session) == Type::Subscriber;
    let flags = [
        (session.features.monitors(), 'O'),
        (is_subscribed, 'P'),
        (session.features.transaction.is_some(), 'x'),
        (session.wait.is_seen || session.hold.has(Reason::Pause), 'b'),
        (session.features.tracking().is_some(), 't'),
        (session.features.tracking().is_some_and(|tracking| tracking.is_broken), 'R'),
        (session.features.tracking().is_some_and(|tracking| tracking.mode == Mode::Broadcast), 'B'),
        (closing, 'c'),
        (session.origin.peer.starts_with('/'), 'U'),
        (replica_reads, 'r'),
        (no_evict, 'e'),
        (no_touch, 'T'),
    ];
    let flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
    if flags.is_empty() { "N".to_owned() } else { flags }
}

/// `CLIENT REPLY ON|OFF|SKIP`: only ON is answered.
fn set_mute(session: &mut Session, word: &[u8], reply: &mut Vec<u8>) {
    match word.to_ascii_lowercase().as_slice() {
        b"on" => {
            session.mute = Mute::No;
            encode::simple(reply, b"OK");
        }
        b"off" => session.mute = Mute::Off,
        b"skip" if session.mute == Mute::Off => {}
        b"skip" => session.mute = Mute::Next,
        _ => errors::write(reply, errors::SYNTAX),
    }
}

/// `CLIENT NO-EVICT|NO-TOUCH ON|OFF`: what a proxy without eviction has no use for, but remembers.
fn switch(session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
    let on = match request.arg(2).to_ascii_lowercase().as_slice() {
        b"on" => true,
        b"off" => false,
        _ => return errors::write(reply, errors::SYNTAX),
    };
    match request.arg(1).eq_ignore_ascii_case(b"no-evict") {
        true => session.features.wishes.no_evict = on,
        false => session.features.wishes.no_touch = on,
    }
    encode::simple(reply, b"OK");
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`: which client, and whether it gets an error.
fn parse_unblock(request: &Request<'_>, reply: &mut Vec<u8>) -> Option<(u64, bool)> {
    let reason = request.get(3).map(<[u8]>::to_ascii_lowercase);
    let by_error = match reason.as_deref() {
        _ if request.len() > 4 => {
            errors::write_subcommand_syntax(reply, request);
            return None;
        }
        None | Some(b"timeout") => false,
        Some(b"error") => true,
        Some(_) => {
            errors::write(reply, errors::UNBLOCK_REASON);
            return None;
        }
    };
    let client = parse_i64(request.arg(2));
    if client.is_none() {
        errors::write(reply, errors::NOT_AN_INTEGER);
    }
    client.map(|client| (client as u64, by_error))
}
