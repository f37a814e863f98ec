//! From the bytes of a request to the line of the table.
//!
//! [`find`] is on the path of every request. The names lie in an open-addressed table that the compiler fills. Each entry holds
//! the whole name as three machine words. A look-up is therefore a hash of three words and, nearly always, one comparison in
//! one cache line.

use std::sync::LazyLock;

use resp::Request;

use crate::carry::{Carry, Transaction};
use crate::command::Command;
use crate::keys::Args;
use crate::table::SECTIONS;

/// The result of looking up a request's command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resolved<'t> {
    /// This command or subcommand, with a number of arguments that fits.
    Command(&'t Command),
    /// This command or subcommand, with a number of arguments that does not fit.
    WrongArity(&'t Command),
    /// A subcommand that this container does not have.
    UnknownSubcommand(&'t Command),
    /// No command of the table. A node may know it: see [`learned`](crate::learned).
    Unknown,
}

impl Resolved<'_> {
    /// Whether the request, which is refused, still ends its client's transaction: EXEC with arguments.
    pub fn ends_transaction(&self) -> bool {
        matches!(self, Resolved::WrongArity(command) if command.carry == Carry::Transaction(Transaction::Execute))
    }
}

/// The command of this name; case is ignored. Subcommands are found by [`resolve`].
#[inline]
pub fn find(name: &[u8]) -> Option<&'static Command> {
    INDEX.find(name)
}

/// Numbers the lines of the table, subcommands included, so that counters can lie in an array. The last two stand for
/// learnt commands and for unknown ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Number(u16);

impl Number {
    /// Number of commands.
    pub const COUNT: usize = LINES + 2;
    /// All learnt commands together.
    pub const LEARNED: Number = Number(LINES as u16);
    /// No command.
    pub const NONE: Number = Number(LINES as u16 + 1);

    /// The place in an array of [`Number::COUNT`].
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Redis's full name of the command: `client|list`. Learnt ones share the name `other`; no command has none.
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(self.index()).copied()
    }

    /// All that have a name, in the order of the table.
    pub fn named() -> impl Iterator<Item = (Number, &'static str)> {
        (0..).map(Number).zip(NAMES.iter().copied())
    }
}

/// All lines of the table with their numbers: each command, and behind it its subcommands.
pub fn numbered() -> impl Iterator<Item = (Number, &'static Command)> {
    (0..).map(Number).zip(lines())
}

fn lines() -> impl Iterator<Item = &'static Command> {
    all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
}

/// The names by number.
static NAMES: LazyLock<Vec<&'static str>> =
    LazyLock::new(|| lines().map(|command| &*command.name).chain(["other"]).collect());

/// The command or subcommand of this full name, such as `object|encoding`; case is ignored.
pub fn find_full(name: &[u8]) -> Option<&'static Command> {
    match name.iter().position(|&byte| byte == b'|') {
        Some(at) => find(&name[..at])?.subcommand(&name[at + 1..]),
        None => find(name),
    }
}

/// Finds command and subcommand, and checks the number of arguments, in Redis's order.
#[inline]
pub fn resolve(request: &Request<'_>) -> Resolved<'static> {
    resolve_numbered(request).0
}

/// As [`resolve`], with the line's number.
#[inline]
pub fn resolve_numbered(request: &Request<'_>) -> (Resolved<'static>, Number) {
    let Some((entry, command)) = INDEX.find_entry(request.arg(0)) else {
        return (Resolved::Unknown, Number::NONE);
    };
    let first = entry.number;
    if !entry.has_subcommands {
        return (checked(command, request.len()), first);
    }
    let resolved = resolve_args(command, &Args::from(request));
    let number = match resolved {
        Resolved::Command(found) | Resolved::WrongArity(found) if !std::ptr::eq(found, command) => {
            let at = command.subcommands.iter().position(|subcommand| std::ptr::eq(subcommand, found));
            Number(first.0 + 1 + at.unwrap_or_default() as u16)
        }
        Resolved::UnknownSubcommand(_) | Resolved::Unknown => Number::NONE,
        Resolved::Command(_) | Resolved::WrongArity(_) => first,
    };
    (resolved, number)
}

/// As [`resolve`], behind the look-up.
#[inline]
pub(crate) fn resolve_args<'t>(command: &'t Command, args: &Args<'_>) -> Resolved<'t> {
    let command = match args.get(1) {
        Some(name) if !command.subcommands.is_empty() => match command.subcommand(name) {
            Some(subcommand) => subcommand,
            None => return Resolved::UnknownSubcommand(command),
        },
        _ => command,
    };
    checked(command, args.len())
}

/// `command` with `len` arguments, its name included.
#[inline]
fn checked(command: &Command, len: usize) -> Resolved<'_> {
    if command.arity_fits(len) { Resolved::Command(command) } else { Resolved::WrongArity(command) }
}

/// Whether a request of this name is HTTP. It was sent to the wrong port, or on purpose by a web page. As Redis does, close the
/// connection without a reply.
pub fn is_cross_protocol(name: &[u8]) -> bool {
    crate::keys::is_word(name, b"post") || crate::keys::is_word(name, b"host:")
}

/// All commands, without subcommands, by the sections of Redis's documentation.
pub fn sections() -> impl Iterator<Item = (&'static str, &'static [Command])> {
    SECTIONS.iter().map(|section| (section.title, section.commands))
}

/// All commands, without subcommands, in the order of the table.
pub fn all() -> impl Iterator<Item = &'static Command> + Clone {
    SECTIONS.iter().flat_map(|section| section.commands)
}

/// A name of up to 23 bytes, in lower case; the last byte is the length, so that a NUL at the end counts.
type Key = [u64; 3];

/// The longest name that fits into a [`Key`]; the longest in the table has 20 bytes.
const NAME_BYTES_MAX: usize = 23;

/// Four times the names, so that few look-ups need a second step.
const ENTRIES: usize = 1024;

struct Entry {
    key: Key,
    command: Option<&'static Command>,
    number: Number,
    /// As in the command, without a look at it.
    has_subcommands: bool,
}

impl Entry {
    const EMPTY: Entry = Entry { key: [0; 3], command: None, number: Number::NONE, has_subcommands: false };
}

/// Number of lines of the table, subcommands counted.
const LINES: usize = {
    let mut lines = 0;
    let mut section = 0;
    while section < SECTIONS.len() {
        let commands = SECTIONS[section].commands;
        let mut at = 0;
        while at < commands.len() {
            lines += 1 + subcommands(&commands[at]).len();
            at += 1;
        }
        section += 1;
    }
    lines
};

/// The subcommands of a line of the table.
const fn subcommands(command: &Command) -> &[Command] {
    match &command.subcommands {
        std::borrow::Cow::Borrowed(subcommands) => subcommands,
        std::borrow::Cow::Owned(_) => panic!("the table's subcommands are static"),
    }
}

struct Index {
    entries: [Entry; ENTRIES],
}

static INDEX: Index = Index::new();

impl Index {
    const fn new() -> Index {
        let mut entries = [const { Entry::EMPTY }; ENTRIES];
        let mut number = 0;
        let mut section = 0;
        while section < SECTIONS.len() {
            let commands = SECTIONS[section].commands;
            let mut at = 0;
            while at < commands.len() {
                let command = &commands[at];
                let std::borrow::Cow::Borrowed(name) = &command.name else {
                    panic!("the table's names are static")
                };
                let key = key(name.as_bytes()).expect("no name of the table is longer than 23 bytes");
                let mut entry = first_entry(&key);
                while entries[entry].command.is_some() {
                    entry = (entry + 1) % ENTRIES;
                }
                let subcommands = subcommands(command).len() as u16;
                let has_subcommands = subcommands > 0;
                entries[entry] =
                    Entry { key, command: Some(command), number: Number(number), has_subcommands };
                number += 1 + subcommands;
                at += 1;
            }
            section += 1;
        }
        Index { entries }
    }

    #[inline]
    fn find(&self, name: &[u8]) -> Option<&'static Command> {
        self.find_entry(name).map(|(_, command)| command)
    }

    #[inline]
    fn find_entry(&self, name: &[u8]) -> Option<(&Entry, &'static Command)> {
        let key = key(name)?;
        let mut at = first_entry(&key);
        // Ends: three of four entries are empty.
        loop {
            let entry = &self.entries[at];
            let command = entry.command?;
            if is_same(&entry.key, &key) {
                return Some((entry, command));
            }
            at = (at + 1) % ENTRIES;
        }
    }
}

/// `name` in the form for comparison, or `None` if it is too long for a name of the table.
#[inline]
const fn key(name: &[u8]) -> Option<Key> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let (first, rest) = word(name);
    let len = (name.len() as u64) << 56;
    if rest.is_empty() {
        return Some([lower_case(first), 0, len]);
    }
    let (second, rest) = word(rest);
    let (third, _) = word(rest);
    Some([lower_case(first), lower_case(second), lower_case(third) | len])
}

/// Whether two keys are equal, word by word. `==` would compare 16 bytes at once, and so wait until the two words that were
/// just computed are in memory: a store-forwarding stall.
#[inline]
fn is_same(one: &Key, other: &Key) -> bool {
    (one[0] ^ other[0]) | (one[1] ^ other[1]) | (one[2] ^ other[2]) == 0
}

/// Up to eight bytes as a little-endian number, and the bytes behind them.
#[inline]
const fn word(bytes: &[u8]) -> (u64, &[u8]) {
    if let Some((word, rest)) = bytes.split_first_chunk::<8>() {
        return (u64::from_le_bytes(*word), rest);
    }
    let len = bytes.len();
    // Two loads that may overlap instead of a loop over up to seven bytes.
    let word = if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        u32::from_le_bytes(*low) as u64 | (u32::from_le_bytes(*high) as u64) << ((len - 4) * 8)
    } else if let (Some(low), Some(high)) = (bytes.first_chunk::<2>(), bytes.last_chunk::<2>()) {
        u16::from_le_bytes(*low) as u64 | (u16::from_le_bytes(*high) as u64) << ((len - 2) * 8)
    } else if let [byte] = bytes {
        *byte as u64
    } else {
        0
    };
    (word, &[])
}

/// Eight ASCII bytes in lower case at once.
#[inline]
const fn lower_case(word: u64) -> u64 {
    const EACH: u64 = 0x0101_0101_0101_0101;
    let low_bits = word & (0x7f * EACH);
    // The high bit of each byte means: above `Z`; `A` or above; ASCII.
    let above_z = low_bits + (0x7f - b'Z' as u64) * EACH;
    let from_a = low_bits + (0x80 - b'A' as u64) * EACH;
    let is_upper = (from_a ^ above_z) & !word & (0x80 * EACH);
    word | is_upper >> 2
}

/// Where the search for `key` begins.
#[inline]
const fn first_entry(key: &Key) -> usize {
    // Fibonacci hashing: the product's high bits depend on all bits of the mix.
    let mix = key[0] ^ key[1].rotate_left(29) ^ key[2].rotate_left(47);
    (mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENTRIES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{error_of, with_request};

    #[test]
    fn every_name_is_found_in_any_case_and_leads_to_its_own_line() {
        for command in all() {
            for name in [command.name.to_string(), command.name.to_ascii_uppercase()] {
                let found = find(name.as_bytes()).expect("in the table");
                assert!(std::ptr::eq(found, command), "{name}");
            }
        }
        assert_eq!(find_full(b"Object|ENCODING").map(|command| &*command.name), Some("object|encoding"));
        assert_eq!(find_full(b"get|x"), None);
        assert_eq!(find(b"object|encoding"), None);
    }

    #[test]
    fn similar_names_are_not_found() {
        let near: [&[u8]; 9] = [
            b"",
            b"\0",
            b"get\0",
            b"ge",
            b"gett",
            b"\xc7et",
            b"g%t",
            b"georadiusbymember_ro\0\0\0\0\0",
            &[b'a'; 1000],
        ];
        for name in near {
            assert_eq!(find(name), None, "{name:?}");
        }
        // One bit away from a letter, as `@` is from a grave accent and `[` from `{`.
        for command in all() {
            for (at, bit) in (0..command.name.len()).flat_map(|at| (0..8).map(move |bit| (at, bit))) {
                let mut name = command.name.to_ascii_uppercase().into_bytes();
                name[at] ^= 1 << bit;
                let is_other = |found: &Command| !found.name.as_bytes().eq_ignore_ascii_case(&name);
                assert!(!find(&name).is_some_and(is_other), "{name:?}");
            }
        }
    }

    #[test]
    fn no_look_up_is_long() {
        let runs = INDEX.entries.split(|entry| entry.command.is_none()).map(<[Entry]>::len);
        // A new command may raise it; at ten or so, another mix or a larger table is due.
        assert!(runs.max() <= Some(8), "the longest run of entries");
    }

    #[test]
    fn containers_lead_to_their_subcommands() {
        with_request("object EnCoding key", |request| {
            let Resolved::Command(command) = resolve(request) else { panic!("a command") };
            assert_eq!(command.name, "object|encoding");
        });
        with_request("COMMAND", |request| {
            let Resolved::Command(command) = resolve(request) else { panic!("a command") };
            assert_eq!(command.name, "command");
        });
        assert_eq!(error_of("OBJECT"), "-ERR wrong number of arguments for 'object' command\r\n");
        assert_eq!(error_of("OBJECT foo"), "-ERR unknown subcommand 'foo'. Try OBJECT HELP.\r\n");
        assert_eq!(
            error_of("CLIENT SETNAME"),
            "-ERR wrong number of arguments for 'client|setname' command\r\n"
        );
        assert_eq!(error_of("foo a b"), "-ERR unknown command 'foo', with args beginning with: 'a' 'b' \r\n");
    }

    #[test]
    fn every_line_has_a_number_of_its_own() {
        let names: Vec<_> = Number::named().map(|(_, name)| name).collect();
        assert_eq!(names.len() + 1, Number::COUNT);
        for (number, name) in Number::named() {
            assert_eq!(number.name(), Some(name));
        }
        let number_of = |text: &str| {
            let mut number = Number::NONE;
            with_request(text, |request| number = resolve_numbered(request).1);
            number.name()
        };
        let expected = [
            ("get k", "get"),
            ("client list", "client|list"),
            ("OBJECT", "object"),
            ("CLIENT KILL", "client|kill"),
        ];
        for (text, name) in expected {
            assert_eq!(number_of(text), Some(name));
        }
        assert_eq!((number_of("foo"), number_of("client foo")), (None, None));
    }

    #[test]
    fn http_is_recognised() {
        assert!(is_cross_protocol(b"POST") && is_cross_protocol(b"host:") && is_cross_protocol(b"post\0x"));
        assert!(!is_cross_protocol(b"GET") && !is_cross_protocol(b"host") && !is_cross_protocol(b"posts"));
    }
}
