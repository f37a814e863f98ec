//! Commands of a transaction that the proxy answers itself, at their places among the node's replies.
//!
//! ```text
//!   MULTI, GET a, CLIENT ID, GET b, EXEC ─► MULTI, GET a, GET b, EXEC ─► node ─► *2 1 2
//!                    └─► kept here ─────────────────────────────────────► *3 1 (client's number) 2
//! ```
//!
//! They are carried out when the node has said that it has run the others, and not at all if it has not: CLIENT SETNAME
//! within a transaction that fails sets no name. Nothing of the client that stands behind EXEC is carried out before.
//!
//! SELECT goes to the node, since what follows it must run in the other database. The connection is the client's own
//! then, and is closed afterwards; the client goes on in the lane of that database.

use crate::backend::lanes::LaneKind;
use crate::core::Core;
use crate::errors;
use crate::requests::route::Scratch;
use crate::session::{Owed, Session};
use command::{Carry, Resolved};
use resp::reply::elements;
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, encode};
use stdx::{Id, append};

/// The commands of one transaction that are not only the node's.
#[derive(Debug, Default)]
pub(crate) struct Inlays {
    inlays: Vec<Inlay>,
    /// Commands that are answered here.
    here: u32,
    /// Bytes of their requests.
    bytes: usize,
}

#[derive(Debug)]
struct Inlay {
    /// So many commands of the node stand before it.
    behind: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// This request is answered here.
    Here(Box<[u8]>),
    /// The node is told to use this database.
    Select(u16),
}

impl Inlays {
    /// Whether the node answers all, and nothing of it needs a look.
    pub(crate) fn is_empty(&self) -> bool {
        self.inlays.is_empty()
    }

    /// How many commands are answered here.
    pub(crate) fn here(&self) -> u32 {
        self.here
    }

    /// Whether the transaction ends in another database, perhaps.
    pub(crate) fn selects(&self) -> bool {
        self.inlays.iter().any(|inlay| matches!(inlay.what, What::Select(_)))
    }

    /// Bytes of the requests that are answered here.
    pub(crate) fn request_bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of memory that it holds.
    pub(crate) fn held_bytes(&self) -> usize {
        self.inlays.capacity() * size_of::<Inlay>() + self.bytes
    }

    /// `request` is answered here, behind `behind` commands of the node.
    pub(crate) fn add(&mut self, behind: u32, request: &[u8]) {
        self.here += 1;
        self.bytes += request.len();
        self.inlays.push(Inlay { behind, what: What::Here(request.into()) });
    }

    /// The node's command behind `behind` others chooses `database`.
    pub(crate) fn add_select(&mut self, behind: u32, database: u16) {
        self.inlays.push(Inlay { behind, what: What::Select(database) });
    }
}

/// What a client waits for whose transaction has inlays.
#[derive(Debug)]
pub(crate) struct Mixture {
    inlays: Inlays,
    /// How many commands its node runs.
    commands: u32,
}

impl Core {
    /// Reserves what the reply to EXEC is for a transaction of `commands` commands of the node and `inlays`. Nothing behind
    /// it is carried out before it was answered.
    pub(crate) fn expect_mixture(&mut self, session: &mut Session, inlays: Inlays, commands: u32) -> Owed {
        session.fences += 1;
        Owed::Mixture(self.mixtures.insert(Mixture { inlays, commands }))
    }

    /// The node has said nothing to EXEC, and will not.
    pub(crate) fn lose_mixture(&mut self, session: &mut Session, id: Id) {
        self.mixtures.remove(id);
        session.end_caching();
        self.lift_mixture_fence(session);
    }

    fn lift_mixture_fence(&mut self, session: &mut Session) {
        session.fences -= 1;
        self.clients_to_resume.push(session.conn);
    }

    /// The node has answered EXEC with `reply`: writes what the client gets.
    pub(crate) fn answer_mixture(&mut self, session: &mut Session, id: Id, reply: &[u8], out: &mut Vec<u8>) {
        self.lift_mixture_fence(session);
        if let Some(Mixture { inlays, commands }) = self.mixtures.remove(id) {
            self.lay_in(session, inlays, commands, reply, out);
        }
        session.end_caching();
    }

    /// Writes `reply`, which answers EXEC for `commands` commands, with `inlays` at their places.
    pub(crate) fn lay_in(
        &mut self,
        session: &mut Session,
        inlays: Inlays,
        commands: u32,
        reply: &[u8],
        out: &mut Vec<u8>,
    ) {
        let Some(mut replies) = elements(reply) else { return append(out, reply) };
        if replies.len() != commands as usize {
            return errors::write(out, errors::MERGE_FAILED);
        }
        encode::array_header(out, replies.len() + inlays.here as usize);
        let mut database = None;
        for Inlay { behind, what } in inlays.inlays {
            let before = behind as usize - (commands as usize - replies.len());
            replies.by_ref().take(before).for_each(|reply| append(out, reply));
            match what {
                What::Here(request) => self.write_inlay(session, &request, out),
                What::Select(chosen) => {
                    let selected = replies.next().unwrap_or_default();
                    append(out, selected);
                    database = if selected == b"+OK\r\n" { Some(chosen) } else { database };
                }
            }
        }
        append(out, replies.rest());
        if let Some(database) = database {
            self.change_lane(session, LaneKind { database, ..self.lanes.kind(session.lane) });
        }
    }

    /// Carries out `request`, which was checked when it was kept, and appends its reply.
    fn write_inlay(&mut self, session: &mut Session, request: &[u8], out: &mut Vec<u8>) {
        let mut scratch = Scratch::default();
        let scanned = Scanner::default().scan(
            request,
            &RequestLimits::default(),
            &mut scratch.args,
            &mut scratch.inline,
        );
        debug_assert!(matches!(scanned, Ok(Scanned::Request { .. })), "it was scanned before");
        let request = Request::new(request, &scratch.args);
        let (resolved, number) = command::resolve_numbered(&request);
        let asking = std::mem::replace(&mut self.asking, number);
        if let Resolved::Command(command) = resolved
            && let Carry::Here(local) = command.carry
        {
            self.compose(session, local, command, &request, &mut scratch.reply);
        }
        debug_assert!(!scratch.reply.is_empty(), "what is answered later is no part of a transaction");
        if resp::reply::is_error(&scratch.reply) {
            self.tally.count_failed(self.asking, &scratch.reply);
        }
        self.asking = asking;
        append(out, &scratch.reply);
    }
}
