//! Commands that the table lacks (of modules, of newer servers). shardis asks a node once with `COMMAND INFO` and
//! remembers the answer. Only a client whose request needs the answer waits.

use crate::ConnId;
use crate::limits::Limits;
use crate::login::attempts::is_denial;
use command::{Command, learned};
use resp::reply::is_error;
use std::collections::HashMap;
use std::sync::Arc;
use stdx::{Instant, Slab};

/// Knowledge of commands that the table lacks.
#[derive(Debug, Default)]
pub(crate) struct Learner {
    /// Knowledge by upper-case name.
    known: HashMap<Vec<u8>, Knowledge>,
    questions: Slab<Question>,
}

#[derive(Debug)]
enum Knowledge {
    /// A node knows the command.
    Known(Arc<Command>),
    /// A question is in flight.
    Asked(stdx::Id),
    /// The node that was asked does not know the command. It is asked again after `until`.
    Unknown { until: Instant },
    /// No node answered the question. `until` is the present, so only the clients that wait get the error.
    Unavailable { text: String, until: Instant },
}

#[derive(Debug)]
struct Question {
    name: Vec<u8>,
    waiting: Vec<ConnId>,
}

/// The way to go on with a request whose name the table lacks.
#[derive(Debug)]
pub(crate) enum Lookup {
    /// Use this command.
    Known(Arc<Command>),
    /// No node knows the command.
    Unknown,
    /// A node had to be asked and was not available. This is the client's error.
    Unavailable(String),
    /// The question is in flight: wait with [`Learner::wait`].
    Asked(stdx::Id),
    /// Ask a node, with [`Learner::ask`].
    New,
}

impl Learner {
    /// The knowledge of `name`, which must be learnable.
    pub(crate) fn look_up(&self, name: &[u8], now: Instant) -> Lookup {
        match self.known.get(&name.to_ascii_uppercase()) {
            Some(Knowledge::Known(command)) => Lookup::Known(Arc::clone(command)),
            Some(Knowledge::Asked(question)) => Lookup::Asked(*question),
            Some(Knowledge::Unknown { until }) if *until >= now => Lookup::Unknown,
            Some(Knowledge::Unavailable { text, until }) if *until >= now => {
                Lookup::Unavailable(text.clone())
            }
            _ => Lookup::New,
        }
    }

    /// Notes that a node is asked for `name` and that `conn` waits. The returned number goes into the ticket.
    pub(crate) fn ask(&mut self, name: &[u8], conn: ConnId, limits: &Limits) -> stdx::Id {
        if self.known.len() >= limits.learned_max {
            self.forget();
        }
        let name = name.to_ascii_uppercase();
        let question = self.questions.insert(Question { name: name.clone(), waiting: vec![conn] });
        self.known.insert(name, Knowledge::Asked(question));
        question
    }

    /// Makes `conn` wait for a question in flight.
    pub(crate) fn wait(&mut self, question: stdx::Id, conn: ConnId) {
        if let Some(question) = self.questions.get_mut(question) {
            question.waiting.push(conn);
        }
    }

    /// The clients that wait for an answer.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = ConnId> {
        self.questions.iter().flat_map(|(_, question)| question.waiting.iter().copied())
    }

    /// Takes a node's answer. Returns the clients that waited.
    pub(crate) fn absorb(
        &mut self,
        question: stdx::Id,
        reply: &[u8],
        now: Instant,
        limits: &Limits,
    ) -> Vec<ConnId> {
        let text = String::from_utf8_lossy(reply);
        let error = text.trim_matches(['-', '\r', '\n']);
        let knowledge = match learned::parse(reply) {
            Some(command) => Knowledge::Known(Arc::new(command)),
            // The asking user may lack the permission. Other users may have it.
            None if is_error(reply) && is_denial(error) => {
                Knowledge::Unavailable { text: error.to_owned(), until: now }
            }
            None => Knowledge::Unknown { until: now + limits.unknown_for },
        };
        self.answer(question, knowledge)
    }

    /// Notes that the node did not answer. Returns the clients that waited.
    pub(crate) fn absorb_loss(&mut self, question: stdx::Id, text: String, now: Instant) -> Vec<ConnId> {
        self.answer(question, Knowledge::Unavailable { text, until: now })
    }

    fn answer(&mut self, question: stdx::Id, knowledge: Knowledge) -> Vec<ConnId> {
        let Some(question) = self.questions.remove(question) else { return Vec::new() };
        self.known.insert(question.name, knowledge);
        question.waiting
    }

    /// Makes room: drops all knowledge except questions in flight. A client that sends a thousand invented names
    /// costs others one round trip for each learned command.
    fn forget(&mut self) {
        self.known.retain(|_, knowledge| matches!(knowledge, Knowledge::Asked(_)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const CONN: ConnId = ConnId { index: 3, generation: 0 };

    #[test]
    fn unknown_commands_are_remembered_for_a_while() {
        let (mut learner, limits) = (Learner::default(), Limits::default());
        assert!(matches!(learner.look_up(b"FOO.BAR", Instant::ZERO), Lookup::New));
        let question = learner.ask(b"foo.bar", CONN, &limits);
        assert!(
            matches!(learner.look_up(b"Foo.Bar", Instant::ZERO), Lookup::Asked(asked) if asked == question)
        );
        assert_eq!(learner.absorb(question, b"*1\r\n*-1\r\n", Instant::ZERO, &limits), [CONN]);
        assert!(matches!(learner.look_up(b"FOO.BAR", Instant::ZERO), Lookup::Unknown));
        let later = Instant::ZERO + limits.unknown_for + Duration::from_nanos(1);
        assert!(matches!(learner.look_up(b"FOO.BAR", later), Lookup::New));
    }

    #[test]
    fn a_flood_of_invented_names_is_bounded() {
        let (mut learner, limits) = (Learner::default(), Limits { learned_max: 10, ..Limits::default() });
        for number in 0..1000 {
            let question = learner.ask(format!("NAME{number}").as_bytes(), CONN, &limits);
            learner.absorb(question, b"*1\r\n*-1\r\n", Instant::ZERO, &limits);
        }
        assert!(learner.known.len() <= 10);
    }
}
