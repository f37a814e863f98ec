//! Values in the format of Redis's RDB files, version 10: the payload of DUMP and RESTORE.
//!
//! This module writes the encodings that Redis 7.0 writes. It reads those, older ones that are made of the same parts, and the
//! two that Redis 7.2 added. It does not read the ziplists and zipmaps of Redis before 7.0.
//!
//! Input is not trusted: an invalid value is `None`, and an announced size allocates nothing.

use resp::integer::parse_i64;

use crate::formats::double;
use crate::formats::listpack::{self, Entry, Listpack, little_endian};
use crate::formats::lzf;
use crate::formats::rdb_stream::{self, STREAM, STREAM_WITH_ACTIVITY, STREAM_WITHOUT_COUNTERS};
use crate::keyspace::Keyspace;
use crate::values::hash::Hash;
use crate::values::list::{End, List};
use crate::values::set::Set;
use crate::values::value::{Kind, Value};
use crate::values::zset::Zset;

// Redis's numbers of the forms.
const TEXT: u8 = 0;
const LIST: u8 = 1;
const SET: u8 = 2;
const ZSET_OF_TEXT_SCORES: u8 = 3;
const HASH: u8 = 4;
const ZSET: u8 = 5;
const INTSET: u8 = 11;
const HASH_LISTPACK: u8 = 16;
const ZSET_LISTPACK: u8 = 17;
const QUICKLIST: u8 = 18;
/// Written by Redis since 7.2.
const SET_LISTPACK: u8 = 20;

/// In a list, a node is an element by itself or a listpack.
const NODE_PLAIN: u64 = 1;
const NODE_LISTPACK: u64 = 2;

/// Redis's `list-max-listpack-size` of -2, and its estimate of the overhead of an element.
const NODE_BYTES_MAX: usize = 8 * 1024;
const NODE_ENTRY_BYTES: usize = 8;

/// A payload under construction.
#[derive(Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    compressor: lzf::Compressor,
}

impl Writer {
    pub(crate) fn push(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn extend_from_slice(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

/// Appends the type byte and the value in that encoding.
pub(crate) fn write(value: &Value, out: &mut Writer) {
    match value {
        Value::Text(text) => {
            out.push(TEXT);
            write_text(text, out);
        }
        Value::List(list) => write_list(list, out),
        Value::Set(set) => write_set(set, out),
        Value::Hash(hash) => write_hash(hash, out),
        Value::Zset(zset) => write_zset(zset, out),
        Value::Stream(stream) => rdb_stream::write(stream, out),
    }
}

fn write_list(list: &List, out: &mut Writer) {
    let (mut nodes, mut node) = (Vec::new(), Listpack::new());
    for item in list.iter() {
        if node.len() > 0 && node.size() + item.len() + NODE_ENTRY_BYTES > NODE_BYTES_MAX {
            nodes.push(std::mem::replace(&mut node, Listpack::new()));
        }
        node.push(item);
    }
    nodes.push(node);
    out.push(QUICKLIST);
    write_len(nodes.len() as u64, out);
    for node in nodes {
        write_len(NODE_LISTPACK, out);
        write_text(&node.finish(), out);
    }
}

fn write_set(set: &Set, out: &mut Writer) {
    if set.encoding() != "intset" {
        out.push(SET);
        write_len(set.len() as u64, out);
        return set.iter().for_each(|member| write_text(member, out));
    }
    let mut numbers: Vec<i64> = set.iter().filter_map(parse_i64).collect();
    numbers.sort_unstable();
    let fits = |least: i64, most: i64| numbers.iter().all(|number| (least..=most).contains(number));
    let width = match () {
        () if fits(i16::MIN.into(), i16::MAX.into()) => 2,
        () if fits(i32::MIN.into(), i32::MAX.into()) => 4,
        () => 8,
    };
    let mut bytes = Vec::with_capacity(8 + numbers.len() * width);
    bytes.extend_from_slice(&(width as u32).to_le_bytes());
    bytes.extend_from_slice(&(numbers.len() as u32).to_le_bytes());
    numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()[..width]));
    out.push(INTSET);
    write_text(&bytes, out);
}

fn write_hash(hash: &Hash, out: &mut Writer) {
    if hash.encoding() == "listpack" {
        let mut pack = Listpack::new();
        hash.iter().for_each(|field| {
            pack.push(&field.name);
            pack.push(&field.value);
        });
        out.push(HASH_LISTPACK);
        return write_text(&pack.finish(), out);
    }
    out.push(HASH);
    write_len(hash.len() as u64, out);
    hash.iter().for_each(|field| {
        write_text(&field.name, out);
        write_text(&field.value, out);
    });
}

fn write_zset(zset: &Zset, out: &mut Writer) {
    if zset.encoding() == "listpack" {
        let (mut pack, mut score) = (Listpack::new(), Vec::new());
        for scored in zset.iter() {
            pack.push(&scored.member);
            score.clear();
            double::write(&mut score, scored.score);
            pack.push(&score);
        }
        out.push(ZSET_LISTPACK);
        return write_text(&pack.finish(), out);
    }
    out.push(ZSET);
    write_len(zset.len() as u64, out);
    // From the highest score, so that a reader always inserts at the front.
    for scored in zset.iter().rev() {
        write_text(&scored.member, out);
        out.extend_from_slice(&scored.score.to_le_bytes());
    }
}

/// A length in 1, 2, 5 or 9 bytes.
pub(crate) fn write_len(len: u64, out: &mut Writer) {
    match len {
        0..0x40 => out.push(len as u8),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | (len >> 8) as u8, len as u8]),
        _ => match u32::try_from(len) {
            Ok(len) => {
                out.push(LEN_32);
                out.extend_from_slice(&len.to_be_bytes());
            }
            Err(_) => {
                out.push(LEN_64);
                out.extend_from_slice(&len.to_be_bytes());
            }
        },
    }
}

/// A text, as an integer if it is a short one.
pub(crate) fn write_text(text: &[u8], out: &mut Writer) {
    let number = parse_i64(text).and_then(|number| i32::try_from(number).ok());
    match number.map(|number| (number, number.to_le_bytes())) {
        Some((-128..=127, little)) => out.extend_from_slice(&[INT_8, little[0]]),
        Some((-32_768..=32_767, little)) => out.extend_from_slice(&[INT_16, little[0], little[1]]),
        Some((_, little)) => {
            out.push(INT_32);
            out.extend_from_slice(&little);
        }
        None => write_plain(text, out),
    }
}

/// A text that is no integer: compressed if this saves enough.
fn write_plain(text: &[u8], out: &mut Writer) {
    let compressed = if text.len() > PLAIN_BYTES_MAX { out.compressor.compress(text) } else { None };
    if let Some(bytes) = &compressed {
        out.push(COMPRESSED);
        write_len(bytes.len() as u64, out);
    }
    write_len(text.len() as u64, out);
    out.extend_from_slice(compressed.as_deref().unwrap_or(text));
}

/// Redis compresses only longer texts.
const PLAIN_BYTES_MAX: usize = 20;

const LEN_32: u8 = 0x80;
const LEN_64: u8 = 0x81;
const INT_8: u8 = 0xc0;
const INT_16: u8 = 0xc1;
const INT_32: u8 = 0xc2;
const COMPRESSED: u8 = 0xc3;

/// Reads a value with its type byte in front. Bytes behind the value are ignored.
pub(crate) fn read(bytes: &[u8], keyspace: &Keyspace) -> Option<Value> {
    let mut reader = Reader::new(bytes);
    let value = match reader.byte()? {
        TEXT => Value::Text(reader.text()?),
        LIST => {
            let mut list = List::default();
            reader.each(|reader| {
                list.push(End::Right, &reader.text()?);
                Some(())
            })?;
            list.into_value()
        }
        QUICKLIST => reader.quicklist()?.into_value(),
        SET => {
            let mut set: Set = keyspace.empty();
            reader.each(|reader| set.insert(&reader.text()?).then_some(()))?;
            set.into_value()
        }
        INTSET => {
            let mut set: Set = keyspace.empty();
            let is_set = |number: i64| set.insert(itoa::Buffer::new().format(number).as_bytes());
            integers(&reader.text()?)?.into_iter().all(is_set).then_some(())?;
            set.into_value()
        }
        SET_LISTPACK => {
            let mut set: Set = keyspace.empty();
            let bytes = reader.text()?;
            listpack::entries(&bytes)?.iter().all(|member| set.insert(&member.to_text())).then_some(())?;
            set.into_value()
        }
        HASH => {
            let mut hash: Hash = keyspace.empty();
            reader.each(|reader| hash.set(&reader.text()?, &reader.text()?).then_some(()))?;
            hash.into_value()
        }
        HASH_LISTPACK => {
            let mut hash: Hash = keyspace.empty();
            for_pairs(&reader.text()?, |name, value| hash.set(&name.to_text(), &value.to_text()))?;
            hash.into_value()
        }
        form @ (ZSET | ZSET_OF_TEXT_SCORES) => {
            let mut zset: Zset = keyspace.empty();
            reader.each(|reader| {
                let member = reader.text()?;
                let score = if form == ZSET { reader.double()? } else { reader.text_score()? };
                add(&mut zset, &member, score).then_some(())
            })?;
            zset.into_value()
        }
        ZSET_LISTPACK => {
            let mut zset: Zset = keyspace.empty();
            for_pairs(&reader.text()?, |member, score| {
                let score = double::parse_loosely(&score.to_text());
                score.is_some_and(|score| add(&mut zset, &member.to_text(), score))
            })?;
            zset.into_value()
        }
        form @ (STREAM | STREAM_WITHOUT_COUNTERS | STREAM_WITH_ACTIVITY) => {
            rdb_stream::read(&mut reader, form)?.into_value()
        }
        _ => return None,
    };
    (!value.is_gone()).then_some(value)
}

/// Returns false if the member exists already or the score is invalid.
fn add(zset: &mut Zset, member: &[u8], score: f64) -> bool {
    let is_new = zset.score(member).is_none() && !score.is_nan();
    if is_new {
        zset.set(member, score);
    }
    is_new
}

/// The numbers of an intset.
fn integers(bytes: &[u8]) -> Option<Vec<i64>> {
    let width = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let len = u32::from_le_bytes(*bytes.get(4..)?.first_chunk()?) as usize;
    let body = &bytes[8..];
    let is_whole = [2, 4, 8].contains(&width) && len.checked_mul(width) == Some(body.len());
    is_whole.then(|| body.chunks_exact(width).map(little_endian).collect())
}

/// Passes pairs of entries of a listpack to the closure until it refuses one.
fn for_pairs(bytes: &[u8], mut take: impl FnMut(Entry<'_>, Entry<'_>) -> bool) -> Option<()> {
    let entries = listpack::entries(bytes)?;
    let is_taken = |pair: &[Entry<'_>]| pair.len() == 2 && take(pair[0], pair[1]);
    entries.chunks(2).all(is_taken).then_some(())
}

/// The unread rest of a payload.
pub(crate) struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.bytes.is_empty()
    }

    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(len)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn array<const LEN: usize>(&mut self) -> Option<[u8; LEN]> {
        self.take(LEN)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).map(|bytes| bytes[0])
    }

    pub(crate) fn len(&mut self) -> Option<u64> {
        match self.byte()? {
            first @ 0..0x40 => Some(first.into()),
            first @ 0x40..0x80 => Some(u64::from(first & 0x3f) << 8 | u64::from(self.byte()?)),
            LEN_32 => Some(u32::from_be_bytes(*self.take(4)?.first_chunk()?).into()),
            LEN_64 => Some(u64::from_be_bytes(*self.take(8)?.first_chunk()?)),
            _ => None,
        }
    }

    pub(crate) fn text(&mut self) -> Option<Vec<u8>> {
        let width = match *self.bytes.first()? {
            INT_8 => 1,
            INT_16 => 2,
            INT_32 => 4,
            COMPRESSED => {
                self.byte()?;
                let (compressed, len) = (self.len()?, self.len()?);
                return lzf::decompress(
                    self.take(usize::try_from(compressed).ok()?)?,
                    usize::try_from(len).ok()?,
                );
            }
            _ => {
                let len = usize::try_from(self.len()?).ok()?;
                return self.take(len).map(<[u8]>::to_vec);
            }
        };
        self.byte()?;
        Some(itoa::Buffer::new().format(little_endian(self.take(width)?)).as_bytes().to_vec())
    }

    fn double(&mut self) -> Option<f64> {
        Some(f64::from_le_bytes(*self.take(8)?.first_chunk()?))
    }

    /// A score in an old dump: a length and a text, or a special length.
    fn text_score(&mut self) -> Option<f64> {
        match self.byte()? {
            253 => None,
            254 => Some(f64::INFINITY),
            255 => Some(f64::NEG_INFINITY),
            len => double::parse_loosely(self.take(len.into())?),
        }
    }

    /// Reads a length, and then as many elements.
    pub(crate) fn each(&mut self, mut read: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        let len = self.len()?;
        (0..len).try_for_each(|_| read(self))
    }

    fn quicklist(&mut self) -> Option<List> {
        let mut list = List::default();
        self.each(|reader| {
            let (container, node) = (reader.len()?, reader.text()?);
            match container {
                NODE_PLAIN => list.push(End::Right, &node),
                NODE_LISTPACK => {
                    let entries = listpack::entries(&node)?;
                    entries.iter().for_each(|entry| list.push(End::Right, &entry.to_text()));
                }
                _ => return None,
            }
            Some(())
        })?;
        Some(list)
    }
}
