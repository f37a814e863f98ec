//! Commands on the bits of strings.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{integer, is};
use crate::audience::Class;
use crate::commands::strings::{byte_range, clamped_range};
use crate::database::NEVER;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::text::{self, Bitwise, TEXT_BYTES_MAX, grow};
use crate::values::value::Value;

type Done = Result<(), Error>;
type Text = Vec<u8>;

pub(crate) fn setbit(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let offset = bit_offset(request.arg(2))?;
    let is_set = match parse_i64(request.arg(3)) {
        Some(bit @ (0 | 1)) => bit == 1,
        _ => return Err(Error::NotABit),
    };
    keyspace.read::<Text>(request.arg(1))?;
    if offset / 8 >= keyspace.memory_max {
        return Err(Error::OutOfMemory);
    }
    let (old, is_grown) = keyspace.edit_or_create(request.arg(1), |text: &mut Text| {
        let (old, is_grown) = (bit_of(text, offset), text.len() <= offset / 8);
        grow(text, offset / 8 + 1);
        let mask = 0x80 >> (offset % 8);
        text[offset / 8] = if is_set { text[offset / 8] | mask } else { text[offset / 8] & !mask };
        (old, is_grown)
    })?;
    if is_grown || old != is_set {
        keyspace.changed(Class::Text, "setbit", request.arg(1));
    }
    out.integer(i64::from(old));
    Ok(())
}

pub(crate) fn getbit(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let offset = bit_offset(request.arg(2))?;
    let bit = keyspace.read::<Text>(request.arg(1))?.is_some_and(|text| bit_of(text, offset));
    out.integer(i64::from(bit));
    Ok(())
}

pub(crate) fn bitcount(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let Some(text) = keyspace.read::<Text>(request.arg(1))? else {
        out.integer(0);
        return Ok(());
    };
    let (from, to) = match request.len() {
        2 => (0, text.len() * 8),
        4 | 5 => {
            let (start, end) = (integer(request.arg(2))?, integer(request.arg(3))?);
            // A negative range in the wrong order is empty in either unit. Redis does not read its unit.
            let is_turned = start < 0 && end < 0 && start > end;
            let unit = if !is_turned && counts_bits(request.get(4))? { 1 } else { 8 };
            let (from, to) = byte_range(start, end, text.len() * 8 / unit).unwrap_or_default();
            (from * unit, to * unit)
        }
        _ => return Err(Error::Syntax),
    };
    out.integer(ones(text, from, to) as i64);
    Ok(())
}

pub(crate) fn bitpos(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let wanted = match integer(request.arg(2))? {
        bit @ (0 | 1) => bit == 1,
        _ => return Err(Error::BitArgument),
    };
    let Some(text) = keyspace.read::<Text>(request.arg(1))? else {
        out.integer(if wanted { -1 } else { 0 });
        return Ok(());
    };
    if request.len() > 6 {
        return Err(Error::Syntax);
    }
    let start = request.get(3).map_or(Ok(0), integer)?;
    let unit = if counts_bits(request.get(5))? { 1 } else { 8 };
    let end = request.get(4).map(integer).transpose()?;
    let (from, to) = clamped_range(start, end.unwrap_or(-1), text.len() * 8 / unit).unwrap_or_default();
    let (from, to) = (from * unit, to * unit);
    let position = match find_bit(text, from, to, wanted) {
        Some(position) => position as i64,
        // Without an end, the first zero behind a text of ones is the bit after its last.
        None if !wanted && end.is_none() && from < to => text.len() as i64 * 8,
        None => -1,
    };
    out.integer(position);
    Ok(())
}

pub(crate) fn bitop(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let bitwise = match request.arg(1) {
        word if is(word, "AND") => Bitwise::And,
        word if is(word, "OR") => Bitwise::Or,
        word if is(word, "XOR") => Bitwise::Xor,
        word if is(word, "NOT") => Bitwise::Not,
        _ => return Err(Error::Syntax),
    };
    if bitwise == Bitwise::Not && request.len() != 4 {
        return Err(Error::BitopNot);
    }
    let mut sources: Vec<&[u8]> = Vec::with_capacity(request.len() - 3);
    for key in request.args().skip(3) {
        sources.push(keyspace.peek_at::<Text>(key)?.map_or(&[][..], Vec::as_slice));
    }
    let result = bitwise.of(&sources);
    let len = result.len();
    let target = request.arg(2);
    if !result.is_empty() {
        keyspace.set(target, Value::Text(result), NEVER);
        keyspace.changed(Class::Text, "set", target);
    } else if keyspace.delete(target) {
        keyspace.changed(Class::Generic, "del", target);
    }
    out.integer(len as i64);
    Ok(())
}

fn bit_offset(arg: &[u8]) -> Result<usize, Error> {
    let offset = parse_i64(arg).and_then(|offset| usize::try_from(offset).ok()).ok_or(Error::BitOffset)?;
    if offset / 8 >= TEXT_BYTES_MAX { Err(Error::BitOffset) } else { Ok(offset) }
}

/// Whether a range is given in bits: the last argument of BITCOUNT and BITPOS.
fn counts_bits(arg: Option<&[u8]>) -> Result<bool, Error> {
    match arg {
        None => Ok(false),
        Some(word) if is(word, "BIT") => Ok(true),
        Some(word) if is(word, "BYTE") => Ok(false),
        Some(_) => Err(Error::Syntax),
    }
}

fn bit_of(text: &[u8], offset: usize) -> bool {
    text.get(offset / 8).is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0)
}

/// Number of set bits in the range: whole bytes in the middle, single bits at its ends.
fn ones(text: &[u8], from: usize, to: usize) -> usize {
    let (first, last) = (from.div_ceil(8), to / 8);
    if first >= last {
        return (from..to).filter(|&offset| bit_of(text, offset)).count();
    }
    let ends = (from..first * 8).chain(last * 8..to).filter(|&offset| bit_of(text, offset)).count();
    ends + text::ones(&text[first..last])
}

/// The first bit of the range with the wanted value: whole bytes in the middle, single bits at its ends.
fn find_bit(text: &[u8], from: usize, to: usize, wanted: bool) -> Option<usize> {
    let is_wanted = |offset: &usize| bit_of(text, *offset) == wanted;
    let (first, last) = (from.div_ceil(8), to / 8);
    if first >= last {
        return (from..to).find(is_wanted);
    }
    let without = if wanted { 0x00 } else { 0xff };
    let middle = || {
        let byte = first + text::first_other(&text[first..last], without)?;
        (byte * 8..byte * 8 + 8).find(is_wanted)
    };
    (from..first * 8).find(is_wanted).or_else(middle).or_else(|| (last * 8..to).find(is_wanted))
}
