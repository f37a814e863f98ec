//! Draws requests from templates: values for each word in small letters, and mutations of a request.

use super::table::{ACROSS, Compare, KEYLESS, LARGE, Line, SAME_TAG, SINGLE_KEY, SPLIT};
use super::template::{Part, Template};
use crate::harness::server::server;
use command::Server;
use stdx::Prng;

/// Whether `server` has the command; true for a name that is no command.
fn is_in(server: Server, name: &str) -> bool {
    command::find(name.as_bytes()).is_none_or(|command| command.since.is_in(server))
}

/// One request, drawn.
pub(crate) struct Drawn {
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) compare: Compare,
}

/// Where keys of a request may live.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// One key, of any form.
    Any,
    /// All with the tag of the request.
    SameTag,
    /// Each with a tag of its own.
    Scattered,
}

/// The drawer of requests; a seed determines all that it draws.
pub(crate) struct Draw {
    pub(crate) prng: Prng,
    lines: Vec<(&'static Line, Template, Spread)>,
    weights_total: u64,
    /// DUMP payloads for RESTORE, and the SHA-1 of each script by its index in [`SCRIPTS`].
    payloads: Vec<Vec<u8>>,
    shas: Vec<Vec<u8>>,
    spread: Spread,
    tag: &'static str,
    last_key: Vec<u8>,
    last_script: usize,
    stream_clock: u64,
}

/// An argument on its way into a request.
struct Arg {
    bytes: Vec<u8>,
    /// Keys are never mutated: a key of another shard would make another request.
    is_key: bool,
    is_literal: bool,
}

/// Scripts, short enough to read; the second column has their places.
pub(crate) const SCRIPTS: &[(&str, &str)] = &[
    ("return redis.call('get', KEYS[1])", "read"),
    ("return redis.call('type', KEYS[1])", "read"),
    ("return {redis.call('exists', KEYS[1]), 'x', {1, 2, {3.7, false}}, nil, 5}", "read"),
    ("return redis.pcall('hlen', KEYS[1])", "read"),
    ("return redis.call('incr', KEYS[1])", "write"),
    ("redis.call('set', KEYS[1], ARGV[1]); return redis.call('strlen', KEYS[1])", "write"),
    ("return redis.call('append', KEYS[1], ARGV[1])", "write"),
    ("return redis.error_reply('MINE ' .. KEYS[1])", "write"),
    ("return redis.call('nosuch', KEYS[1])", "write"),
    ("error('thrown')", "write"),
    ("return {KEYS[1], KEYS[2], redis.call('get', KEYS[1]), redis.call('get', KEYS[2])}", "pair"),
    ("redis.call('set', KEYS[1], 'a'); redis.call('set', KEYS[2], 'b'); return 2", "pair"),
    ("return ARGV[1]", "keyless"),
    ("return {1, 'two', {3, {4}}, ARGV[1]}", "keyless"),
    ("return redis.status_reply('FINE')", "keyless"),
    ("return nil", "keyless"),
    ("return string.rep(ARGV[1], 1000)", "keyless"),
    ("syntax error(", "keyless"),
];

/// Tags at the key's end, where both Redis's rule and ours see them.
const TAGS: &[&str] = &["{a}", "{b}", "{c}", "{user:1000}", "{5}"];
/// Ends of keys that are no tag by one rule or the other; each is a key of its own for single-key commands.
const ODD_ENDS: &[&str] = &["", "", "", "{}", "}", "{", "{a}b", "{{a}}", "a}{b}", " \r\n", "\0", "é{x}"];
/// Types of keys: a command mostly gets a key of its own type.
const KINDS: &[&str] = &["str", "num", "bits", "hash", "list", "set", "zset", "stream", "hll", "geo"];
/// Numbers and near-numbers at limits. There is no small positive number: as an expiry it would depend on time. There is no
/// large one that a node would fill with zeros. There is no STORE, which would make a key of the next argument.
const SPOILT: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"-0",
    b"+5",
    b" 1",
    b"1.5",
    b"abc",
    b"9223372036854775807",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"99999999999999999999999999",
    b"nan",
    b"\0\r\n\xff",
    b"[",
    b"(",
    b"LIMIT",
    b"WITHSCORES",
];

impl Draw {
    /// A drawer for `seed`. `payloads` and `shas` come from a node, see [`Draw::payloads`].
    pub(crate) fn new(seed: u64, payloads: Vec<Vec<u8>>, shas: Vec<Vec<u8>>) -> Draw {
        let tables = [
            (SINGLE_KEY, Spread::Any),
            (ACROSS, Spread::SameTag),
            (SAME_TAG, Spread::SameTag),
            (SPLIT, Spread::Scattered),
            (KEYLESS, Spread::Any),
        ];
        Draw::over(&tables, seed, payloads, shas)
    }

    /// The same for a proxy that emulates commands that it cannot split. Keys of such commands live anywhere, values may be
    /// large, and about every third request is such a command.
    pub(crate) fn across(seed: u64, payloads: Vec<Vec<u8>>, shas: Vec<Vec<u8>>) -> Draw {
        let scattered = (ACROSS, Spread::Scattered);
        let mut tables = vec![
            (SINGLE_KEY, Spread::Any),
            (SAME_TAG, Spread::SameTag),
            (SPLIT, Spread::Scattered),
            (LARGE, Spread::Any),
            (KEYLESS, Spread::Any),
        ];
        tables.extend([scattered; 4]);
        let mut draw = Draw::over(&tables, seed, payloads, shas);
        // A value that was carried to another node may be kept more compactly there.
        draw.forget("OBJECT ENCODING any");
        draw.forget("OBJECT REFCOUNT num");
        // A hash with fields that expire is dumped in a form that no emulated command knows.
        draw.retain(|_, template| template.commands().all(|name| is_in(Server::Redis(7, 0), &name)));
        draw
    }

    fn forget(&mut self, words: &str) {
        self.retain(|line, _| line.words != words);
    }

    fn retain(&mut self, stays: impl Fn(&Line, &Template) -> bool) {
        self.lines.retain(|(line, template, _)| stays(line, template));
        self.weights_total = self.lines.iter().map(|(line, ..)| line.weight).sum();
    }

    fn over(
        tables: &[(&'static [Line], Spread)],
        seed: u64,
        payloads: Vec<Vec<u8>>,
        shas: Vec<Vec<u8>>,
    ) -> Draw {
        let lines: Vec<_> = tables
            .iter()
            .flat_map(|&(table, spread)| table.iter().map(move |line| (line, spread)))
            .map(|(line, spread)| (line, Template::parse(line.words), spread))
            .filter(|(_, template, _)| template.commands().all(|name| is_in(server(), &name)))
            .collect();
        let weights_total = lines.iter().map(|(line, ..)| line.weight).sum();
        Draw {
            prng: Prng::new(seed),
            lines,
            weights_total,
            payloads,
            shas,
            spread: Spread::Any,
            tag: TAGS[0],
            last_key: Vec::new(),
            last_script: 0,
            stream_clock: 1,
        }
    }

    /// The next request, or the next few that belong together.
    pub(crate) fn next_requests(&mut self) -> Vec<Drawn> {
        let mut ticket = self.prng.below(self.weights_total);
        // The field is taken out and put back, so that drawing can borrow all of `self`.
        let lines = std::mem::take(&mut self.lines);
        let chosen = lines.iter().find(|(line, ..)| {
            let hit = ticket < line.weight;
            ticket = ticket.saturating_sub(line.weight);
            hit
        });
        let (line, template, spread) = chosen.expect("a ticket is below the sum of the weights");
        self.spread = *spread;
        self.tag = *self.prng.pick::<&str>(TAGS);
        let drawn = template.requests.iter().map(|parts| self.request(parts, line)).collect();
        self.lines = lines;
        drawn
    }

    fn request(&mut self, parts: &[Part], line: &Line) -> Drawn {
        let mut args = Vec::new();
        self.parts(parts, &mut args);
        if self.prng.one_in(4) {
            self.change_case(&mut args);
        }
        if line.spoilable && self.prng.one_in(12) {
            self.spoil(&mut args);
        }
        Drawn { args: args.into_iter().map(|arg| arg.bytes).collect(), compare: line.compare }
    }

    fn parts(&mut self, parts: &[Part], args: &mut Vec<Arg>) {
        for part in parts {
            match part {
                Part::Literal(word) => {
                    args.push(Arg { bytes: word.as_bytes().to_vec(), is_key: false, is_literal: true });
                }
                Part::Drawn(word) => self.word(word, args),
                Part::Choice { alternatives, optional, repeated } => {
                    let rounds = if *repeated { 1 + self.prng.below(4) } else { 1 };
                    for _ in 0..rounds {
                        if !*optional || self.prng.one_in(2) {
                            let chosen: &Vec<Part> = self.prng.pick(alternatives);
                            self.parts(chosen, args);
                        }
                    }
                }
            }
        }
    }

    /// Appends what `word` is drawn to be.
    fn word(&mut self, word: &'static str, args: &mut Vec<Arg>) {
        match word {
            "any" => {
                let kind = self.prng.pick(KINDS);
                self.key(kind, args);
            }
            // Types of keys that no other line writes. Long values would take LCS minutes, RESTORE would mix the others up, and
            // by-lex ranges need equal scores.
            "short" | "restored" | "lexset" => self.key(word, args),
            "twins" => {
                let kind = self.prng.pick(KINDS);
                self.key(kind, args);
                self.key(kind, args);
            }
            "same" => args.push(Arg { bytes: self.last_key.clone(), is_key: true, is_literal: false }),
            "members" | "numbers" | "pairs" | "scored" => self.many(word, args),
            "nlists" => self.counted_keys("list", args),
            "nsets" => self.counted_keys("set", args),
            "nzsets" => self.counted_keys("zset", args),
            kind if KINDS.contains(&kind) => {
                // Now and then a key of another kind, for WRONGTYPE.
                let kind = if self.prng.one_in(25) { self.prng.pick(KINDS) } else { kind };
                self.key(kind, args);
            }
            word => {
                let bytes = self.value(word);
                args.push(Arg { bytes, is_key: false, is_literal: false });
            }
        }
    }

    /// Appends a key of `kind`: there are few names, so that requests meet each other's values.
    fn key(&mut self, kind: &str, args: &mut Vec<Arg>) {
        let end = match self.spread {
            Spread::SameTag => self.tag,
            Spread::Scattered => self.prng.pick(TAGS),
            Spread::Any if self.prng.one_in(5) => self.prng.pick(ODD_ENDS),
            Spread::Any => self.tag,
        };
        let mut key = format!("{kind}:{}{end}", self.prng.below(3)).into_bytes();
        if self.spread != Spread::SameTag && self.prng.one_in(150) {
            key = self.prng.pick(&[&b""[..], b"\xff\xfe\0", b"\r\n$1\r\n", b"{}"]).to_vec();
        }
        self.last_key.clone_from(&key);
        args.push(Arg { bytes: key, is_key: true, is_literal: false });
    }

    /// Appends some hundred elements.
    fn many(&mut self, word: &str, args: &mut Vec<Arg>) {
        for _ in 0..100 + self.prng.below(700) {
            let words: &[&str] = match word {
                "members" => &["farfield"],
                "numbers" => &["far"],
                "pairs" => &["farfield", "small"],
                _ => &["score", "farfield"],
            };
            for word in words {
                let bytes = self.value(word);
                args.push(Arg { bytes, is_key: false, is_literal: false });
            }
        }
    }

    fn counted_keys(&mut self, kind: &str, args: &mut Vec<Arg>) {
        let count = 1 + self.prng.below(3);
        args.push(Arg { bytes: count.to_string().into_bytes(), is_key: false, is_literal: false });
        for _ in 0..count {
            self.key(kind, args);
        }
    }

    fn value(&mut self, word: &str) -> Vec<u8> {
        match word {
            "value" => self.any_value(),
            "element" if self.prng.one_in(4) => self.any_value(),
            "script" => self.script("write"),
            "readscript" => self.script("read"),
            "pairscript" => self.script("pair"),
            "keyless" => self.script("keyless"),
            "sha" => self.shas[self.last_script].clone(),
            "payload" => self.prng.pick(&self.payloads).clone(),
            "unknown" => self.unknown_name(),
            _ => self.text(word).into_bytes(),
        }
    }

    /// The words that become text; one line each.
    fn text(&mut self, word: &str) -> String {
        let prng = &mut self.prng;
        let int = |prng: &mut Prng, low: i64, high: i64| {
            (low + prng.below((high - low + 1) as u64) as i64).to_string()
        };
        match word {
            "small" => format!("small{}", prng.below(20)),
            "int" => match prng.below(12) {
                0 => prng
                    .pick(&["9223372036854775807", "-9223372036854775808", "9223372036854775800"])
                    .to_string(),
                _ => int(prng, -100, 1000),
            },
            "uint" => int(prng, 1, 12),
            "count" => int(prng, -3, 9),
            "index" => int(prng, -12, 12),
            "offset" => int(prng, 0, 30),
            "float" => {
                prng.pick(&["0", "1.5", "-2.25", "3e2", "0.1", "1e300", "inf", "nan", "x"]).to_string()
            }
            "number" => format!("n{}", prng.below(3)),
            "bit" => int(prng, 0, 1),
            "bitoffset" => int(prng, 0, 2000),
            "bittype" => prng.pick(&["u8", "i5", "u1", "i64", "u63", "u64", "q3", "i16"]).to_string(),
            "bitplace" => prng.pick(&["0", "7", "100", "#0", "#3", "-1", "#x"]).to_string(),
            "field" | "member" | "element" if prng.one_in(3) => int(prng, -20, 200),
            "field" => format!("f{}", prng.below(40)),
            "farfield" => format!("far{:0width$}", prng.below(3_000), width = prng.below(90) as usize),
            "member" | "element" => format!("m{}", prng.below(60)),
            "score" => {
                prng.pick(&["1", "2", "3", "-1.5", "2.5", "inf", "-inf", "1e20", "0.1", "17"]).to_string()
            }
            "bound" => prng.pick(&["-inf", "+inf", "0", "2", "(2", "(1.5", "17", "(x", "3"]).to_string(),
            "lexbound" => prng.pick(&["-", "+", "[m1", "(m3", "[m5", "(1", "[", "x"]).to_string(),
            // A spread so wide that two of them never tie: then a few milliseconds between the two would decide.
            "far" => (100_000 + prng.below(10_000_000)).to_string(),
            "farms" => (100_000_000 + prng.below(10_000_000_000)).to_string(),
            "farat" => (4_000_000_000 + prng.below(10_000_000)).to_string(),
            "farmsat" => (4_000_000_000_000 + prng.below(10_000_000_000)).to_string(),
            "nextid" => {
                self.stream_clock += 1;
                format!("{}-{}", self.stream_clock, self.prng.below(5))
            }
            "id" => format!("{}-{}", prng.below(self.stream_clock + 3), prng.below(3)),
            "idbound" => match prng.below(4) {
                0 => "-".to_owned(),
                1 => "+".to_owned(),
                2 => format!("({}-0", prng.below(self.stream_clock)),
                _ => format!("{}-0", prng.below(self.stream_clock)),
            },
            "group" => format!("g{}", prng.below(2)),
            "consumer" => format!("c{}", prng.below(3)),
            "lon" => prng.pick(&["13.361389", "15.087269", "-0.1278", "0", "179.9", "181"]).to_string(),
            "lat" => prng.pick(&["38.115556", "37.502669", "51.5074", "0", "-85", "86"]).to_string(),
            "place" => format!("p{}", prng.below(8)),
            "dist" => prng.pick(&["1", "200", "5000.5", "20000", "-1"]).to_string(),
            "unit" => prng.pick(&["m", "km", "mi", "ft", "KM", "x"]).to_string(),
            "glob" => prng
                .pick(&["*", "str*", "*{a}", "?et:[01]*", "[^l]*", "h*h:*", "none", "", "f*", "\\*"])
                .to_string(),
            word => panic!("the table has a word that nobody draws: {word:?}"),
        }
    }

    /// A script for `place`; its index is what `sha` means next.
    fn script(&mut self, place: &str) -> Vec<u8> {
        let fitting: Vec<usize> = (0..SCRIPTS.len()).filter(|&index| SCRIPTS[index].1 == place).collect();
        self.last_script = *self.prng.pick(&fitting);
        SCRIPTS[self.last_script].0.as_bytes().to_vec()
    }

    /// An unknown command, at times with a long or odd name.
    fn unknown_name(&mut self) -> Vec<u8> {
        match self.prng.below(6) {
            0 => b"".to_vec(),
            // `get\0` is excluded: by the chance of its hash, one Redis in some hundreds takes that for GET.
            1 => b"nosuch\0name".to_vec(),
            2 => b"a\r\n+OK\r\nb".to_vec(),
            3 => vec![b'n'; 100 + self.prng.below(200) as usize],
            4 => b"\xc3\xa9\xff'\"".to_vec(),
            _ => format!("NOSUCH{}", self.prng.below(10)).into_bytes(),
        }
    }

    /// Text, number, nothing, binary; mostly short, now and then long, rarely huge.
    fn any_value(&mut self) -> Vec<u8> {
        let len = match self.prng.below(2500) {
            0 => (1 << 20) + self.prng.below(4 << 20),
            1..50 => self.prng.below(70 * 1024),
            50..150 => 0,
            _ => self.prng.below(40),
        } as usize;
        if self.prng.one_in(3) {
            return self.text("int").into_bytes();
        }
        if self.prng.one_in(2) {
            let word = b"the quick brown fox ";
            return word.iter().copied().cycle().take(len).collect();
        }
        let mut bytes = Vec::with_capacity(len + 8);
        while bytes.len() < len {
            bytes.extend(self.prng.next_u64().to_le_bytes());
        }
        bytes.truncate(len);
        bytes
    }

    /// Writes the words of the command in small or mixed letters.
    fn change_case(&mut self, args: &mut [Arg]) {
        let mixed = self.prng.one_in(2);
        for arg in args.iter_mut().filter(|arg| arg.is_literal) {
            for (index, byte) in arg.bytes.iter_mut().enumerate() {
                if !mixed || index % 2 == 1 {
                    byte.make_ascii_lowercase();
                }
            }
        }
    }

    /// Makes a request wrong in one place: one argument less, one more, or another.
    fn spoil(&mut self, args: &mut Vec<Arg>) {
        let replaceable: Vec<usize> = (1..args.len()).filter(|&index| !args[index].is_key).collect();
        match self.prng.below(3) {
            0 if args.len() > 1 => {
                args.pop();
            }
            1 if !replaceable.is_empty() => {
                let index = *self.prng.pick(&replaceable);
                args[index].bytes = self.prng.pick(SPOILT).to_vec();
            }
            // The last key once more: the request stays on its shard even if this is taken for a key.
            _ => args.push(Arg { bytes: self.last_key.clone(), is_key: true, is_literal: false }),
        }
    }
}
