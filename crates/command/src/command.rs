//! The facts about one command.

use std::borrow::Cow;

use resp::Request;

use crate::carry::{Across, Carry, Refusal};
use crate::keys::{Args, ByHand, Find, KeySpec, Keys, KeysError};
use crate::lookup::{self, Resolved};
use crate::sets::{Acl, Flags, KeyFlags, Tips};
use crate::since::Since;

/// A command or a subcommand: a line of the table, or learnt from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Redis's full name, lower case: `get`, `object|encoding`.
    pub name: Cow<'static, str>,
    /// Number of arguments of a request, the name counted, and for a subcommand its container's too. Negative: the least
    /// number.
    pub arity: i32,
    /// Redis's flags.
    pub flags: Flags,
    /// ACL categories.
    pub acl: Acl,
    /// Redis's hints to clients and proxies.
    pub tips: Tips,
    /// Where the keys are.
    pub keys: Keys,
    /// Its way to the nodes.
    pub carry: Carry,
    /// Its emulation if its keys live on several shards and it is not split.
    pub across: Across,
    /// Which servers have it.
    pub since: Since,
    /// The subcommands of a container.
    pub subcommands: Cow<'static, [Command]>,
}

impl Command {
    /// Whether a request of `len` arguments, the name counted, fits.
    #[inline]
    pub fn arity_fits(&self, len: usize) -> bool {
        let bound = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { len >= bound } else { len == bound }
    }

    /// The place of the only key, if it is the same in all requests whose number of arguments fits: so in most commands.
    #[inline]
    pub fn single_key(&self) -> Option<usize> {
        self.keys.single()
    }

    /// Puts the positions of all keys of `request` into `positions`, in Redis's order. That is the order of the key specs,
    /// which in most commands is that of the arguments. A request without keys leaves the list empty and is no error.
    ///
    /// An error means that the request is invalid and Redis itself would refuse it: forward it to any shard. The number of
    /// arguments must fit.
    pub fn keys(&self, request: &Request<'_>, positions: &mut Vec<usize>) -> Result<(), KeysError> {
        positions.clear();
        let found = self.visit_keys(&Args::from(request), &mut |at, _| positions.push(at));
        if found.is_err() {
            positions.clear();
        }
        found
    }

    /// Calls `found` with the place and the use of each key of `request`. Before an error it may have been called: Redis treats
    /// such a request as one without keys.
    pub fn each_key(
        &self,
        request: &Request<'_>,
        found: &mut impl FnMut(usize, KeyFlags),
    ) -> Result<(), KeysError> {
        self.visit_keys(&Args::from(request), found)
    }

    /// As [`Keys::visit`], but commands that may come without keys never err: as in Redis they have none then.
    pub(crate) fn visit_keys(
        &self,
        args: &Args<'_>,
        found: &mut impl FnMut(usize, KeyFlags),
    ) -> Result<(), KeysError> {
        let visited = self.keys.visit(args, found);
        if self.flags.contains(Flags::NO_MANDATORY_KEYS) { Ok(()) } else { visited }
    }

    /// For commands that are split: how many arguments belong to each key, the key counted. 2 for MSET, 1 for others.
    pub fn split_step(&self) -> usize {
        match self.keys.specs.first().map(|spec| spec.find) {
            Some(Find::Range { step, .. }) => step,
            _ => 1,
        }
    }

    /// For commands that are split: whether each key of a request of `len` arguments has all of its arguments. If not (`MSET a
    /// 1 b`), Redis refuses it: forward it whole to any shard.
    pub fn splits_evenly(&self, len: usize) -> bool {
        len.saturating_sub(1).is_multiple_of(self.split_step())
    }

    /// Finds the subcommand and checks the number of arguments.
    pub fn resolve(&self, request: &Request<'_>) -> Resolved<'_> {
        lookup::resolve_args(self, &Args::from(request))
    }

    /// Whether Redis delays it while writes are paused: commands that write, may write, or are replicated.
    pub fn may_write(&self) -> bool {
        let is_told = matches!(&*self.name, "pfcount" | "publish" | "spublish");
        self.flags.contains(Flags::WRITE) || self.runs_code() || is_told
    }

    /// Whether other clients may wait for its effect: a message, an element of a list, sorted set or stream, or the writes of a
    /// script.
    pub fn may_end_a_wait(&self) -> bool {
        const WAITED_FOR: Acl = Acl::of("list sortedset stream");
        const ADDS: Flags = Flags::of("write denyoom");
        let adds = self.acl.intersects(WAITED_FOR) && self.flags.contains(ADDS);
        adds || self.runs_code() || matches!(self.carry, Carry::Publish(_))
    }

    /// Whether it is a script or function that may write.
    fn runs_code(&self) -> bool {
        matches!(self.carry, Carry::Script(_)) && !self.flags.contains(Flags::READONLY)
    }

    /// The subcommand `name`, its own name without the container's; case is ignored.
    pub fn subcommand(&self, name: &[u8]) -> Option<&Command> {
        self.subcommands.iter().find(|command| command.own_name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The name without that of the container: `encoding` of `object|encoding`.
    pub fn own_name(&self) -> &str {
        self.name.split_once('|').map_or(&*self.name, |(_, own)| own)
    }

    /// Whether the command is unknown to clients.
    pub fn is_hidden(&self) -> bool {
        matches!(self.carry, Carry::Refused(Refusal::Unknown(_)))
    }
}

/// A line of the table. The ACL categories are those that do not follow from the flags.
pub(crate) const fn row(
    name: &'static str,
    arity: i32,
    flags: &str,
    acl: &str,
    keys: &'static [KeySpec],
    carry: Carry,
) -> Command {
    let flags = Flags::of(flags);
    Command {
        name: Cow::Borrowed(name),
        arity,
        flags,
        acl: Acl::of(acl).implied_by(flags),
        tips: Tips::of(""),
        keys: Keys::new(Cow::Borrowed(keys), arity),
        carry,
        across: Across::Refused,
        since: Since::ALWAYS,
        subcommands: Cow::Borrowed(&[]),
    }
}

/// A line for a command with subcommands.
pub(crate) const fn container(
    name: &'static str,
    arity: i32,
    flags: &str,
    acl: &str,
    carry: Carry,
    subcommands: &'static [Command],
) -> Command {
    let flags = Flags::of(flags);
    Command {
        name: Cow::Borrowed(name),
        arity,
        flags,
        acl: Acl::of(acl).implied_by(flags),
        tips: Tips::of(""),
        keys: Keys::new(Cow::Borrowed(&[]), arity),
        carry,
        across: Across::Refused,
        since: Since::ALWAYS,
        subcommands: Cow::Borrowed(subcommands),
    }
}

impl Command {
    /// This line, with Redis's tips.
    pub(crate) const fn tips(mut self, words: &str) -> Command {
        self.tips = Tips::of(words);
        self
    }

    /// This line, with its emulation across shards.
    pub(crate) const fn across(mut self, across: Across) -> Command {
        self.across = across;
        self
    }

    /// This line, of a command that Redis 7.0 does not have.
    pub(crate) const fn since(mut self, since: Since) -> Command {
        self.since = since;
        self
    }

    /// This line, with keys that the specs do not tell.
    pub(crate) const fn by_hand(mut self, by_hand: ByHand) -> Command {
        self.keys.by_hand = Some(by_hand);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carry::{Local, Wait};
    use crate::lookup::{all, find};

    fn every_line() -> impl Iterator<Item = &'static Command> {
        all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()))
    }

    #[test]
    fn a_single_key_is_there_in_every_request_that_fits() {
        for command in every_line() {
            if let Some(at) = command.single_key() {
                assert!(at > 0 && command.arity.unsigned_abs() as usize > at, "{}", command.name);
            }
        }
        assert_eq!(find(b"set").and_then(Command::single_key), Some(1));
        assert_eq!(find(b"mget").and_then(Command::single_key), None);
        assert_eq!(find(b"sort").and_then(Command::single_key), None);
    }

    #[test]
    fn lines_are_carried_as_their_facts_allow() {
        for command in every_line() {
            let (keys, name) = (command.keys.has_any(), &command.name);
            match command.carry {
                Carry::Blocking(Wait::Replicas) => assert!(!keys, "{name} has keys"),
                Carry::Shard
                | Carry::ShardIf(_)
                | Carry::Script(_)
                | Carry::Split(_)
                | Carry::Blocking(_) => {
                    assert!(keys, "{name} has no keys")
                }
                // A channel is found as a key and is none.
                Carry::Publish(_) | Carry::Here(Local::Subscribe(_) | Local::Unsubscribe(_)) => {}
                Carry::Refused(_) | Carry::Transaction(_) => {}
                _ => assert!(!keys, "{name} has keys"),
            }
            if !matches!(command.carry, Carry::Blocking(_) | Carry::Refused(_)) {
                assert!(!command.flags.contains(Flags::BLOCKING), "{name} blocks");
            }
            if command.across != Across::Refused {
                let shards = matches!(command.carry, Carry::Shard | Carry::ShardIf(_) | Carry::Blocking(_));
                assert!(shards && command.single_key().is_none(), "{name} is never on several shards");
            }
            if matches!(command.carry, Carry::Split(_)) {
                assert_eq!(command.keys.specs.len(), 1, "{name} is split by one rule");
            }
            assert_eq!(
                command.carry == Carry::Container,
                !command.subcommands.is_empty() && name != "command"
            );
            let is_own =
                |own: &Command| own.name.starts_with(&format!("{name}|")) && own.subcommands.is_empty();
            assert!(command.subcommands.iter().all(is_own), "{name}");
        }
    }

    #[test]
    fn a_split_needs_all_that_belongs_to_each_key() {
        let [mset, del] = [&b"mset"[..], b"del"].map(|name| find(name).expect("in the table"));
        assert_eq!((mset.split_step(), del.split_step()), (2, 1));
        assert!(mset.splits_evenly(5) && !mset.splits_evenly(4) && del.splits_evenly(4));
    }

    #[test]
    fn arities_are_exact_or_lower_bounds() {
        let [get, set] = [b"get", b"set"].map(|name| find(name).expect("in the table"));
        assert_eq!([1, 2, 3].map(|len| get.arity_fits(len)), [false, true, false]);
        assert_eq!([2, 3, 9].map(|len| set.arity_fits(len)), [false, true, true]);
    }
}
