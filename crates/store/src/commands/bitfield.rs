//! BITFIELD: integers of any width at any bit of a string.

use resp::Request;
use resp::integer::parse_i64;

use crate::args::{integer, is};
use crate::audience::Class;
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::text::{TEXT_BYTES_MAX, grow};

type Done = Result<(), Error>;
type Text = Vec<u8>;

pub(crate) fn bitfield(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let steps = parse(request)?;
    let Some(end) = steps.iter().filter(|step| step.writes()).map(Step::end).max() else {
        return read(keyspace, request.arg(1), &steps, out);
    };
    keyspace.read::<Text>(request.arg(1))?;
    if end.div_ceil(8) > keyspace.memory_max {
        return Err(Error::OutOfMemory);
    }
    out.array(steps.len());
    let is_changed = keyspace.edit_or_create(request.arg(1), |text: &mut Text| {
        // As in Redis, the string grows even for a change that then fails by its overflow.
        let is_grown = text.len() < end.div_ceil(8);
        grow(text, end.div_ceil(8));
        let mut is_changed = false;
        for step in &steps {
            let old = step.field.value(text);
            let value = step.run(text);
            is_changed |= step.writes() && value.is_some() && (is_grown || step.field.value(text) != old);
            write_value(value, out);
        }
        is_changed
    })?;
    if is_changed {
        keyspace.changed(Class::Text, "setbit", request.arg(1));
    }
    Ok(())
}

pub(crate) fn bitfield_ro(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let steps = parse(request)?;
    if steps.iter().any(Step::writes) {
        return Err(Error::BITFIELD_RO);
    }
    read(keyspace, request.arg(1), &steps, out)
}

fn read(keyspace: &mut Keyspace, key: &[u8], steps: &[Step], out: &mut Reply) -> Done {
    keyspace.stats.count(true);
    let text = keyspace.read::<Text>(key)?.map_or(&[][..], Vec::as_slice);
    out.array(steps.len());
    steps.iter().for_each(|step| out.integer(step.field.value(text) as i64));
    Ok(())
}

fn write_value(value: Option<i128>, out: &mut Reply) {
    match value {
        Some(value) => out.integer(value as i64),
        None => out.nil(),
    }
}

/// Some bits of a string as an integer.
#[derive(Clone, Copy)]
struct Field {
    is_signed: bool,
    /// 1 to 64; 63 for an unsigned field.
    bits: usize,
    offset: usize,
}

/// Treatment of a value that does not fit.
#[derive(Clone, Copy)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

enum Action {
    Get,
    Set(i64),
    Add(i64),
}

/// One subcommand.
struct Step {
    field: Field,
    action: Action,
    overflow: Overflow,
}

fn parse(request: &Request<'_>) -> Result<Vec<Step>, Error> {
    let (mut steps, mut overflow, mut at) = (Vec::new(), Overflow::Wrap, 2);
    while let Some(word) = request.get(at) {
        let args_left = request.len() - at - 1;
        if is(word, "OVERFLOW") && args_left >= 1 {
            overflow = match request.arg(at + 1) {
                how if is(how, "WRAP") => Overflow::Wrap,
                how if is(how, "SAT") => Overflow::Saturate,
                how if is(how, "FAIL") => Overflow::Fail,
                _ => return Err(Error::BITFIELD_OVERFLOW),
            };
            at += 2;
            continue;
        }
        let action: Option<fn(i64) -> Action> = match word {
            _ if is(word, "GET") && args_left >= 2 => None,
            _ if is(word, "SET") && args_left >= 3 => Some(Action::Set),
            _ if is(word, "INCRBY") && args_left >= 3 => Some(Action::Add),
            _ => return Err(Error::Syntax),
        };
        let field = Field::parse(request.arg(at + 1), request.arg(at + 2))?;
        let action = match action {
            Some(action) => {
                at += 1;
                action(integer(request.arg(at + 2))?)
            }
            None => Action::Get,
        };
        steps.push(Step { field, action, overflow });
        at += 3;
    }
    Ok(steps)
}

impl Field {
    fn parse(kind: &[u8], offset: &[u8]) -> Result<Field, Error> {
        let (is_signed, digits) = match kind {
            [b'i', digits @ ..] => (true, digits),
            [b'u', digits @ ..] => (false, digits),
            _ => return Err(Error::BITFIELD_TYPE),
        };
        let bits_max = if is_signed { 64 } else { 63 };
        let bits = parse_i64(digits).and_then(|bits| usize::try_from(bits).ok());
        let bits = bits.filter(|bits| (1..=bits_max).contains(bits)).ok_or(Error::BITFIELD_TYPE)?;
        // With a hash sign, the offset counts fields of this width.
        let (digits, unit) = match offset {
            [b'#', digits @ ..] => (digits, bits),
            _ => (offset, 1),
        };
        // A product that does not fit wraps in Redis.
        let offset = parse_i64(digits).map(|offset| offset.wrapping_mul(unit as i64));
        let offset = offset.and_then(|offset| usize::try_from(offset).ok()).ok_or(Error::BitOffset)?;
        if offset / 8 >= TEXT_BYTES_MAX {
            return Err(Error::BitOffset);
        }
        Ok(Field { is_signed, bits, offset })
    }

    /// The lowest and the highest value.
    fn bounds(self) -> (i128, i128) {
        if self.is_signed {
            (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1)
        } else {
            (0, (1 << self.bits) - 1)
        }
    }

    /// Bits behind the end of the string are zeros.
    fn value(self, text: &[u8]) -> i128 {
        let bit = |at: usize| text.get(at / 8).is_some_and(|byte| byte & (0x80 >> (at % 8)) != 0);
        let places = self.offset..self.offset + self.bits;
        self.wrapped(places.fold(0_i128, |value, at| value << 1 | i128::from(bit(at))))
    }

    /// The value of the lowest bits.
    fn wrapped(self, value: i128) -> i128 {
        let low = value & ((1 << self.bits) - 1);
        if low > self.bounds().1 { low - (1 << self.bits) } else { low }
    }

    fn set(self, text: &mut [u8], value: i128) {
        for place in 0..self.bits {
            let (at, is_set) = (self.offset + place, value >> (self.bits - 1 - place) & 1 == 1);
            let mask = 0x80 >> (at % 8);
            text[at / 8] = if is_set { text[at / 8] | mask } else { text[at / 8] & !mask };
        }
    }
}

impl Step {
    fn writes(&self) -> bool {
        !matches!(self.action, Action::Get)
    }

    /// The first bit behind it.
    fn end(&self) -> usize {
        self.field.offset + self.field.bits
    }

    /// The reply; `None` if an overflow made it fail.
    fn run(&self, text: &mut Text) -> Option<i128> {
        let old = self.field.value(text);
        let wanted = match self.action {
            Action::Get => return Some(old),
            // An unsigned value is cast as in C.
            Action::Set(value) if !self.field.is_signed => i128::from(value as u64),
            Action::Set(value) => i128::from(value),
            Action::Add(increment) => old + i128::from(increment),
        };
        let (least, most) = self.field.bounds();
        let new = match self.overflow {
            _ if (least..=most).contains(&wanted) => wanted,
            Overflow::Wrap => self.field.wrapped(wanted),
            Overflow::Saturate => wanted.clamp(least, most),
            Overflow::Fail => return None,
        };
        self.field.set(text, new);
        Some(if matches!(self.action, Action::Set(_)) { old } else { new })
    }
}
