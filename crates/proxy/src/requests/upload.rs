//! Upload: a large request is relayed to its node while it comes in.
//!
//! In most commands the key stands before the large argument, so the beginning of a request gives its route. The
//! request goes over a pinned link: no other client could use the shared link until the request is complete. If the
//! client goes away half-way, the link is closed and the node drops the incomplete request. Half a request never
//! runs.

use crate::context::Context;
use crate::core::Core;
use crate::features::{Asked, Owed, Owner, Session};
use crate::hot;
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::link::upload::Upload;
use crate::reading::replicas;
use crate::sampling::take;
use crate::session::pinning::Pinning;
use crate::session::{Mute, Phase};
use command::{Carry, Number, Resolved};
use resp::Request;
use resp::request::{Scanner, Span};
use stdx::{Id, Instant};
use topology::ShardId;

/// The limit of arguments of an upload. A request with more is large by their number, and is held until it is
/// complete.
const ARGS_MAX: usize = 64 * 1024;

impl Context {
    /// Relays bytes of the request. Returns the number of bytes used.
    pub(crate) fn continue_upload(&mut self, session: &mut Session, id: Id, bytes: &[u8]) -> usize {
        let Some(Upload { link: ix, scanner }) = self.pins.get_mut(id).and_then(|pin| pin.upload.as_mut())
        else {
            return 0;
        };
        let ix = *ix;
        let passed = match scanner.pass(bytes, &self.engine.limits.request) {
            Ok(passed) => passed,
            Err(error) => {
                self.refuse_bytes(session, error);
                self.unpin(session);
                return bytes.len();
            }
        };
        if let Some(ix) = ix {
            self.engine.links[ix].append(&bytes[..passed.len], &mut self.engine.pool);
            self.engine.list_link(ix);
        }
        session.input.began = self.engine.now;
        if passed.complete {
            self.end_upload(session, id, ix);
        }
        passed.len
    }

    /// Ends the upload of a complete request.
    fn end_upload(&mut self, session: &mut Session, id: Id, node: Option<LinkIx>) {
        session.input.began = Instant::NEVER;
        if let Some(pin) = self.pins.get_mut(id) {
            pin.upload = None;
        }
        if let Some(node) = node {
            self.engine.set_deadline(node, self.engine.now + self.engine.limits.transfer_timeout);
        }
        if !session.replies.is_pending() {
            self.handle_quiet(session);
        }
    }

    /// Whether the session takes bytes now: as requests, or as a part of an upload whose node takes it.
    pub(crate) fn may_receive(&self, session: &Session) -> bool {
        if session.may_read(&self.engine.limits) {
            return !self.engine.memory.is_full();
        }
        if session.is_blocked() {
            // The worker must read to see the client's end of stream. After the end, only unread requests hold the
            // session here.
            let may_end = session.phase == Phase::Open;
            return may_end && session.input.bytes.len() < self.engine.limits.waiting_input_bytes_max;
        }
        let Pinning::Busy(id) = session.pinning else { return false };
        let Some(upload) = self.pins.get(id).and_then(|pin| pin.upload.as_ref()) else { return false };
        upload.link.is_none_or(|ix| self.engine.links[ix].queued_bytes() < self.engine.limits.relay_bytes_max)
    }

    /// Whether the session is in the middle of an upload.
    pub(crate) fn is_uploading(&self, session: &Session) -> bool {
        let Pinning::Busy(id) = session.pinning else { return false };
        self.pins.get(id).is_some_and(|pin| pin.upload.is_some())
    }
}

impl Core {
    /// Starts the upload of the large request at the start of `bytes`, if possible now. Returns the number of bytes
    /// used. 0 if more bytes are needed, or the request cannot be uploaded.
    pub(crate) fn begin_upload(&mut self, session: &mut Session, bytes: &[u8]) -> usize {
        if session.input.holds_request {
            return 0;
        }
        // In a cluster a node may decline the request. Then another node must get it, so it must be complete.
        let target = self.upload_target(session, bytes).filter(|_| !self.cx.engine.keeps.is_kept());
        let Some((shard, number)) = target else {
            // The session reads on once it may have links of its own, which limits the number of such requests in
            // memory.
            session.input.holds_request = self.cx.pin(session);
            return 0;
        };
        if !self.cx.pin(session) {
            return 0;
        }
        let Some(id) = session.pinning.id() else { return 0 };
        let len = bytes.len().max(session.input.scanner.bytes_announced());
        hot::note_large_request(&mut self.cx, bytes, len);
        session.input.scanner = Scanner::default();
        session.pinning = Pinning::Busy(id);
        replicas::note_own_writes(&mut self.cx, session);
        session.features.last = number;
        self.cx.engine.asking = number;
        self.cx.stats.count_calls(number, 1);
        // It has no keys to be seen yet, and its time is that of the client too. Rather the next one is a sample.
        take::plan_samples(&mut self.cx);
        let ix = match self.cx.pinned_node(id, session.profile, shard, None) {
            Ok(ix) => {
                let place = session.replies.reserve(Owed::Node);
                let start = self.cx.engine.links[ix].end();
                let asked =
                    Asked { conn: session.conn, place, part: 0, owner: Owner::Client, kept: Kept::NO };
                self.cx.engine.push_ticket(ix, start, asked);
                self.cx.engine.set_deadline(ix, Instant::NEVER);
                self.cx.engine.links[ix].keep_nothing(&mut self.cx.engine.pool);
                Some(ix)
            }
            Err(lost) => {
                self.cx.refuse(session, &lost.text());
                None
            }
        };
        let pin = self.cx.pins.get_mut(id).expect("a pinned session has a pin");
        pin.upload = Some(Upload { link: ix, scanner: Scanner::default() });
        self.cx.continue_upload(session, id, bytes)
    }

    /// The shard and the command of the request, if its beginning shows them.
    fn upload_target(&self, session: &Session, bytes: &[u8]) -> Option<(ShardId, Number)> {
        let is_usual = session.mute == Mute::No
            && !session.features.login.is_missing()
            && session.features.subscribed.is_none();
        if !is_usual || session.features.transaction.is_some() || self.monitor.is_on {
            return None;
        }
        let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
        // The incomplete request was scanned without an error before.
        scanner.scan(bytes, &self.cx.engine.limits.request, &mut args, &mut inline).ok()?;
        let (known, all) = (args.len(), scanner.args_announced());
        if known == 0 || all > ARGS_MAX {
            return None;
        }
        // Missing arguments stand as empty, so that their number can be checked.
        args.resize(all, Span { start: bytes.len(), len: 0 });
        let request = Request::new(bytes, &args);
        let (Resolved::Command(command), number) = command::resolve_numbered(&request) else { return None };
        let position = command.single_key().filter(|&position| position < known)?;
        let key = request.arg(position);
        // A missing argument may decide whether the key is read or written, and whether the listener permits it. Its key
        // may need a prefix.
        let has_policy = self.cx.settings.access.policies.of(session.features.login.listener).is_some();
        let renames = session.features.namespace.as_ref().is_some_and(|named| named.namespace.renames());
        if has_policy || renames {
            return None;
        }
        if session.features.login.is_checked() && !session.features.login.permits_any(number, key) {
            return None;
        }
        let shard = self.cx.engine.topology.shard_of(key);
        matches!(command.carry, Carry::Shard).then_some((shard, number))
    }
}
