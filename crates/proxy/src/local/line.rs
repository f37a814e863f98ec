//! The line of a client in CLIENT LIST.

use crate::context::Context;
use crate::features::{Session, Wishes};
use crate::link::profile::Profile;
use crate::local::filter::{Type, kind_of};
use crate::session::{Phase, Reason};
use crate::tracking::Mode;
use crate::transaction::queued::Transaction;
use command::Topic;
use std::fmt::Write;
use stdx::Instant;

/// The session's line in CLIENT LIST.
pub(crate) fn client_line(cx: &Context, session: &Session) -> String {
    line(session, cx.profiles.kind(session.profile), cx.engine.now)
}

/// The session's line in CLIENT LIST, with Redis's fields in Redis's order.
pub(crate) fn line(session: &Session, profile: Profile, now: Instant) -> String {
    let mut line = String::new();
    let seconds = |since: Instant| now.since(since).as_secs();
    let flags = flags(session);
    let (parked, parked_bytes) = session.replies.parked();
    let output = session.replies.output().len();
    // Writing to a `String` cannot fail.
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

/// A letter for each special property, in Redis's order; `N` if there is none.
pub(crate) fn flags(session: &Session) -> String {
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
