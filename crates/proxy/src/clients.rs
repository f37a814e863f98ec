//! CLIENT: what a client may know of itself and of others, and do to them.

use crate::core::Core;
use crate::errors;
use crate::inquiry::{Gathered, Question};
use crate::session::{Mute, Phase, Session, Wishes};
use command::ClientTask;
use resp::integer::parse_i64;
use resp::{Request, encode};
use std::fmt::Write;
use stdx::Instant;

/// Which clients CLIENT LIST shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Listing {
    /// All of a type.
    Type(Type),
    /// Those, in this order, as often as they are named.
    Ids(Vec<u64>),
}

/// Types of clients. We serve but one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// What all our clients are.
    Normal,
    /// A primary or a replica, or a client that has subscribed.
    Other,
}

/// Which clients CLIENT KILL closes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    id: Option<u64>,
    kind: Option<Type>,
    peer: Option<Vec<u8>>,
    local: Option<Vec<u8>>,
}

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
                Ok(listing) => self.list_clients(session, listing),
            },
            ClientTask::Describe => encode::bulk(reply, session.line(self.now).as_bytes()),
            ClientTask::Kill => match Filter::parse(request) {
                Err(text) => encode::error(reply, &text),
                Ok((filter, skips_me)) => {
                    self.kill_clients(session, filter, skips_me, request.len() == 3);
                }
            },
            ClientTask::Reply => set_mute(session, request.arg(2), reply),
            ClientTask::Switch => switch(session, request, reply),
            ClientTask::GetRedirect => encode::integer(reply, -1),
            ClientTask::Unblock => unblock(request, reply),
            ClientTask::TrackingState => write_tracking_state(reply),
            ClientTask::Caching => errors::write(reply, errors::NOT_TRACKING),
        }
    }

    fn list_clients(&mut self, session: &mut Session, listing: Listing) {
        // Our own line is as of now: what is pipelined behind this request does not show in it.
        let own = listing.takes(session).then(|| (session.client, session.line(self.now)));
        let question = Question::List { asker: session.client, listing: listing.clone() };
        self.ask_workers(session, question, Gathered::Lines { listing, lines: own.into_iter().collect() });
    }

    fn kill_clients(&mut self, session: &mut Session, filter: Filter, skips_me: bool, by_address: bool) {
        let hits_me = !skips_me && filter.takes(session);
        let question = Question::Kill { asker: session.client, filter };
        let gathered = Gathered::Killed { count: u64::from(hits_me), by_address };
        if self.ask_workers(session, question, gathered) && hits_me {
            // The reply still goes out; nothing behind this request is carried out.
            session.phase = Phase::Closing { linger: false };
        }
    }
}

impl Type {
    fn parse(word: &[u8]) -> Result<Type, Vec<u8>> {
        match word.to_ascii_lowercase().as_slice() {
            b"normal" => Ok(Type::Normal),
            b"master" | b"replica" | b"slave" | b"pubsub" => Ok(Type::Other),
            _ => Err([b"ERR Unknown client type '", word, b"'"].concat()),
        }
    }
}

impl Listing {
    /// `CLIENT LIST [TYPE type | ID id …]`
    fn parse(request: &Request<'_>) -> Result<Listing, Vec<u8>> {
        let is = |word: &str| request.arg(2).eq_ignore_ascii_case(word.as_bytes());
        match request.len() {
            2 => Ok(Listing::Type(Type::Normal)),
            4 if is("type") => Type::parse(request.arg(3)).map(Listing::Type),
            4.. if is("id") => {
                let ids = request.args().skip(3).map(|id| parse_i64(id).map(|id| id as u64));
                ids.collect::<Option<_>>().map(Listing::Ids).ok_or(errors::INVALID_CLIENT_ID.into())
            }
            _ => Err(errors::SYNTAX.into()),
        }
    }

    /// Whether `session` is shown.
    pub(crate) fn takes(&self, session: &Session) -> bool {
        match self {
            Listing::Type(kind) => *kind == Type::Normal,
            Listing::Ids(ids) => ids.contains(&session.client),
        }
    }

    /// One text of all lines: the oldest clients first, or in the order that was asked for.
    pub(crate) fn arrange(&self, mut lines: Vec<(u64, String)>) -> String {
        lines.sort();
        match self {
            Listing::Type(_) => lines.into_iter().map(|(_, line)| line).collect(),
            Listing::Ids(ids) => {
                let line = |id: &u64| lines.iter().find(|(client, _)| client == id);
                ids.iter().filter_map(line).map(|(_, line)| line.as_str()).collect()
            }
        }
    }
}

impl Filter {
    /// `CLIENT KILL ip:port` or `CLIENT KILL option value …`: the filter, and whether the client itself is spared.
    fn parse(request: &Request<'_>) -> Result<(Filter, bool), Vec<u8>> {
        let (mut filter, mut skips_me) = (Filter::default(), true);
        if request.len() == 3 {
            filter.peer = Some(request.arg(2).to_vec());
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
                b"addr" => filter.peer = Some(value.to_vec()),
                b"laddr" => filter.local = Some(value.to_vec()),
                b"user" if value == b"default" => {}
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
        self.id.is_none_or(|id| id == session.client)
            && self.kind.is_none_or(|kind| kind == Type::Normal)
            && self.peer.as_ref().is_none_or(|peer| **peer == *session.peer.as_bytes())
            && self.local.as_ref().is_none_or(|local| **local == *session.local.as_bytes())
    }
}

impl Session {
    /// Its line in CLIENT LIST, with Redis's fields in Redis's order.
    pub(crate) fn line(&self, now: Instant) -> String {
        let mut line = String::new();
        let seconds = |since: Instant| now.since(since).as_secs();
        let flags = self.flags();
        let (parked, parked_bytes) = self.parked();
        let output = self.output().len();
        // Writing to a String cannot fail.
        let _ =
            write!(line, "id={} addr={} laddr={} fd={}", self.client, self.peer, self.local, self.descriptor);
        let _ = write!(line, " name={}", String::from_utf8_lossy(&self.name));
        let _ = write!(line, " age={} idle={}", seconds(self.created_at), seconds(self.active_at));
        let _ = write!(line, " flags={flags} db=0 sub=0 psub=0 ssub=0 multi=-1");
        let (used, size) = (self.input.len(), self.input.capacity());
        let _ = write!(line, " qbuf={used} qbuf-free={} argv-mem=0 multi-mem=0", size - used);
        let _ = write!(line, " rbs={} rbp={output} obl={output} oll={parked}", self.output_capacity());
        let _ = write!(line, " omem={parked_bytes} tot-mem={} events=", self.memory_bytes());
        line.extend((!self.paused).then_some('r'));
        line.extend(self.blocked.then_some('w'));
        let name = self.last.name().unwrap_or("NULL");
        let _ = writeln!(line, " cmd={name} user=default redir=-1 resp=2");
        line
    }

    /// A letter for each thing that is special about it, in Redis's order; `N` if nothing is.
    fn flags(&self) -> String {
        let closing = !matches!(self.phase, Phase::Open | Phase::Ending);
        let Wishes { replica_reads, no_evict, no_touch } = self.wishes;
        let is_local = self.peer.starts_with('/');
        let flags = [(closing, 'c'), (is_local, 'U'), (replica_reads, 'r'), (no_evict, 'e'), (no_touch, 'T')];
        let flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, letter)| letter).collect();
        if flags.is_empty() { "N".to_owned() } else { flags }
    }
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
        true => session.wishes.no_evict = on,
        false => session.wishes.no_touch = on,
    }
    encode::simple(reply, b"OK");
}

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`: nobody is blocked.
fn unblock(request: &Request<'_>, reply: &mut Vec<u8>) {
    let reason = request.get(3).map(<[u8]>::to_ascii_lowercase);
    match reason.as_deref() {
        _ if request.len() > 4 => errors::write_subcommand_syntax(reply, request),
        None | Some(b"timeout" | b"error") if parse_i64(request.arg(2)).is_none() => {
            errors::write(reply, errors::NOT_AN_INTEGER);
        }
        None | Some(b"timeout" | b"error") => encode::integer(reply, 0),
        Some(_) => errors::write(reply, errors::UNBLOCK_REASON),
    }
}

fn write_tracking_state(reply: &mut Vec<u8>) {
    encode::array_header(reply, 6);
    encode::bulk(reply, b"flags");
    encode::array_header(reply, 1);
    encode::bulk(reply, b"off");
    encode::bulk(reply, b"redirect");
    encode::integer(reply, -1);
    encode::bulk(reply, b"prefixes");
    encode::array_header(reply, 0);
}
