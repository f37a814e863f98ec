//! CLIENT: information about clients, and actions on them.

use crate::context::Context;
use crate::core::Core;
use crate::errors;
use crate::features::{Asked, Owed, Session};
use crate::held;
use crate::local::filter::{Filter, Listing};
use crate::local::gathered;
use crate::local::gathered::{Gathered, Question};
use crate::local::inquiry;
use crate::local::line::client_line;
use crate::login::passing;
use crate::pause;
use crate::session::{Mute, Phase};
use crate::tracking::{self, invalidations};
use command::ClientTask;
use resp::integer::parse_i64;
use resp::{Request, encode};
use topology::NodeId;

impl Core {
    /// Carries out `task`. Leaves `reply` empty if the reply comes later.
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
                Ok(_) if request.len() > 3 + self.cx.limits.names_max => {
                    errors::write(reply, errors::NAMES_MAX)
                }
                Ok(listing) => list_clients(&mut self.cx, session, listing),
            },
            ClientTask::Describe => {
                encode::verbatim(reply, client_line(&self.cx, session).as_bytes(), session.resp3);
            }
            ClientTask::Kill => match parse_filter(&self.cx, session, request) {
                Err(text) => encode::error(reply, &text),
                Ok((filter, skips_me)) => {
                    kill_clients(&mut self.cx, session, filter, skips_me, request.len() == 3);
                }
            },
            ClientTask::Reply => set_mute(session, request.arg(2), reply),
            ClientTask::Switch => switch(session, request, reply),
            ClientTask::GetRedirect => encode::integer(reply, session.features.redirect_number()),
            ClientTask::Track => self.invalidations.track(&mut self.cx, session, request, reply),
            ClientTask::Unblock => {
                if let Some((client, by_error)) = parse_unblock(request, reply) {
                    let gathered = Gathered::Unblocked { waits: None, by_error };
                    let user = passing::confined_to(&self.cx, session);
                    inquiry::ask_workers(
                        &mut self.cx,
                        session,
                        Question::Seek { client, user, by_error },
                        gathered,
                    );
                }
            }
            ClientTask::Pause => pause::pause_clients(&mut self.cx, session, request, reply),
            ClientTask::Unpause => pause::unpause_clients(&mut self.cx, session),
            ClientTask::TrackingState => {
                tracking::write_state(session.features.tracking(), session.resp3, reply)
            }
            ClientTask::Caching => invalidations::set_caching(session, request.arg(2), reply),
        }
    }
}

fn list_clients(cx: &mut Context, session: &mut Session, listing: Listing) {
    // The client's own line is written now: requests behind this one in the pipeline must not show in it.
    let own = listing.takes(session).then(|| (session.origin.client, client_line(cx, session)));
    let user = passing::confined_to(cx, session);
    let question = Question::List { asker: session.origin.client, listing: listing.clone(), user };
    let lines: Vec<_> = own.into_iter().collect();
    let charge = cx.engine.memory.charge_gathered(gathered::bytes_of(&lines));
    let gathered = Gathered::Lines { listing, lines, charge };
    if inquiry::ask_workers(cx, session, question, gathered) {
        // The reply is much longer than the request, so the next request is read after it.
        session.turn();
    }
}

fn kill_clients(cx: &mut Context, session: &mut Session, filter: Filter, skips_me: bool, by_address: bool) {
    let hits_me = !skips_me && filter.takes(session);
    let question = Question::Kill { asker: session.origin.client, filter };
    let gathered = Gathered::Killed { count: u64::from(hits_me), by_address };
    if inquiry::ask_workers(cx, session, question, gathered) && hits_me {
        // The reply is still sent; no request behind it is carried out.
        session.phase = Phase::Closing { linger: false };
    }
}

/// The clients that the session may close by this request.
fn parse_filter(cx: &Context, session: &Session, request: &Request<'_>) -> Result<(Filter, bool), Vec<u8>> {
    let Some(user) = passing::confined_to(cx, session) else {
        return Filter::parse(request, Some(&cx.logins.users));
    };
    let (mut filter, skips_me) = Filter::parse(request, None)?;
    filter.is_nobody = filter.user.as_ref().is_some_and(|named| **named != *user);
    filter.user = Some(user.into_vec());
    Ok((filter, skips_me))
}

/// Asks the node `id` to unblock the client on the connection that the node calls `name`. The node's reply goes to
/// `place`. The waiting client gets its own reply over its own connection, so that an element that came meanwhile is
/// not lost. Returns false if the node cannot be asked.
pub(crate) fn unblock(
    cx: &mut Context,
    session: &mut Session,
    place: u32,
    id: NodeId,
    name: i64,
    by_error: bool,
) -> bool {
    let asked = Asked::by_client(session.conn, place);
    let is_asked = held::ask_to_unblock(cx, (session.profile, id), name, by_error, asked);
    if is_asked {
        session.replies.expect(place, Owed::Node);
    }
    is_asked
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

/// `CLIENT NO-EVICT|NO-TOUCH ON|OFF`: remembered, but without effect in a proxy without eviction.
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

/// `CLIENT UNBLOCK id [TIMEOUT|ERROR]`: the client, and whether it gets an error.
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
