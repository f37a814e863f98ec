//! Replies that the proxy makes itself, like Redis.

pub(crate) mod admin;
pub(crate) mod by_nodes;
pub(crate) mod clients;
pub(crate) mod cluster;
pub(crate) mod corvus;
pub(crate) mod filter;
pub(crate) mod gathered;
pub(crate) mod help;
pub(crate) mod info;
pub(crate) mod inquiry;
pub(crate) mod line;
pub(crate) mod operator;
pub(crate) mod users;

use crate::context::Context;
use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::link::profile::Profile;
use crate::link::profiles::database;
use crate::local::gathered::{Gathered, Question};
use crate::login;
use crate::login::hello::{REDIS_VERSION, write_hello};
use crate::login::passing;
use crate::login::passing::set_name;
use crate::pubsub;
use crate::pubsub::is_restricted;
use crate::session::{Mute, Phase};
use crate::transaction;
use command::{About, Command, Local, Resolved};
use resp::integer::parse_i64;
use resp::{Request, encode};

impl Core {
    /// Answers `request` here.
    pub(crate) fn answer_here(
        &mut self,
        session: &mut Session,
        local: Local,
        command: &Command,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        reply.clear();
        self.compose(session, local, command, request, reply);
        if reply.is_empty() {
            // The place is reserved, or there is no reply.
            return;
        }
        if resp::reply::is_error(reply) {
            self.cx.stats.tally.count_failed(self.cx.engine.asking, reply);
        }
        self.cx.engine.answer(session, reply);
    }

    /// Carries out `request`. Appends the reply if it is ready at once.
    pub(crate) fn compose(
        &mut self,
        session: &mut Session,
        local: Local,
        command: &Command,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        match local {
            Local::Ping if is_restricted(session) && request.len() <= 2 => pubsub::write_pong(request, reply),
            Local::Ping => ping(command, request, reply),
            Local::Echo => encode::bulk(reply, request.arg(1)),
            Local::Quit => {
                encode::simple(reply, b"OK");
                session.phase = Phase::Closing { linger: false };
            }
            Local::Reset => {
                self.subscriptions.unsubscribe_from_all(&mut self.cx, session);
                self.monitor.end_to_monitor(&mut self.cx, session);
                self.invalidations.end_tracking(&mut self.cx, session);
                transaction::end_transaction(&mut self.cx, session);
                session.features.name = None;
                session.features.wishes.replica_reads = false;
                self.readers.set_reads(&mut self.cx, session, false);
                self.cx.change_profile(session, Profile::default());
                login::set_login(&self.cx, session, passing::newcomer(&self.cx));
                if session.mute == Mute::Off {
                    session.mute = Mute::No;
                }
                encode::simple(reply, b"RESET");
            }
            Local::Select => select(&mut self.cx, session, request.arg(1), reply),
            Local::Time => time(&self.cx, reply),
            Local::Info => self.info(session, request, reply),
            Local::Hello => hello(&mut self.cx, session, request, reply),
            Local::Auth if passing::has_users_of_nodes(&self.cx) => {
                passing::auth_at_nodes(&mut self.cx, session, request, reply)
            }
            Local::Auth => login::auth(&mut self.cx, session, request, reply),
            Local::ClientId => encode::integer(reply, session.origin.client as i64),
            Local::ClientSetname => match set_name(&mut self.cx, session, request.arg(2)) {
                Ok(()) => encode::simple(reply, b"OK"),
                Err(text) => errors::write(reply, text),
            },
            Local::ClientGetname if session.features.name().is_empty() => encode::null(reply, session.resp3),
            Local::ClientGetname => encode::bulk(reply, session.features.name()),
            Local::ClientSetinfo => client_setinfo(request, reply),
            Local::ConfigGet => self.config_get(session.resp3, request, reply),
            // Redis's word for a primary without replicas, and offset 0.
            Local::Lolwut => lolwut(session.resp3, request, reply),
            Local::Role => reply.extend_from_slice(b"*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"),
            Local::Command(About::Info) if request.len() > 2 + self.cx.limits.names_max => {
                errors::write(reply, errors::NAMES_MAX);
            }
            Local::Command(about) => command::about::write(about, request, session.resp3, reply),
            Local::Client(task) => self.client(session, task, request, reply),
            Local::Cluster(question) => cluster::cluster(&self.cx, session, question, request, reply),
            Local::Acl(question) => self.acl(session, question, request, reply),
            Local::Subscribe(kind) => self.subscriptions.subscribe(&mut self.cx, session, kind, request),
            Local::Unsubscribe(kind) => self.subscriptions.unsubscribe(&mut self.cx, session, kind, request),
            Local::Monitor => self.monitor.begin_to_monitor(&mut self.cx, session, reply),
            Local::PubSub(question) => pubsub::pubsub(&self.cx, question, request, reply),
            Local::Help => help::write(command.name.split('|').next().unwrap_or_default(), reply),
            Local::ResetStatistics => {
                inquiry::ask_workers(&mut self.cx, session, Question::ResetStatistics, Gathered::Done);
            }
            Local::Proxy(question) => self.answer_operator(session, question, request, reply),
            Local::ReplicaReads(on) => {
                session.features.wishes.replica_reads = on;
                self.readers.set_reads(&mut self.cx, session, on);
                encode::simple(reply, b"OK");
            }
            Local::Accepted => encode::simple(reply, b"OK"),
        }
    }

    /// CONFIG GET for the parameters that apply to the proxy, by Redis's names.
    fn config_get(&self, resp3: bool, request: &Request<'_>, reply: &mut Vec<u8>) {
        let parameters = info::parameters(self);
        let patterns: Vec<&[u8]> = request.args().skip(2).collect();
        let wanted: Vec<_> = parameters
            .iter()
            .filter(|(name, _)| {
                patterns.iter().any(|pattern| stdx::glob::matches_ignoring_case(pattern, name.as_bytes()))
            })
            .collect();
        let of_corvus = patterns.iter().filter_map(|name| corvus::parameter(&self.cx, name));
        let of_corvus: Vec<_> = of_corvus.collect();
        let wanted: Vec<_> = wanted.into_iter().chain(&of_corvus).collect();
        encode::map_header(reply, wanted.len(), resp3);
        for (name, value) in wanted {
            encode::bulk(reply, name.as_bytes());
            encode::bulk(reply, value.as_bytes());
        }
    }
}

/// SELECT: later requests of the session use the profile of another database.
fn select(cx: &mut Context, session: &mut Session, index: &[u8], reply: &mut Vec<u8>) {
    match database(cx, index) {
        Err(text) => errors::write(reply, text),
        Ok(database) => {
            cx.change_profile(session, Profile { database, ..cx.profiles.kind(session.profile) });
            encode::simple(reply, b"OK");
        }
    }
}

/// PING with and without a message.
fn ping(command: &Command, request: &Request<'_>, reply: &mut Vec<u8>) {
    match request.len() {
        1 => encode::simple(reply, b"PONG"),
        2 => encode::bulk(reply, request.arg(1)),
        _ => Resolved::WrongArity(command).write_error(reply, request),
    }
}

fn time(cx: &Context, reply: &mut Vec<u8>) {
    let now_us = cx.unix_time_us();
    encode::array_header(reply, 2);
    for number in [now_us / 1_000_000, now_us % 1_000_000] {
        encode::bulk(reply, itoa::Buffer::new().format(number).as_bytes());
    }
}

/// HELLO: sets the protocol, also of this reply, and more.
fn hello(cx: &mut Context, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
    let resp3 = match request.get(1).map(parse_i64) {
        None => session.resp3,
        Some(None) => return errors::write(reply, errors::PROTO_NOT_AN_INTEGER),
        Some(Some(version @ 2..=3)) => version == 3,
        Some(Some(_)) => return errors::write(reply, errors::NO_PROTO),
    };
    let (mut name, mut login) = (None, None);
    let mut index = 2;
    while let Some(option) = request.get(index) {
        let left = request.len() - index - 1;
        if option.eq_ignore_ascii_case(b"AUTH") && left >= 2 {
            if passing::has_users_of_nodes(cx) {
                login = Some((request.arg(index + 1), request.arg(index + 2)));
            } else if !login::log_in(cx, session, request, request.arg(index + 1), request.arg(index + 2)) {
                return errors::write(reply, errors::WRONG_PASSWORD);
            }
            index += 3;
        } else if option.eq_ignore_ascii_case(b"SETNAME") && left >= 1 {
            name = Some(request.arg(index + 1));
            index += 2;
        } else {
            return encode::error(reply, &[b"ERR Syntax error in HELLO option '", option, b"'"].concat());
        }
    }
    if let Some(login) = login {
        return passing::hello_at_nodes(cx, session, login, (resp3, name), reply);
    }
    if session.features.login.must_log_in() {
        return errors::write(reply, errors::NO_AUTH_HELLO);
    }
    if let Some(Err(text)) = name.map(|name| set_name(cx, session, name)) {
        return errors::write(reply, text);
    }
    if session.resp3 != resp3 && session.replies.is_pending() {
        // Messages use the new protocol only after the client has the reply.
        session.replies.raise_barrier(session.replies.next_place());
    }
    cx.change_profile(session, Profile { resp3, ..cx.profiles.kind(session.profile) });
    write_hello(session, reply);
}

/// Redis 7.0 draws only for version 5 or 6.
fn lolwut(resp3: bool, request: &Request<'_>, reply: &mut Vec<u8>) {
    let asks = request.get(1).is_some_and(|word| word.eq_ignore_ascii_case(b"version"));
    if asks && request.get(2).is_some_and(|version| parse_i64(version).is_none()) {
        return errors::write(reply, errors::NOT_AN_INTEGER);
    }
    encode::verbatim(reply, format!("Redis ver. {}\n", REDIS_VERSION).as_bytes(), resp3);
}

/// Client libraries send their name and version right after they connect (Redis 7.2).
fn client_setinfo(request: &Request<'_>, reply: &mut Vec<u8>) {
    let attribute = request.arg(2).to_ascii_lowercase();
    if !matches!(attribute.as_slice(), b"lib-name" | b"lib-ver") {
        return encode::error(reply, &[b"ERR Unrecognized option '", request.arg(2), b"'"].concat());
    }
    if !request.arg(3).iter().all(u8::is_ascii_graphic) {
        let text = [&attribute, &b" cannot contain spaces, newlines or special characters."[..]].concat();
        return encode::error(reply, &[b"ERR ", &text[..]].concat());
    }
    encode::simple(reply, b"OK");
}
