//! Requests as templates: fixed bytes with places for keys and values, filled in without allocation. Pure.
//!
//! Named kinds of requests and a user's own command are templates alike. Their words may hold placeholders:
//!
//! - `__rand_int__`: twelve digits, the number of a key by the distribution. redis-benchmark's word.
//! - `__key__`: `key:__rand_int__`. memtier_benchmark's word.
//! - `__again__`: the number of the last placeholder once more.
//! - `__next__`: the number behind the last one.
//! - `__digit__`: one digit, drawn evenly.
//! - `__new__`: the number of a key that was not used before.
//! - `__data__`, as a whole word: a value with a size by the distribution.
//! - `__expire__`, as a whole word: seconds, drawn evenly from a range.
//! - `__time__`: the time of the request, which a subscriber compares with the time of the delivery.
//! - `{tag}`: in a cluster, a hash tag of the node that the connection leads to.

use crate::cluster::TAG_BYTES;
use crate::keys::Sampler;
use crate::random::Random;
use crate::sizes::{Sizes, Values, key_digits, write_digits};
use resp::encode;
use std::collections::VecDeque;
use stdx::Instant;

/// Digits of a key's number, and of a time in nanoseconds.
pub(crate) const KEY_DIGITS: usize = 12;
pub(crate) const TIME_DIGITS: usize = 20;

/// One or more requests that are sent together.
#[derive(Clone, Debug)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// Replies that come to it.
    pub(crate) replies: u16,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<[u8]>),
    Number,
    Again,
    Next,
    Digit,
    New,
    Data,
    Expire,
    Time,
    Tag,
}

/// Placeholders inside of words, each with the bytes that it becomes.
const PLACEHOLDERS: [(&str, Piece, usize); 7] = [
    ("__rand_int__", Piece::Number, KEY_DIGITS),
    ("__again__", Piece::Again, KEY_DIGITS),
    ("__next__", Piece::Next, KEY_DIGITS),
    ("__digit__", Piece::Digit, 1),
    ("__new__", Piece::New, KEY_DIGITS),
    ("__time__", Piece::Time, TIME_DIGITS),
    ("{tag}", Piece::Tag, TAG_BYTES + 2),
];

/// Draws everything that a template leaves open.
#[derive(Clone, Debug)]
pub(crate) struct Filler {
    pub(crate) random: Random,
    pub(crate) sampler: Sampler,
    pub(crate) sizes: Sizes,
    pub(crate) values: Values,
    /// Seconds until a key expires, from the first to the second.
    pub(crate) expire: (u64, u64),
    /// The last number.
    pub(crate) last: u64,
}

/// The moment and the connection for which a template is filled in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Occasion<'a> {
    pub(crate) now: Instant,
    /// The hash tag in a cluster.
    pub(crate) tag: &'a [u8],
}

/// Placeholders that stay as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Literal {
    /// None.
    Nothing,
    /// Placeholders for numbers, as in redis-benchmark without -r. `{tag}` is also text outside of a cluster.
    Numbers,
}

impl Template {
    /// A template of `requests`, each a list of words.
    pub(crate) fn new(requests: &[Vec<String>], literal: Literal, is_cluster: bool) -> Template {
        let mut builder = Builder { pieces: Vec::new(), text: Vec::new(), literal, is_cluster };
        for words in requests {
            encode::array_header(&mut builder.text, words.len());
            words.iter().for_each(|word| builder.word(&word.replace("__key__", "key:__rand_int__")));
        }
        builder.end(requests.len())
    }

    /// A template of fixed bytes, to which `replies` replies come.
    pub(crate) fn fixed(bytes: &[u8], replies: u16) -> Template {
        Template { pieces: vec![Piece::Text(bytes.into())], replies }
    }

    /// Appends the request. Numbers that are drawn for it are appended to `numbers`, if anybody asks.
    pub(crate) fn write(
        &self,
        filler: &mut Filler,
        occasion: Occasion<'_>,
        mut numbers: Option<&mut VecDeque<u64>>,
        out: &mut Vec<u8>,
    ) {
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Number => {
                    filler.last = filler.sampler.draw(&mut filler.random);
                    if let Some(numbers) = &mut numbers {
                        numbers.push_back(filler.last);
                    }
                    out.extend_from_slice(&key_digits(filler.last));
                }
                Piece::Again => out.extend_from_slice(&key_digits(filler.last)),
                Piece::Next => {
                    filler.last += 1;
                    out.extend_from_slice(&key_digits(filler.last));
                }
                Piece::Digit => out.push(b'0' + filler.random.below(10) as u8),
                Piece::New => {
                    filler.last = filler.sampler.insert();
                    out.extend_from_slice(&key_digits(filler.last));
                }
                Piece::Time => {
                    let mut digits = [0; TIME_DIGITS];
                    write_digits(occasion.now.as_nanos(), &mut digits);
                    out.extend_from_slice(&digits);
                }
                Piece::Tag => {
                    out.push(b'{');
                    out.extend_from_slice(occasion.tag);
                    out.push(b'}');
                }
                Piece::Data => filler.write_value(out),
                Piece::Expire => {
                    let (min, max) = filler.expire;
                    let seconds = min + filler.random.below(max - min + 1);
                    encode::bulk(out, itoa::Buffer::new().format(seconds).as_bytes());
                }
            }
        }
    }

    /// The same template with its values filled in, if all are the same. Requests are then written in fewer pieces.
    pub(crate) fn settled(&self, sizes: &Sizes, values: &Values) -> Template {
        let (Sizes::Fixed(len), Values::Random(_)) = (sizes, values) else { return self.clone() };
        let (mut pieces, mut text) = (Vec::new(), Vec::new());
        for piece in &self.pieces {
            match piece {
                Piece::Text(bytes) => text.extend_from_slice(bytes),
                Piece::Data => {
                    let mut value = Vec::new();
                    values.write(0, *len, &mut value);
                    encode::bulk(&mut text, &value);
                }
                place => {
                    pieces.push(Piece::Text(std::mem::take(&mut text).into()));
                    pieces.push(place.clone());
                }
            }
        }
        pieces.push(Piece::Text(text.into()));
        Template { pieces, replies: self.replies }
    }

    /// Keys by number that a request has.
    pub(crate) fn numbers(&self) -> usize {
        self.pieces.iter().filter(|piece| **piece == Piece::Number).count()
    }

    /// Whether requests differ.
    #[cfg(test)]
    pub(crate) fn has_places(&self) -> bool {
        self.pieces.iter().any(|piece| !matches!(piece, Piece::Text(_)))
    }
}

impl Filler {
    fn write_value(&mut self, out: &mut Vec<u8>) {
        let len = self.sizes.draw(&mut self.random);
        out.push(b'$');
        out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
        out.extend_from_slice(b"\r\n");
        self.values.write(self.last, len, out);
        out.extend_from_slice(b"\r\n");
    }
}

struct Builder {
    pieces: Vec<Piece>,
    text: Vec<u8>,
    literal: Literal,
    is_cluster: bool,
}

impl Builder {
    fn word(&mut self, word: &str) {
        match word {
            "__data__" => return self.piece(Piece::Data),
            "__expire__" => return self.piece(Piece::Expire),
            _ => {}
        }
        let parts = self.parts(word);
        let len =
            parts.iter().map(|(text, place)| text.len() + place.as_ref().map_or(0, |(_, len)| *len)).sum();
        self.text.push(b'$');
        self.text.extend_from_slice(itoa::Buffer::new().format::<usize>(len).as_bytes());
        self.text.extend_from_slice(b"\r\n");
        for (text, place) in parts {
            self.text.extend_from_slice(text.as_bytes());
            if let Some((piece, _)) = place {
                self.piece(piece);
            }
        }
        self.text.extend_from_slice(b"\r\n");
    }

    /// Pieces of text, each with the placeholder behind it.
    fn parts<'w>(&self, mut word: &'w str) -> Vec<(&'w str, Option<(Piece, usize)>)> {
        let mut parts = Vec::new();
        loop {
            let here = PLACEHOLDERS.iter().filter(|(_, piece, _)| self.is_filled(piece));
            let found = here.filter_map(|(name, piece, len)| Some((word.find(name)?, name, piece, *len)));
            let Some((at, name, piece, len)) = found.min_by_key(|(at, ..)| *at) else {
                parts.push((word, None));
                return parts;
            };
            parts.push((&word[..at], Some((piece.clone(), len))));
            word = &word[at + name.len()..];
        }
    }

    fn is_filled(&self, piece: &Piece) -> bool {
        match piece {
            Piece::Tag => self.is_cluster,
            _ => self.literal == Literal::Nothing,
        }
    }

    fn piece(&mut self, piece: Piece) {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(std::mem::take(&mut self.text).into()));
        }
        self.pieces.push(piece);
    }

    fn end(mut self, requests: usize) -> Template {
        if !self.text.is_empty() {
            self.pieces.push(Piece::Text(self.text.into()));
        }
        Template { pieces: self.pieces, replies: u16::try_from(requests).unwrap_or(u16::MAX) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::Keys;

    fn written(commands: &[&str], literal: Literal, is_cluster: bool) -> String {
        let words = |command: &&str| command.split(' ').map(str::to_owned).collect();
        let requests: Vec<Vec<String>> = commands.iter().map(words).collect();
        let template = Template::new(&requests, literal, is_cluster);
        assert_eq!(usize::from(template.replies), commands.len());
        let mut filler = Filler {
            random: Random::new(1),
            sampler: Sampler::new(Keys::Sequential, 3, 1, 1),
            sizes: Sizes::Fixed(2),
            values: Values::Random(b"abc".to_vec()),
            expire: (60, 60),
            last: 0,
        };
        let (mut out, occasion) = (Vec::new(), Occasion { now: Instant::from_nanos(5), tag: b"xyz" });
        template.write(&mut filler, occasion, None, &mut out);
        String::from_utf8(out).expect("text").replace("\r\n", " ")
    }

    #[test]
    fn places_are_filled_in_and_lengths_are_right() {
        let all = ["SET __key__ __data__ EX __expire__", "MGET key:__again__ __next__"];
        let expected = "*5 $3 SET $16 key:000000000001 $2 ab $2 EX $2 60 \
                        *3 $4 MGET $16 key:000000000001 $12 000000000002 ";
        assert_eq!(written(&all, Literal::Nothing, false), expected);
        assert_eq!(
            written(&["XADD s{tag}__new__:__time__"], Literal::Nothing, true),
            "*2 $4 XADD $39 s{xyz}000000000004:00000000000000000005 "
        );
    }

    #[test]
    fn settled_templates_write_the_same_requests() {
        let words = ["MSET", "__key__", "__data__", "__key__", "__data__"].map(str::to_owned);
        let template = Template::new(&[words.to_vec()], Literal::Nothing, false);
        let (sizes, values) = (Sizes::Fixed(2), Values::Random(b"abc".to_vec()));
        let settled = template.settled(&sizes, &values);
        assert!(settled.pieces.len() < template.pieces.len());
        let write = |template: &Template| {
            let (sampler, sizes, values) =
                (Sampler::new(Keys::Uniform, 9, 0, 1), sizes.clone(), values.clone());
            let random = Random::new(1);
            let mut filler = Filler { random, sampler, sizes, values, expire: (1, 1), last: 0 };
            let mut out = Vec::new();
            template.write(&mut filler, Occasion { now: Instant::ZERO, tag: b"" }, None, &mut out);
            out
        };
        assert_eq!(write(&settled), write(&template));
        assert_eq!(template.settled(&sizes, &Values::Stamped).pieces, template.pieces);
    }

    #[test]
    fn places_stay_text_where_redis_benchmark_leaves_them() {
        assert_eq!(
            written(&["GET {tag}__rand_int__"], Literal::Numbers, false),
            "*2 $3 GET $17 {tag}__rand_int__ "
        );
    }

    #[test]
    fn drawn_numbers_are_noted_for_the_check_of_replies() {
        let template = Template::new(
            &[vec!["MGET".into(), "__key__".into(), "__key__".into()]],
            Literal::Nothing,
            false,
        );
        assert_eq!((template.numbers(), template.has_places()), (2, true));
        assert!(!Template::fixed(b"PING\r\n", 1).has_places());
    }
}
