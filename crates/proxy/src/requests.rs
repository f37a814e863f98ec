//! The way down: from a client's bytes to requests that are queued for nodes.

pub(crate) mod fragment;
pub(crate) mod learn;
pub(crate) mod namespaced;
pub(crate) mod objection;
pub(crate) mod prefix_cache;
pub(crate) mod reads;
pub(crate) mod renaming;
pub(crate) mod route;
pub(crate) mod transactions;
pub(crate) mod upload;
pub(crate) mod waiting;

use crate::context::Context;
use crate::core::Core;
use crate::errors::{self, Lost};
use crate::event::{CloseReason, Notice};
use crate::features::{Asked, Owed, Owner, Session, TaskKind};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::login;
use crate::login::identity::{UNAUTHENTICATED, unauthenticated_error};
use crate::login::passing;
use crate::outcome::Step;
use crate::pubsub;
use crate::requests::learn::Lookup;
use crate::requests::objection::Objection;
use crate::requests::route::{Keys, Route, Scratch};
use crate::sampling::take;
use crate::scripts;
use crate::session::pinning::Pinning;
use crate::session::{Mute, Phase, Reason};
use crate::tracking::Tracking;
use crate::transaction;
use crate::walk;
use command::{Carry, Command, Flags, Local, Merge, Number, Refusal, Report, Resolved, learned};
use resp::request::{RequestError, Scanned, Scanner};
use resp::{Request, encode};
use topology::ShardId;

/// A client that sends more at once has a deep pipeline or large requests. Then the worker first adapts the limit of
/// pending requests per client to the number of waiting clients. It also counts the memory of the requests at once.
/// Otherwise it counts the memory when they are sent.
const DEEP_FROM: usize = 4096;

/// `args`, which were written a moment ago. The compiler would read the slice's address and length with one load.
/// Such a load waits until both have left the processor's store buffer, which cost 4 % of all time. Read separately,
/// they come straight from the store buffer.
#[inline]
fn just_written<T>(args: &[T]) -> &[T] {
    &args[..std::hint::black_box(args.len())]
}

impl Context {
    /// Updates the session after `at` bytes of its requests were handled.
    #[inline(always)]
    fn end_requests(&mut self, session: &mut Session, at: usize) {
        if at > DEEP_FROM {
            self.engine.recount_listed_nodes();
        }
        self.count_waiting(session);
        if matches!(session.pinning, Pinning::Ready(_))
            && !session.replies.is_pending()
            && !session.input.holds_request
        {
            // The data that is there to read is not large after all.
            self.unpin(session);
        }
    }

    /// Updates the session after one request: a permit that it had is used now.
    #[inline]
    fn note_carried_out(&mut self, session: &mut Session) {
        if let Pinning::Ready(pin) = session.pinning
            && session.replies.is_pending()
        {
            session.pinning = Pinning::Busy(pin);
        }
        if session.features.subscribed.is_some() {
            session.features.end_noted_request();
        }
    }

    /// The command of `request`, and the number under which it is counted.
    #[inline]
    fn resolve(&mut self, request: &Request<'_>) -> (Resolved<'static>, Number) {
        let (resolved, number) = command::resolve_numbered(request);
        if let Resolved::Command(command) = resolved {
            self.parsing.prefix_cache.note(request, command, number);
        }
        (resolved, number)
    }

    /// Counts a request of `session` under `number`.
    #[inline(always)]
    fn count_request(&mut self, session: &mut Session, number: Number) {
        self.engine.asking = number;
        session.features.last = number;
        self.stats.count_calls(number, 1);
    }

    /// Takes back the count of a request that will be read and counted again.
    #[cold]
    pub(crate) fn read_again(&mut self) -> Step {
        self.stats.tally.take_back_call(self.engine.asking);
        self.stats.counters.requests -= 1;
        Step::Later
    }

    /// Refuses a request that names no command.
    #[cold]
    pub(crate) fn refuse_unresolved(
        &mut self,
        session: &mut Session,
        resolved: Resolved<'_>,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) -> Step {
        reply.clear();
        resolved.write_error(reply, request);
        self.answer_error(session, reply);
        if resolved.ends_transaction() {
            transaction::end_transaction(self, session);
        }
        Step::Done
    }

    /// Refuses a command that shardis does not carry, with the reason.
    pub(crate) fn refuse_command(
        &mut self,
        session: &mut Session,
        command: &Command,
        refusal: Refusal,
        request: &Request<'_>,
    ) {
        let mut reply = self.engine.pool.take();
        refusal.write_error(&mut reply, command, request);
        self.answer_error(session, &reply);
        self.engine.pool.give(reply);
    }

    /// Refuses a request with its objection.
    fn object(
        &mut self,
        session: &mut Session,
        command: &Command,
        objection: Objection,
        request: &Request<'_>,
    ) {
        match objection {
            Objection::Refusal(refusal) => self.refuse_command(session, command, refusal, request),
            Objection::MissingDatabase => self.refuse(session, errors::DB_OUT_OF_RANGE),
        }
    }

    /// Sends a request whole if its keys share a shard, or else in parts.
    fn split(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        match route::route(command, request, &self.engine.topology, keys) {
            Route::One(shard) => self.send(session, command, shard, request.bytes),
            // A key lacks its value. Redis refuses the whole request, so no part of it may run.
            Route::Parts if !command.splits_evenly(request.len()) => {
                self.send(session, command, self.engine.topology.keyless(), request.bytes)
            }
            Route::Parts => self.send_parts(session, command, merge, request, keys),
        }
    }

    /// Queues a whole request for one shard.
    pub(crate) fn send(&mut self, session: &mut Session, command: &Command, shard: ShardId, bytes: &[u8]) {
        let node = match self.link_for(session, shard) {
            Ok(node) => node,
            Err(lost) => return self.refuse(session, &lost.text()),
        };
        self.send_over(session, command, node, bytes);
    }

    /// Queues a whole request of `session` for the link `ix`.
    #[inline(always)]
    fn send_over(&mut self, session: &mut Session, command: &Command, ix: LinkIx, bytes: &[u8]) {
        walk::enter("send_over");
        let place = session.replies.reserve(Owed::Node);
        let kept = Kept::only_if(command.flags.contains(Flags::READONLY));
        self.engine.enqueue_on(ix, bytes, Asked { kept, ..Asked::by_client(session.conn, place) });
    }

    /// The link over which a request of `session` goes to `shard`.
    #[inline]
    pub(crate) fn link_for(&mut self, session: &Session, shard: ShardId) -> Result<LinkIx, Lost> {
        match session.pinning {
            Pinning::Ready(pin) => self.pinned_node(pin, session.profile, shard, None),
            _ => self.shared_link(session.profile, shard),
        }
    }

    /// Answers with an error of shardis.
    pub(crate) fn refuse(&mut self, session: &mut Session, text: &str) {
        let mut reply = self.engine.pool.take();
        errors::write(&mut reply, text);
        self.answer_error(session, &reply);
        self.engine.pool.give(reply);
    }

    pub(crate) fn answer_error(&mut self, session: &mut Session, reply: &[u8]) {
        self.stats.counters.errors += 1;
        self.stats.tally.count_rejected(self.engine.asking, reply);
        transaction::spoil_transaction(self, session);
        session.features.forget_caching(self.engine.asking);
        self.engine.answer(session, reply);
    }

    /// Asks a node about the request's command. The request is read again when the answer has come.
    fn learn(&mut self, session: &mut Session, request: &Request<'_>) -> Step {
        let profile = passing::plain_profile(self, session);
        let mut shards = self.engine.topology.all_shards().collect::<Vec<_>>().into_iter();
        let Some(node) = shards.find_map(|shard| self.shared_link(profile, shard).ok()) else {
            let lost = self.shared_link(profile, self.engine.topology.keyless()).err();
            self.refuse(session, &lost.map_or_else(String::new, |lost| lost.text()));
            return Step::Done;
        };
        let question = self.parsing.learner.ask(request.arg(0), session.conn, &self.limits);
        session.hold.add(Reason::Question);
        let mut ask = self.engine.pool.take();
        encode::request(&mut ask, &[b"COMMAND", b"INFO", request.arg(0)]);
        // A question has no client. The number of the question takes the client's place.
        self.engine.enqueue_on(
            node,
            &ask,
            Asked { conn: question, place: 0, part: 0, owner: Owner::Task(TaskKind::Learn), kept: Kept::NO },
        );
        self.engine.pool.give(ask);
        self.read_again()
    }

    /// Refuses a request whose command no node knows.
    fn refuse_unknown(&mut self, session: &mut Session, request: &Request<'_>, reply: &mut Vec<u8>) {
        reply.clear();
        Resolved::Unknown.write_error(reply, request);
        self.answer_error(session, reply);
    }

    /// Closes a client that sends `POST` or `Host:`, without a reply. A browser was made to send its bytes here, and
    /// the rest must not be taken for requests.
    fn close_cross_protocol(&mut self, session: &mut Session) {
        session.phase = Phase::Closing { linger: false };
        self.note_closed(session, CloseReason::CrossProtocol);
    }

    /// Refuses bytes that are no request. Earlier requests are still answered, and later bytes are ignored.
    pub(crate) fn refuse_bytes(&mut self, session: &mut Session, error: RequestError) {
        let text = match error {
            // Redis shows the byte itself, whatever its value.
            RequestError::ExpectedBulk(byte) => {
                let mut text = b"ERR Protocol error: expected '$', got '".to_vec();
                text.extend_from_slice(&[byte, b'\'']);
                text
            }
            error => format!("ERR Protocol error: {error}").into_bytes(),
        };
        let mut reply = Vec::new();
        encode::error(&mut reply, &text);
        let mark = session.mark();
        self.answer_error(session, &reply);
        session.silence(mark, &mut self.engine.pool);
        session.phase = Phase::Closing { linger: true };
        self.note_closed(session, CloseReason::Protocol);
    }

    /// Counts and logs that shardis closes a client.
    pub(crate) fn note_closed(&mut self, session: &Session, reason: CloseReason) {
        self.stats.counters.clients_closed += 1;
        let (client, peer) = (session.origin.client, session.origin.peer.to_string());
        self.notice(Notice::ClientClosed { client, peer, reason });
    }
}

impl Core {
    /// Runs the requests at the start of `bytes`, until none is complete or the session must wait. Returns the number
    /// of bytes used.
    pub(crate) fn handle_requests(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        walk::enter("handle_requests");
        let mut at = 0;
        if bytes.len() > DEEP_FROM {
            self.cx.engine.share_pending();
        }
        if let Pinning::Busy(pin) = session.pinning {
            at = self.cx.continue_upload(session, pin, bytes);
        }
        let mut scratch = std::mem::take(&mut self.cx.parsing.scratch);
        let mut is_cut = false;
        let mut is_strict = session.features.login.is_missing();
        let mut limits = if is_strict { UNAUTHENTICATED } else { self.cx.engine.limits.request };
        while session.may_read(&self.cx.engine.limits) && self.cx.engine.has_memory_for(session) {
            at += self.forward_run(session, &bytes[at..]);
            if self.cx.stats.sampling.is_due(self.cx.stats.counters.requests) {
                take::sample_forwarded(&mut self.cx, session);
                continue;
            }
            if at == bytes.len() || !session.may_read(&self.cx.engine.limits) {
                break;
            }
            let rest = &bytes[at..];
            // A client that has not logged in has smaller limits, so its requests are scanned in full.
            let is_closely = is_strict | !session.input.scanner.is_fresh();
            let known = if is_closely { None } else { self.cx.parsing.prefix_cache.find(rest) };
            let scanned = match known.and_then(|known| known.scan(rest, &limits, &mut scratch.args)) {
                Some(len) => Ok(Scanned::Request { len }),
                None => session.input.scanner.scan(rest, &limits, &mut scratch.args, &mut scratch.inline),
            };
            let (request, len) = match scanned {
                Ok(Scanned::Request { len }) => {
                    (Request::new(&rest[..len], just_written(&scratch.args)), len)
                }
                Ok(Scanned::Inline { len }) => (Request::new(&scratch.inline, &scratch.args), len),
                Ok(Scanned::Nothing { len }) => {
                    at += len;
                    continue;
                }
                Ok(Scanned::Incomplete) => {
                    is_cut = true;
                    let len = rest.len().max(session.input.scanner.bytes_announced());
                    if len > self.cx.engine.limits.large_bytes && !session.features.login.is_missing() {
                        at += self.begin_upload(session, rest);
                    }
                    break;
                }
                Err(_) if is_strict && !session.features.login.is_missing() => {
                    // The client has just logged in.
                    (is_strict, limits) = (false, self.cx.engine.limits.request);
                    session.input.scanner = Scanner::default();
                    continue;
                }
                Err(error) => {
                    let strict = || unauthenticated_error(rest, error, &self.cx.engine.limits.request);
                    let error = if is_strict { strict() } else { error };
                    self.cx.refuse_bytes(session, error);
                    break;
                }
            };
            session.input.holds_request = false;
            let is_large = len > self.cx.engine.limits.large_bytes
                || session.replies.expects_large(&self.cx.engine.limits);
            if is_large && !session.features.login.is_missing() && !self.cx.pin(session) {
                break;
            }
            let mark = (session.mute != Mute::No).then(|| session.mark());
            let errors = self.cx.stats.counters.errors;
            let resolved = match known {
                Some(known) => (Resolved::Command(known.command), known.number),
                None => self.cx.resolve(&request),
            };
            let (keys, reply) = (&mut scratch.keys, &mut scratch.reply);
            let place = session.replies.next_place();
            if self.handle_request(session, &request, resolved, keys, reply) == Step::Later {
                session.postpone();
                session.features.tracking_mut().into_iter().for_each(Tracking::postpone);
                break;
            }
            if let Some(mark) = mark {
                session.silence(mark, &mut self.cx.engine.pool);
            }
            if self.monitor.is_on && self.cx.stats.counters.errors == errors {
                self.monitor.show_request(&mut self.cx, session, &request);
            }
            at += len;
            if self.cx.stats.sampling.is_due(self.cx.stats.counters.requests) {
                take::sample(&mut self.cx, session, &request, place);
            }
            self.cx.note_carried_out(session);
        }
        session.input.has_unread = at < bytes.len() && !is_cut;
        if bytes.len() > Scratch::MANY_ARGS_BYTES_MIN {
            scratch.shrink();
        }
        self.cx.parsing.scratch = scratch;
        self.cx.engine.asking = Number::NONE;
        self.cx.end_requests(session, at);
        at
    }

    /// Forwards requests from the start of `bytes`, as long as each is a common one: plain, with a cached prefix, and
    /// for one shard. Such requests change nothing else of a usual session, so the session is checked once and not
    /// for each request. Returns the number of bytes used. [`Core::handle_requests`] handles the rest.
    #[inline(always)]
    fn forward_run(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        walk::enter("forward_run");
        let mut at = 0;
        if !self.is_usual(session) {
            return at;
        }
        let until_sample = self.cx.stats.sampling.distance(self.cx.stats.counters.requests);
        let mut left = session.replies.room(&self.cx.engine.limits).min(until_sample);
        while left > 0 {
            let rest = &bytes[at..];
            let Some(known) = self.cx.parsing.prefix_cache.find(rest) else { break };
            let Some((key, len)) = known.scan_key(rest, &self.cx.engine.limits.request) else { break };
            if len > self.cx.engine.limits.large_bytes {
                break;
            }
            let shard = self.cx.engine.topology.shard_of(key);
            let Ok(ix) = self.cx.shared_link(session.profile, shard) else { break };
            self.cx.count_request(session, known.number);
            self.cx.send_over(session, known.command, ix, &rest[..len]);
            at += len;
            left -= 1;
        }
        if at > 0 {
            session.input.holds_request = false;
        }
        at
    }

    /// Whether a request of `session` only needs a route, and no feature takes part.
    #[inline(always)]
    fn is_usual(&self, session: &Session) -> bool {
        let is_watched = self.monitor.is_on | self.pause.is_on() | session.features.login.is_checked();
        let is_special = session.features.subscribed.is_some()
            | session.features.transaction.is_some()
            | session.features.reads.is_some();
        !(is_watched | is_special)
            && session.mute == Mute::No
            && session.pinning == Pinning::No
            && session.input.scanner.is_fresh()
            && !session.replies.expects_large(&self.cx.engine.limits)
    }

    /// Runs one request, whose command is `resolved`.
    #[inline]
    fn handle_request(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        (resolved, number): (Resolved<'static>, Number),
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        walk::enter("handle_request");
        self.cx.count_request(session, number);
        match resolved {
            Resolved::Unknown if command::is_cross_protocol(request.arg(0)) => {
                self.cx.close_cross_protocol(session)
            }
            Resolved::Unknown if let Some(step) = self.carry_out_renamed(session, request, keys, reply) => {
                return step;
            }
            Resolved::Unknown if !learned::is_learnable(request.arg(0)) => {
                self.cx.refuse_unknown(session, request, reply);
            }
            // Nodes get no questions from a client that has not logged in.
            Resolved::Unknown if session.features.login.is_missing() => {
                self.cx.refuse(session, errors::NO_AUTH)
            }
            Resolved::Unknown => match self.cx.parsing.learner.look_up(request.arg(0), self.cx.engine.now) {
                Lookup::Known(learned) => {
                    self.cx.engine.asking = Number::LEARNED;
                    session.features.last = Number::LEARNED;
                    self.cx.stats.tally.count_call(Number::LEARNED);
                    return self.carry_out(session, learned.resolve(request), request, keys, reply);
                }
                Lookup::Unknown => self.cx.refuse_unknown(session, request, reply),
                Lookup::Unavailable(text) => self.cx.refuse(session, &text),
                Lookup::Asked(question) => {
                    self.cx.parsing.learner.wait(question, session.conn);
                    session.hold.add(Reason::Question);
                    return self.cx.read_again();
                }
                Lookup::New => return self.cx.learn(session, request),
            },
            resolved => return self.carry_out(session, resolved, request, keys, reply),
        }
        Step::Done
    }

    /// Runs the command that the request resolved to, if the client may run it now.
    fn carry_out(
        &mut self,
        session: &mut Session,
        resolved: Resolved<'_>,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        walk::enter("carry_out");
        let Resolved::Command(command) = resolved else {
            let renamed = self.carry_out_renamed(session, request, keys, reply);
            return renamed.unwrap_or_else(|| self.cx.refuse_unresolved(session, resolved, request, reply));
        };
        if session.features.login.is_checked() {
            let renamed = self.carry_out_renamed(session, request, keys, reply);
            return renamed.unwrap_or_else(|| self.carry_out_checked(session, command, request, keys, reply));
        }
        self.carry_out_permitted(session, command, request, keys, reply)
    }

    /// Runs a command by Redis's name, if the client may have it carried out.
    pub(crate) fn carry_out_checked(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        if let Some(step) = passing::ask_for_default_user(&mut self.cx, session, command) {
            return step;
        }
        match login::permit(&mut self.cx, session, command, request) {
            true => self.carry_out_in_namespace(session, command, request, keys, reply),
            false => Step::Done,
        }
    }

    /// Runs a command that its client may have carried out.
    #[inline]
    pub(crate) fn carry_out_permitted(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        if session.features.subscribed.is_some() {
            if let Some(step) = pubsub::detain_listener(&mut self.cx, session, command) {
                return step;
            }
            self.invalidations.note_read(session, command, request);
        }
        // One branch for all three: nearly no request has to do with any of them.
        if session.features.transaction.is_some() | self.pause.is_on() | session.features.reads.is_some() {
            if let Some(step) = self.pause.hold_back(&mut self.cx, session, command) {
                return step;
            }
            if session.features.reads.is_some()
                && let Some(step) = self.read_from_replica(session, command, request, keys)
            {
                return step;
            }
            if session.features.transaction.is_some() {
                return self.carry_out_in_transaction(session, command, request, keys, reply);
            }
        }
        // The reply may be of any length. A pinned link keeps other clients from waiting behind it, and the node from
        // getting the request twice.
        if matches!(command.carry, Carry::AllShards(Merge::Concat)) && !self.cx.pin_if_free(session) {
            return self.cx.read_again();
        }
        self.carry_out_admitted(session, command, request, keys, reply)
    }

    /// Runs a command that its client may run now.
    pub(crate) fn carry_out_admitted(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Step {
        match command.carry {
            Carry::Shard => return self.forward(session, command, request, keys),
            Carry::ShardIf(_) | Carry::OnlyShard(_)
                if let Some(objection) =
                    Objection::to(command, request, &self.cx.engine.topology, self.cx.settings.databases) =>
            {
                self.cx.object(session, command, objection, request);
            }
            Carry::ShardIf(_) => return self.forward(session, command, request, keys),
            Carry::Script(script) => {
                scripts::forward_script(&mut self.cx, session, command, script, request, keys)
            }
            Carry::Split(merge) => self.cx.split(session, command, merge, request, keys),
            Carry::AllShards(merge) => {
                let place = session.replies.next_place();
                self.cx.send_to_all(session, command, merge, request, keys);
                namespaced::expect_kept(session, command, place);
            }
            Carry::Publish(kind) => pubsub::send_message(&mut self.cx, session, command, kind, request),
            Carry::Cursor => {
                let place = session.replies.next_place();
                self.scans.send_scan(&mut self.cx, session, request);
                namespaced::expect_kept(session, command, place);
            }
            Carry::OnlyShard(_) | Carry::AnyShard => {
                self.cx.send(session, command, self.cx.engine.topology.keyless(), request.bytes)
            }
            Carry::Here(Local::ConfigGet) if self.cx.settings.allow_admin => {
                self.cx.send_to_all(session, command, Merge::Report(Report::Config), request, keys);
            }
            Carry::Admin(why, admin) => self.administer(session, command, (why, admin), request, keys),
            Carry::Blocking(wait) => return self.forward_waiting(session, command, wait, request, keys),
            Carry::Transaction(act) => {
                return transaction::transact(&mut self.cx, session, command, act, request, keys);
            }
            Carry::Here(local) if passing::has_users_of_nodes(&self.cx) => {
                self.answer_with_nodes(session, local, command, request, (keys, reply));
            }
            Carry::Here(local) => self.answer_here(session, local, command, request, reply),
            Carry::Refused(refusal) => self.cx.refuse_command(session, command, refusal, request),
            // Only the subcommands of a container are resolved.
            Carry::Container => self.cx.refuse_unknown(session, request, reply),
        }
        Step::Done
    }

    /// Sends a request to the shard that owns its keys. If several shards do, the request is emulated.
    pub(crate) fn forward(
        &mut self,
        session: &mut Session,
        command: &Command,
        request: &Request<'_>,
        keys: &mut Keys,
    ) -> Step {
        match route::route(command, request, &self.cx.engine.topology, keys) {
            Route::One(shard) => self.cx.send(session, command, shard, request.bytes),
            Route::Parts => return self.emulations.emulate(&mut self.cx, session, command, request, keys),
        }
        Step::Done
    }
}
