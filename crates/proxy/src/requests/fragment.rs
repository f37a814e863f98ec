//! Requests that several shards must see. shardis divides and sends them, and a merge makes one reply of the
//! fragments' replies.
//!
//! If a shard of a split request is known to be down, nothing is sent to the other shards either. So the client may
//! repeat the request safely.

use crate::context::Context;
use crate::features::{Asked, Owed, Owner, Session, TaskId};
use crate::link::LinkIx;
use crate::link::kept::Kept;
use crate::replies::merge::Merge;
use crate::requests::route::{Keys, Part};
use crate::scripts;
use crate::scripts::known::Library;
use crate::session::Reason;
use crate::walk;
use command::{Command, Flags};
use resp::Request;

impl Context {
    /// Sends each part of `keys` a request with its keys (and values), in the order of the original. All parts must
    /// be admitted, or none is sent.
    pub(crate) fn send_parts(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        walk::enter("send_parts");
        if !self.refuse_unless_admitted(session, &mut keys.parts) {
            self.send_parts_to_nodes(session, command, merge, request, keys);
        }
    }

    /// Sends the parts over the links that were chosen, which have admitted them.
    pub(crate) fn send_parts_to_nodes(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        let step = command.split_step();
        if self.engine.topology.is_cluster() {
            self.write_parts_in_turn(step, request, keys);
            return self.expect_parts(session, command, merge, request, keys, None);
        }
        for part in &mut keys.parts {
            let (name, args) = (request.raw_arg(0), 1 + part.keys * step);
            part.start = self.engine.links[part.link].append_start(name, args, &mut self.engine.pool);
        }
        for (&position, &part) in keys.positions.iter().zip(&keys.part_of_key) {
            let ix = keys.parts[part as usize].link;
            self.engine.links[ix].append(request.raw_args(position, step), &mut self.engine.pool);
        }
        self.expect_parts(session, command, merge, request, keys, None);
    }

    /// Appends the parts' requests one after the other: a node may get several, one for each slot.
    fn write_parts_in_turn(&mut self, step: usize, request: &Request<'_>, keys: &mut Keys) {
        let mut order: Vec<usize> = (0..keys.positions.len()).collect();
        order.sort_by_key(|&key| keys.part_of_key[key]);
        let mut order = order.into_iter();
        for part in &mut keys.parts {
            let (name, args) = (request.raw_arg(0), 1 + part.keys * step);
            part.start = self.engine.links[part.link].append_start(name, args, &mut self.engine.pool);
            for key in order.by_ref().take(part.keys) {
                let args = request.raw_args(keys.positions[key], step);
                self.engine.links[part.link].append(args, &mut self.engine.pool);
            }
        }
    }

    /// Sends the whole request to every shard.
    pub(crate) fn send_to_all(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &mut Keys,
    ) {
        keys.all_shards(&self.engine.topology);
        if self.refuse_unless_admitted(session, &mut keys.parts) {
            return;
        }
        let library = scripts::note_scripts(self, command, request, &keys.parts);
        for part in &mut keys.parts {
            part.start = self.engine.links[part.link].append(request.bytes, &mut self.engine.pool);
        }
        self.expect_parts(session, command, merge, request, keys, library);
        if merge.is_open_ended() {
            session.turn();
        }
    }

    /// Chooses the link for each part. If a shard does not admit its part, nothing is sent, and the client may repeat
    /// the request safely.
    pub(crate) fn refuse_unless_admitted(&mut self, session: &mut Session, parts: &mut [Part]) -> bool {
        for part in parts {
            match self.link_for(session, part.shard) {
                Ok(node) => part.link = node,
                Err(lost) => {
                    self.refuse(session, &lost.text());
                    return true;
                }
            }
        }
        false
    }

    /// Reserves the client's place and queues a ticket for each part that was appended.
    fn expect_parts(
        &mut self,
        session: &mut Session,
        command: &Command,
        merge: command::Merge,
        request: &Request<'_>,
        keys: &Keys,
        library: Option<Library>,
    ) {
        walk::enter("expect_parts");
        let reads = command.flags.contains(Flags::READONLY);
        let is_whole = self.is_taken_whole(session, merge, &keys.parts);
        let loadable = match merge {
            command::Merge::And => self.board.scripts.loadable(command, request),
            _ => Vec::new(),
        };
        let merge = Merge::new(
            merge,
            keys.parts.len() as u32,
            &keys.part_of_key,
            reads,
            request.get(2),
            &mut self.spare_values,
            &mut self.engine.prng,
        )
        .with_library(library)
        .with_loadable(loadable)
        .of_shards(&self.engine.topology)
        .taken_whole(is_whole)
        .in_profile(self.profiles.kind(session.profile));
        let kept = Kept::only_if(reads);
        self.expect_merge(session, merge, keys, kept);
    }

    /// Whether the replies of `parts` are held until they are complete instead of being relayed.
    fn is_taken_whole(&self, session: &Session, merge: command::Merge, parts: &[Part]) -> bool {
        match merge {
            // Within a transaction, whose other replies come behind this one.
            command::Merge::Concat => session.hold.has(Reason::Order),
            _ => self.engine.topology.is_cluster() && shares_conns(parts),
        }
    }

    /// Reserves the client's place for `merge`, and queues a ticket for each part that was appended.
    pub(crate) fn expect_merge(&mut self, session: &mut Session, mut merge: Merge, keys: &Keys, kept: Kept) {
        let holds = merge.held_bytes();
        self.engine.memory.recount(&mut merge.counted_bytes, holds);
        let place = session.replies.reserve(Owed::Task(TaskId::Merge(self.merges.insert(merge))));
        self.stats.counters.fragments += keys.parts.len() as u64;
        for (number, part) in keys.parts.iter().enumerate() {
            let (part_number, owner) = (number as u32, Owner::Client);
            let asked = Asked { conn: session.conn, place, part: part_number, owner, kept };
            self.engine.push_ticket(part.link, part.start, asked);
        }
    }
}

/// Whether several of `parts` go over one link.
fn shares_conns(parts: &[Part]) -> bool {
    let mut nodes: Vec<LinkIx> = parts.iter().map(|part| part.link).collect();
    nodes.sort_unstable();
    nodes.windows(2).any(|pair| pair[0] == pair[1])
}
