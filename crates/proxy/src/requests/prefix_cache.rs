//! A cache of request prefixes: a client that sends `GET` once sends it again, with the same bytes in front of the
//! key.
//!
//! ```text
//!   *2\r\n$3\r\nGET\r\n │ $6\r\nuser:1\r\n
//!   ── the prefix ────────┴─ an argument like any other
//! ```
//!
//! A prefix gives the number of arguments and the command. So the worker need not parse the same bytes and look up
//! the same name again. That is an eighth of a request's cost under load.

use command::{Carry, Command, Number};
use resp::Request;
use resp::request::{RequestLimits, Span, plain_arg, plain_args};

/// The prefixes of recent requests.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    prefixes: [Prefix; PREFIXES],
}

/// The size of the cache, enough for the commands that one worker's clients mix. Two commands that share an entry
/// replace each other, and cost as much as without the cache.
const PREFIXES: usize = 32;
/// The longest prefix. Names of up to six letters fit with nine arguments, and names of five letters with 99.
const BYTES: usize = 16;

/// The prefix of a plain request of a command in the table.
#[derive(Clone, Copy, Debug)]
struct Prefix {
    /// The first eight bytes.
    first: u64,
    /// The next eight bytes, as far as `mask` keeps them.
    second: u64,
    mask: u64,
    known: Option<Known>,
}

/// Facts about a request that follow from its prefix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub command: &'static Command,
    pub number: Number,
    /// The number of arguments.
    args: u32,
    /// The place of the command's name.
    name: Span,
    /// The index of the only key, if the route depends on that key alone; else 0.
    key: u32,
}

impl Known {
    /// Finds the key and the length of the request at the start of `bytes`, if the request is plain and its key gives
    /// the route.
    #[inline(always)]
    pub(crate) fn scan_key<'b>(&self, bytes: &'b [u8], limits: &RequestLimits) -> Option<(&'b [u8], usize)> {
        if self.key == 0 {
            return None;
        }
        let (mut at, mut key) = (self.name.start + self.name.len + 2, self.name);
        for number in 1..self.args {
            let (arg, next) = plain_arg(bytes, at, limits)?;
            if number == self.key {
                key = arg;
            }
            at = next;
        }
        Some((&bytes[key.start..key.start + key.len], at))
    }

    /// Finds the arguments and the length of the request at the start of `bytes`, if the request is plain.
    #[inline(always)]
    pub(crate) fn scan(&self, bytes: &[u8], limits: &RequestLimits, args: &mut Vec<Span>) -> Option<usize> {
        args.clear();
        args.push(self.name);
        plain_args(bytes, self.name.start + self.name.len + 2, self.args as usize - 1, limits, args)
    }
}

impl Default for PrefixCache {
    fn default() -> PrefixCache {
        // This entry matches nothing: its mask keeps no byte of the second half, and `second` is 1.
        PrefixCache { prefixes: [Prefix { first: 0, second: 1, mask: 0, known: None }; PREFIXES] }
    }
}

impl PrefixCache {
    /// The facts known about the request at the start of `bytes`.
    #[inline(always)]
    pub(crate) fn find(&self, bytes: &[u8]) -> Option<Known> {
        let (first, second) = halves(bytes)?;
        let prefix = &self.prefixes[place(first, second)];
        // One comparison, since nearly always both halves match.
        if (prefix.first ^ first) | (prefix.second ^ second & prefix.mask) != 0 {
            return None;
        }
        prefix.known
    }

    /// Remembers the prefix of `request`, a plain one, whose command is `command`.
    #[cold]
    pub(crate) fn note(&mut self, request: &Request<'_>, command: &'static Command, number: Number) {
        let Some((first, second)) = halves(request.bytes) else { return };
        let (name, args) = (request.span(0), request.len() as u32);
        let end = name.start + name.len + 2;
        // A command that needs its second word cannot be known by its prefix.
        if end > BYTES || name.len != command.name.len() || !command.subcommands.is_empty() {
            return;
        }
        let mask = u64::MAX >> (8 * (BYTES - end));
        let key = command.single_key().filter(|_| matches!(command.carry, Carry::Shard));
        let key = key.map_or(0, |position| position as u32);
        let known = Some(Known { command, number, args, name, key: if key < args { key } else { 0 } });
        self.prefixes[place(first, second)] = Prefix { first, second: second & mask, mask, known };
    }
}

/// The first bytes of a request as two numbers.
#[inline(always)]
fn halves(bytes: &[u8]) -> Option<(u64, u64)> {
    let start: &[u8; BYTES] = bytes.first_chunk()?;
    let start = u128::from_le_bytes(*start);
    Some((start as u64, (start >> 64) as u64))
}

/// The place of a prefix, computed only from bytes that belong even to the shortest prefix.
#[inline(always)]
fn place(first: u64, second: u64) -> usize {
    // The product's high bits depend on all bits of the mix (Fibonacci hashing).
    let mix = first ^ second << 40;
    (mix.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - PREFIXES.trailing_zeros())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::Resolved;
    use resp::encode;
    use resp::request::{Scanned, Scanner};
    use stdx::Prng;

    /// Parses the request at the start of `bytes` without the cache: its length, its arguments, its command.
    fn read(bytes: &[u8]) -> (usize, Vec<Span>, Resolved<'static>, Number) {
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let scanned = Scanner::default().scan(bytes, &RequestLimits::default(), &mut args, &mut inline);
        let Ok(Scanned::Request { len }) = scanned else { panic!("{scanned:?}: {bytes:?}") };
        let (resolved, number) = command::resolve_numbered(&Request::new(&bytes[..len], &args));
        (len, args, resolved, number)
    }

    /// Reads a request through the cache, or parses and caches it. Returns whether the cache had it.
    fn check(cache: &mut PrefixCache, bytes: &[u8]) -> bool {
        let (len, args, resolved, number) = read(bytes);
        let Some(known) = cache.find(bytes) else {
            if let Resolved::Command(command) = resolved {
                cache.note(&Request::new(&bytes[..len], &args), command, number);
            }
            return false;
        };
        assert_eq!((Resolved::Command(known.command), known.number), (resolved, number), "{bytes:?}");
        let mut found = Vec::new();
        if let Some(found_len) = known.scan(bytes, &RequestLimits::default(), &mut found) {
            assert_eq!((found_len, &found), (len, &args), "{bytes:?}");
        }
        if let Some((key, found_len)) = known.scan_key(bytes, &RequestLimits::default()) {
            let request = Request::new(&bytes[..len], &args);
            let expected = known.command.single_key().and_then(|position| request.get(position));
            assert_eq!((Some(key), found_len), (expected, len), "{bytes:?}");
        }
        true
    }

    fn request(words: &str) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode::request(&mut bytes, &words.split(' ').map(str::as_bytes).collect::<Vec<_>>());
        bytes
    }

    #[test]
    fn the_second_request_of_a_command_is_known_by_its_prefix() {
        let mut cache = PrefixCache::default();
        for (words, is_known) in [
            ("GET some-key", false),
            ("GET another", true),
            ("get some-key", false),
            ("GEX some-key", false),
            ("EXPIRE key 100", false),
            ("EXPIRE k 1", true),
            // Another number of arguments makes another prefix. One that does not fit is never cached.
            ("EXPIRE key 100 NX", false),
            ("GET some-key more", false),
            ("GET some-key more", false),
            // The prefix is too long: the name ends behind the sixteenth byte.
            ("HGETALL key", false),
            ("HGETALL key", false),
            // The second word decides.
            ("CONFIG GET maxmemory", false),
            ("CONFIG SET maxmemory", false),
            ("CONFIG GET maxmemory", false),
            ("MGET a b c d e f g h i j", false),
            ("MGET a b c d e f g h i k", true),
            ("GET this", true),
        ] {
            assert_eq!(check(&mut cache, &request(words)), is_known, "{words}");
        }
    }

    #[test]
    fn only_requests_routed_by_one_key_are_scanned_for_it() {
        let mut cache = PrefixCache::default();
        for (words, key) in [
            ("GET some-key", Some("some-key")),
            ("SET some-key value", Some("some-key")),
            // Two keys, keys behind their number, no key, and a missing key.
            ("MGET a b", None),
            ("LMPOP 1 a LEFT", None),
            ("PING", None),
            ("GET", None),
        ] {
            let bytes = request(words);
            check(&mut cache, &bytes);
            let found =
                cache.find(&bytes).and_then(|known| known.scan_key(&bytes, &RequestLimits::default()));
            assert_eq!(found.map(|(key, _)| key), key.map(str::as_bytes), "{words}");
        }
    }

    #[test]
    fn incomplete_requests_are_not_scanned() {
        let mut cache = PrefixCache::default();
        let bytes = request("GET some-key");
        assert!(!check(&mut cache, &bytes));
        for len in 0..bytes.len() {
            let scanned = cache
                .find(&bytes[..len])
                .map(|known| {
                    let limits = RequestLimits::default();
                    let all = known.scan(&bytes[..len], &limits, &mut Vec::new());
                    (all, known.scan_key(&bytes[..len], &limits))
                })
                .unwrap_or_default();
            assert_eq!(scanned, (None, None), "{len} bytes");
        }
        assert!(cache.find(&[0; 64]).is_none() && cache.find(&[0xff; 64]).is_none());
    }

    #[test]
    fn prefixes_do_not_change_the_meaning_of_requests() {
        let names: Vec<&str> = command::all().map(|command| &*command.name).collect();
        let (seed, mut known) = (0x4ead5, 0);
        let (mut prng, mut cache) = (Prng::new(seed), PrefixCache::default());
        // Few names at a time, so that some repeat.
        for round in 0..20_000 {
            let name = names[(prng.below(12) as usize + round / 100) % names.len()];
            let name = if prng.below(4) == 0 { name.to_owned() } else { name.to_ascii_uppercase() };
            let args = (0..prng.below(12)).map(|_| "x".repeat(prng.below(20) as usize + 1));
            let words: Vec<String> = std::iter::once(name).chain(args).collect();
            known += u32::from(check(&mut cache, &request(&words.join(" "))));
        }
        assert!(known > 1000, "seed {seed}: only {known} were known");
    }
}
