//! A set of commands: one bit for each line of the command table.

use command::{Acl, Command, Number, Server};
use std::collections::HashMap;
use std::sync::LazyLock;

const WORDS: usize = Number::COUNT.div_ceil(64);

/// A set of commands and subcommands. The bit of [`Number::LEARNED`] stands for all that the table lacks: commands of
/// modules and of newer nodes. As in Redis it follows only `+@all` and `-@all`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bits([u64; WORDS]);

impl Bits {
    pub(crate) const NONE: Bits = Bits([0; WORDS]);
    pub(crate) const ALL: Bits = Bits([u64::MAX; WORDS]);

    #[inline]
    pub(crate) fn contains(&self, number: Number) -> bool {
        let at = number.index();
        self.0[at / 64] >> (at % 64) & 1 != 0
    }

    fn set(&mut self, number: Number, on: bool) {
        let at = number.index();
        let bit = 1 << (at % 64);
        if on { self.0[at / 64] |= bit } else { self.0[at / 64] &= !bit }
    }

    /// Switches a line, and with a container all its subcommands.
    pub(crate) fn set_line(&mut self, line: Line, on: bool) {
        self.set(line.number, on);
        for below in LINES.iter().skip(line.number.index() + 1).take(line.command.subcommands.len()) {
            self.set(below.number, on);
        }
    }

    /// Switches all lines of a category, and with its containers all their subcommands, of any category.
    pub(crate) fn set_category(&mut self, category: Acl, on: bool) {
        for line in LINES.iter().filter(|line| line.command.acl.contains(category)) {
            self.set_line(*line, on);
        }
    }

    /// Numbers of a category's lines that are in the set and that are not, as Redis 7.0 counts them.
    pub(crate) fn count(&self, category: Acl) -> (usize, usize) {
        let lines = LINES.iter().filter(|line| line.command.acl.contains(category) && !line.is_newer());
        let (mut on, mut off) = (0, 0);
        for line in lines {
            if self.contains(line.number) { on += 1 } else { off += 1 }
        }
        (on, off)
    }
}

/// A line of the table.
#[derive(Clone, Copy)]
pub(crate) struct Line {
    pub number: Number,
    pub command: &'static Command,
}

impl Line {
    /// The line of this full name, as `config|get`; case is ignored.
    pub(crate) fn find(name: &[u8]) -> Option<Line> {
        BY_NAME.get(&*name.to_ascii_lowercase()).copied()
    }

    /// The line with this number.
    pub(crate) fn of(number: Number) -> Line {
        LINES[number.index()]
    }

    /// All lines: each command, and behind it its subcommands.
    pub(crate) fn all() -> impl Iterator<Item = Line> {
        LINES.iter().copied()
    }

    /// Whether it is a subcommand.
    pub(crate) fn is_subcommand(self) -> bool {
        self.command.name.contains('|')
    }

    /// Whether Redis 7.0 lacks it. The choice of categories that describe a user must not depend on such commands: the text is
    /// compared with that of a Redis 7.0.
    fn is_newer(self) -> bool {
        !self.command.since.is_in(Server::Redis(7, 0))
    }
}

static LINES: LazyLock<Vec<Line>> =
    LazyLock::new(|| command::numbered().map(|(number, command)| Line { number, command }).collect());

static BY_NAME: LazyLock<HashMap<&'static [u8], Line>> =
    LazyLock::new(|| LINES.iter().map(|line| (line.command.name.as_bytes(), *line)).collect());
