//! Listpacks: Redis's form of short lists of texts and integers, as dumps carry it.
//!
//! ```text
//! bytes of all, 4 ─ entries, 2 ─ { encoding and data ─ their length, to be read backwards } … ─ 0xff
//! ```

use resp::integer::parse_i64;

/// A listpack under construction.
pub(crate) struct Listpack {
    bytes: Vec<u8>,
    len: usize,
}

impl Listpack {
    pub(crate) fn new() -> Listpack {
        Listpack { bytes: vec![0; HEADER_BYTES], len: 0 }
    }

    /// Appends a text, as an integer if it is one.
    pub(crate) fn push(&mut self, text: &[u8]) {
        write(text, &mut self.bytes);
        self.len += 1;
    }

    /// Appends `len` encoded entries.
    pub(crate) fn push_written(&mut self, entries: &[u8], len: usize) {
        self.bytes.extend_from_slice(entries);
        self.len += len;
    }

    /// Bytes of the finished listpack.
    pub(crate) fn size(&self) -> usize {
        self.bytes.len() + 1
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let size = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&size.to_le_bytes());
        // 65535 stands for an unknown number.
        let len = u16::try_from(self.len).unwrap_or(u16::MAX);
        self.bytes[4..6].copy_from_slice(&len.to_le_bytes());
        self.bytes
    }
}

/// Appends an entry: a text, as an integer if it is one.
pub(crate) fn write(text: &[u8], out: &mut Vec<u8>) {
    match parse_i64(text) {
        Some(number) => write_integer(number, out),
        None => write_text(text, out),
    }
}

/// Appends an entry that is an integer.
pub(crate) fn write_integer(number: i64, out: &mut Vec<u8>) {
    let start = out.len();
    let little = number.to_le_bytes();
    match number {
        0..=127 => out.push(number as u8),
        -4096..=4095 => out.extend_from_slice(&[0xc0 | (number >> 8) as u8 & 0x1f, number as u8]),
        -32_768..=32_767 => write_wide(0xf1, &little[..2], out),
        -8_388_608..=8_388_607 => write_wide(0xf2, &little[..3], out),
        -2_147_483_648..=2_147_483_647 => write_wide(0xf3, &little[..4], out),
        _ => write_wide(0xf4, &little, out),
    }
    finish_entry(start, out);
}

fn write_text(text: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    match text.len() {
        len @ 0..64 => out.push(0x80 | len as u8),
        len @ 64..4096 => out.extend_from_slice(&[0xe0 | (len >> 8) as u8, len as u8]),
        len => write_wide(0xf0, &(len as u32).to_le_bytes(), out),
    }
    out.extend_from_slice(text);
    finish_entry(start, out);
}

fn write_wide(encoding: u8, little: &[u8], out: &mut Vec<u8>) {
    out.push(encoding);
    out.extend_from_slice(little);
}

/// Appends the length of the entry that begins at `start`. Each byte has seven bits, the highest first. All but the first have
/// the top bit set.
fn finish_entry(start: usize, out: &mut Vec<u8>) {
    let len = out.len() - start;
    let count = back_len(len);
    for place in (0..count).rev() {
        let bits = (len >> (7 * place)) as u8 & 0x7f;
        out.push(if place + 1 == count { bits } else { bits | 0x80 });
    }
}

/// Bytes of the length behind an entry. Redis's bounds, which are one less than they could be.
fn back_len(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// An entry in its encoded form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry<'a> {
    Integer(i64),
    Text(&'a [u8]),
}

impl Entry<'_> {
    pub(crate) fn integer(self) -> Option<i64> {
        match self {
            Entry::Integer(number) => Some(number),
            Entry::Text(_) => None,
        }
    }

    pub(crate) fn to_text(self) -> Vec<u8> {
        match self {
            Entry::Integer(number) => itoa::Buffer::new().format(number).as_bytes().to_vec(),
            Entry::Text(text) => text.to_vec(),
        }
    }
}

/// The entries of a listpack. `None` if it is not one.
pub(crate) fn entries(bytes: &[u8]) -> Option<Vec<Entry<'_>>> {
    let (body, len) = body(bytes)?;
    let (mut found, mut at) = (Vec::new(), 0);
    while at < body.len() {
        found.push(next(body, &mut at)?);
    }
    len.is_none_or(|len| len == found.len()).then_some(found)
}

/// The encoded entries of a listpack, and their announced number, if known.
pub(crate) fn body(bytes: &[u8]) -> Option<(&[u8], Option<usize>)> {
    let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let announced = u16::from_le_bytes(*bytes.get(4..)?.first_chunk()?);
    if size != bytes.len() || bytes.last() != Some(&END) {
        return None;
    }
    let len = Some(usize::from(announced)).filter(|&len| len != usize::from(u16::MAX));
    Some((bytes.get(HEADER_BYTES..bytes.len() - 1)?, len))
}

/// The entry at `at`, which then moves behind it.
pub(crate) fn next<'a>(body: &'a [u8], at: &mut usize) -> Option<Entry<'a>> {
    let (entry, len) = entry(body.get(*at..)?)?;
    *at += len + back_len(len);
    (*at <= body.len()).then_some(entry)
}

/// The entry at the beginning of `bytes` and its length, without the length behind it.
fn entry(bytes: &[u8]) -> Option<(Entry<'_>, usize)> {
    let text =
        |from: usize, len: usize| Some((Entry::Text(bytes.get(from..from.checked_add(len)?)?), from + len));
    let second = || bytes.get(1).copied();
    match *bytes.first()? {
        first @ 0..0x80 => Some((Entry::Integer(i64::from(first)), 1)),
        first @ 0x80..0xc0 => text(1, usize::from(first & 0x3f)),
        first @ 0xc0..0xe0 => {
            let bits = i16::from(first & 0x1f) << 8 | i16::from(second()?);
            // The sign of 13 bits.
            Some((Entry::Integer(i64::from(bits << 3 >> 3)), 2))
        }
        first @ 0xe0..0xf0 => text(2, usize::from(first & 0x0f) << 8 | usize::from(second()?)),
        0xf0 => text(5, u32::from_le_bytes(*bytes.get(1..)?.first_chunk()?) as usize),
        0xf1 => integer(bytes, 2),
        0xf2 => integer(bytes, 3),
        0xf3 => integer(bytes, 4),
        0xf4 => integer(bytes, 8),
        _ => None,
    }
}

fn integer(bytes: &[u8], len: usize) -> Option<(Entry<'_>, usize)> {
    Some((Entry::Integer(little_endian(bytes.get(1..=len)?)), 1 + len))
}

/// A signed integer of up to eight bytes, the lowest first.
pub(crate) fn little_endian(bytes: &[u8]) -> i64 {
    let shift = 64 - 8 * bytes.len();
    let bits = bytes.iter().rev().fold(0_u64, |bits, &byte| bits << 8 | u64::from(byte));
    (bits << shift) as i64 >> shift
}

const HEADER_BYTES: usize = 6;
const END: u8 = 0xff;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_read_back_as_they_were_written() {
        let numbers =
            [0, 127, 128, -1, -4096, 4095, 4096, 32_767, -32_768, 8_388_607, -8_388_608, 1 << 31, i64::MIN];
        let texts = [0, 63, 64, 4095, 4096, 20_000].map(|len| vec![b'x'; len]);
        let mut pack = Listpack::new();
        numbers.iter().for_each(|number| pack.push(number.to_string().as_bytes()));
        texts.iter().for_each(|text| pack.push(text));
        let size = pack.size();
        let bytes = pack.finish();
        assert_eq!(bytes.len(), size);
        let expected = numbers.iter().map(|&number| Entry::Integer(number));
        let expected: Vec<_> = expected.chain(texts.iter().map(|text| Entry::Text(text))).collect();
        assert_eq!(entries(&bytes), Some(expected));
        for len in 0..bytes.len() {
            assert_eq!(entries(&bytes[..len]), None, "cut at {len}");
        }
    }
}
