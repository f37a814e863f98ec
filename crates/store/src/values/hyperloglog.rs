//! A HyperLogLog in Redis's own representation, so that GET, SET and dumps carry it between stores and nodes.
//!
//! ```text
//! "HYLL" ─ encoding (0 dense, 1 sparse) ─ 3 zeros ─ 8 bytes cardinality, little end first, top bit: not valid ─ registers
//! ```
//!
//! Dense: 16,384 registers of six bits. Sparse: runs of equal registers, see [`Run`]. Every operation on the registers is done
//! as Redis does it, or the bytes would differ.

/// Number of registers; 14 bits of a hash choose one.
pub(crate) const REGISTERS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;

/// The other bits of a hash: a register counts at most one more.
const COUNT_BITS: u32 = 64 - INDEX_BITS;

const MAGIC: &[u8] = b"HYLL";
const ENCODING_AT: usize = 4;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const CARDINALITY_AT: usize = 8;
const HEADER_BYTES: usize = 16;
const REGISTER_BITS: usize = 6;
const DENSE_BYTES: usize = HEADER_BYTES + REGISTERS * REGISTER_BITS / 8;

/// Redis's `hll-sparse-max-bytes`, with the header.
const SPARSE_BYTES_MAX: usize = 3_000;

/// The bytes are not those of a HyperLogLog, though they begin like one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Corrupt;

/// An empty one: sparse, with a cardinality of 0 that is valid.
pub(crate) fn empty() -> Vec<u8> {
    let mut text = Vec::with_capacity(HEADER_BYTES + 8);
    text.extend_from_slice(MAGIC);
    text.push(SPARSE);
    text.resize(HEADER_BYTES, 0);
    Run::Zeros(REGISTERS).write(&mut text);
    text
}

/// Whether the header is in order.
pub(crate) fn is_valid(text: &[u8]) -> bool {
    text.len() >= HEADER_BYTES
        && text.starts_with(MAGIC)
        && text[ENCODING_AT] <= SPARSE
        && (!is_dense(text) || text.len() == DENSE_BYTES)
}

pub(crate) fn is_dense(text: &[u8]) -> bool {
    text[ENCODING_AT] == DENSE
}

/// The cached cardinality, if nothing changed since.
pub(crate) fn cached(text: &[u8]) -> Option<u64> {
    let bytes = text.get(CARDINALITY_AT..HEADER_BYTES)?.try_into().ok()?;
    Some(u64::from_le_bytes(bytes)).filter(|cardinality| cardinality >> 63 == 0)
}

pub(crate) fn set_cached(text: &mut [u8], cardinality: u64) {
    text[CARDINALITY_AT..HEADER_BYTES].copy_from_slice(&cardinality.to_le_bytes());
}

pub(crate) fn invalidate(text: &mut [u8]) {
    text[HEADER_BYTES - 1] |= 0x80;
}

/// Adds an element. True if a register changed.
pub(crate) fn add(text: &mut Vec<u8>, element: &[u8]) -> Result<bool, Corrupt> {
    let hash = murmur(element);
    let index = hash as usize % REGISTERS;
    // A bit behind the last one ends the count.
    let count = (hash >> INDEX_BITS | 1 << COUNT_BITS).trailing_zeros() + 1;
    raise(text, index, count as u8)
}

/// Raises a register to at least `count`. Returns true if it was lower.
pub(crate) fn raise(text: &mut Vec<u8>, index: usize, count: u8) -> Result<bool, Corrupt> {
    if is_dense(text) {
        return Ok(raise_dense(text, index, count));
    }
    if count <= VALUE_MAX
        && let Some(is_changed) = raise_sparse(text, index, count)?
    {
        return Ok(is_changed);
    }
    make_dense(text)?;
    Ok(raise_dense(text, index, count))
}

fn raise_dense(text: &mut [u8], index: usize, count: u8) -> bool {
    let registers = &mut text[HEADER_BYTES..];
    if register(registers, index) >= count {
        return false;
    }
    set_register(registers, index, count);
    true
}

fn register(registers: &[u8], index: usize) -> u8 {
    let (at, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let low = u16::from(registers[at]);
    let high = registers.get(at + 1).map_or(0, |&byte| u16::from(byte));
    ((low | high << 8) >> shift) as u8 & REGISTER_MAX
}

fn set_register(registers: &mut [u8], index: usize, count: u8) {
    let (at, shift) = (index * REGISTER_BITS / 8, index * REGISTER_BITS % 8);
    let (mask, bits) = (!(u16::from(REGISTER_MAX) << shift), u16::from(count) << shift);
    registers[at] = registers[at] & mask as u8 | bits as u8;
    if let Some(high) = registers.get_mut(at + 1) {
        *high = *high & (mask >> 8) as u8 | (bits >> 8) as u8;
    }
}

const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;

/// Equal registers in a row, as the sparse form writes them.
///
/// `00llllll`: up to 64 zeros. `01llllll llllllll`: up to 16,384 zeros. `1vvvvvll`: up to 4 registers of a value up to 32.
/// Lengths and values are stored less one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Zeros(usize),
    Values { value: u8, len: usize },
}

const VALUE_MAX: u8 = 32;
const VALUES_MAX: usize = 4;
const SHORT_ZEROS_MAX: usize = 64;

impl Run {
    /// The run at the beginning of `bytes` and how many bytes it takes.
    fn read(bytes: &[u8]) -> (Run, usize) {
        let first = bytes[0];
        match first >> 6 {
            0 => (Run::Zeros(usize::from(first) + 1), 1),
            1 => {
                // A string of Redis ends with a zero.
                let second = bytes.get(1).map_or(0, |&byte| usize::from(byte));
                (Run::Zeros((usize::from(first & 0x3f) << 8 | second) + 1), 2)
            }
            _ => (Run::Values { value: (first >> 2 & 0x1f) + 1, len: usize::from(first & 3) + 1 }, 1),
        }
    }

    fn write(self, out: &mut Vec<u8>) {
        match self {
            Run::Zeros(0) | Run::Values { len: 0, .. } => {}
            Run::Zeros(len) if len > SHORT_ZEROS_MAX => {
                out.extend_from_slice(&[0x40 | ((len - 1) >> 8) as u8, (len - 1) as u8]);
            }
            Run::Zeros(len) => out.push((len - 1) as u8),
            Run::Values { value, len } => out.push(0x80 | (value - 1) << 2 | (len - 1) as u8),
        }
    }

    fn len(self) -> usize {
        match self {
            Run::Zeros(len) | Run::Values { len, .. } => len,
        }
    }

    fn value(self) -> u8 {
        match self {
            Run::Zeros(_) => 0,
            Run::Values { value, .. } => value,
        }
    }

    fn with_len(self, len: usize) -> Run {
        match self {
            Run::Zeros(_) => Run::Zeros(len),
            Run::Values { value, .. } => Run::Values { value, len },
        }
    }
}

/// The runs of a sparse form.
fn runs(text: &[u8]) -> impl Iterator<Item = Run> {
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        let (run, bytes) = Run::read(text.get(at..).filter(|rest| !rest.is_empty())?);
        at += bytes;
        Some(run)
    })
}

/// Splits the run that covers `index`. `None` if that makes the sparse form too long.
fn raise_sparse(text: &mut Vec<u8>, index: usize, count: u8) -> Result<Option<bool>, Corrupt> {
    let (mut at, mut before, mut first) = (HEADER_BYTES, HEADER_BYTES, 0);
    let (run, bytes) = loop {
        let (run, bytes) = Run::read(text.get(at..).filter(|rest| !rest.is_empty()).ok_or(Corrupt)?);
        if index < first + run.len() {
            break (run, bytes);
        }
        (before, at, first) = (at, at + bytes, first + run.len());
    };
    if run.value() >= count {
        return Ok(Some(false));
    }
    let mut split = Vec::with_capacity(5);
    run.with_len(index - first).write(&mut split);
    Run::Values { value: count, len: 1 }.write(&mut split);
    run.with_len(first + run.len() - index - 1).write(&mut split);
    let end = (at + bytes).min(text.len());
    if split.len() > bytes && text.len() + split.len() - bytes > SPARSE_BYTES_MAX {
        return Ok(None);
    }
    text.splice(at..end, split);
    if end < at + bytes {
        // The run is truncated. As in Redis, the last byte of the text is lost.
        text.pop();
    }
    unite(text, before);
    invalidate(text);
    Ok(Some(true))
}

/// Makes one run of neighbours with the same value, as far as Redis looks: five runs from the one before the change.
fn unite(text: &mut Vec<u8>, from: usize) {
    let mut at = from;
    for _ in 0..5 {
        let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) else { return };
        let (run, bytes) = Run::read(rest);
        let next = rest.get(bytes..).filter(|rest| !rest.is_empty()).map(|rest| Run::read(rest).0);
        match (run, next) {
            (Run::Values { value, len }, Some(Run::Values { value: other, len: more }))
                if value == other && len + more <= VALUES_MAX =>
            {
                text.remove(at);
                let mut united = Vec::with_capacity(1);
                Run::Values { value, len: len + more }.write(&mut united);
                text[at] = united[0];
            }
            _ => at += bytes,
        }
    }
}

/// Turns the sparse form into the dense one, which keeps the cached cardinality.
pub(crate) fn make_dense(text: &mut Vec<u8>) -> Result<(), Corrupt> {
    if is_dense(text) {
        return Ok(());
    }
    let mut dense = text[..HEADER_BYTES].to_vec();
    dense[ENCODING_AT] = DENSE;
    dense.resize(DENSE_BYTES, 0);
    for_each_sparse(text, |index, value| set_register(&mut dense[HEADER_BYTES..], index, value))?;
    *text = dense;
    Ok(())
}

/// Shows the registers of a sparse form that are not zero.
fn for_each_sparse(text: &[u8], mut found: impl FnMut(usize, u8)) -> Result<(), Corrupt> {
    let mut index = 0;
    for run in runs(text) {
        if let Run::Values { value, len } = run {
            if index + len > REGISTERS {
                return Err(Corrupt);
            }
            (index..index + len).for_each(|index| found(index, value));
        }
        index += run.len();
    }
    if index == REGISTERS { Ok(()) } else { Err(Corrupt) }
}

/// Raises each of `registers` to its value in `text`.
pub(crate) fn merge(registers: &mut [u8; REGISTERS], text: &[u8]) -> Result<(), Corrupt> {
    if !is_dense(text) {
        return for_each_sparse(text, |index, value| registers[index] = registers[index].max(value));
    }
    for (index, value) in registers.iter_mut().enumerate() {
        *value = register(&text[HEADER_BYTES..], index).max(*value);
    }
    Ok(())
}

/// The cardinality of the registers of `text`.
pub(crate) fn count(text: &[u8]) -> Result<u64, Corrupt> {
    let mut counts = Counts::new();
    if is_dense(text) {
        (0..REGISTERS).for_each(|index| counts.add(register(&text[HEADER_BYTES..], index), 1));
        return Ok(counts.estimate());
    }
    let mut covered = 0;
    for run in runs(text) {
        covered += run.len();
        counts.add(run.value(), run.len());
    }
    if covered == REGISTERS { Ok(counts.estimate()) } else { Err(Corrupt) }
}

/// The cardinality of merged registers.
pub(crate) fn count_merged(registers: &[u8; REGISTERS]) -> u64 {
    let mut counts = Counts::new();
    registers.iter().for_each(|&value| counts.add(value, 1));
    counts.estimate()
}

/// Histogram of the registers' values.
struct Counts([u32; COUNT_BITS as usize + 2]);

impl Counts {
    fn new() -> Counts {
        Counts([0; COUNT_BITS as usize + 2])
    }

    /// A value that no hash produces is ignored, as in Redis.
    fn add(&mut self, value: u8, registers: usize) {
        if let Some(count) = self.0.get_mut(usize::from(value)) {
            *count += registers as u32;
        }
    }

    /// Otmar Ertl, "New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6.
    fn estimate(&self) -> u64 {
        let registers = REGISTERS as f64;
        let full = f64::from(self.0[COUNT_BITS as usize + 1]);
        let mut sum = registers * tau((registers - full) / registers);
        for &count in self.0[1..=COUNT_BITS as usize].iter().rev() {
            sum = (sum + f64::from(count)) * 0.5;
        }
        sum += registers * sigma(f64::from(self.0[0]) / registers);
        (ALPHA * registers * registers / sum).round() as u64
    }
}

/// 0.5 / ln 2, as Redis writes it.
const ALPHA: f64 = 0.721_347_520_444_481_7;

fn sigma(x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut x, mut y, mut z) = (x, 1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut x, mut y, mut z) = (x, 1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x).powi(2) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

/// Austin Appleby's MurmurHash2 for 64 bits, variant A, with Redis's seed.
fn murmur(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    const SEED: u64 = 0xadc8_3b19;
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(FACTOR);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(FACTOR);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(FACTOR)).wrapping_mul(FACTOR);
    }
    if !rest.is_empty() {
        let tail = rest.iter().rev().fold(0_u64, |tail, &byte| tail << 8 | u64::from(byte));
        hash = (hash ^ tail).wrapping_mul(FACTOR);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(FACTOR);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_near_the_number_of_elements_in_both_forms() {
        let mut text = empty();
        for number in 0..50_000_u32 {
            add(&mut text, &number.to_le_bytes()).unwrap();
            if [100, 1_000, 49_999].contains(&number) {
                let (counted, added) = (count(&text).unwrap() as f64, f64::from(number + 1));
                assert!((counted / added - 1.0).abs() < 0.02, "{counted} of {added}");
                assert_eq!(is_dense(&text), number > 1_000);
            }
        }
    }

    #[test]
    fn the_dense_form_keeps_the_registers_of_the_sparse_one() {
        let mut sparse = empty();
        (0..500_u32).for_each(|number| _ = add(&mut sparse, &number.to_le_bytes()));
        let mut dense = sparse.clone();
        make_dense(&mut dense).unwrap();
        assert!(is_valid(&sparse) && is_valid(&dense) && is_dense(&dense));
        assert_eq!(count(&sparse), count(&dense));
        (0..500_u32).for_each(|number| assert_eq!(add(&mut dense, &number.to_le_bytes()), Ok(false)));
    }

    #[test]
    fn runs_that_do_not_cover_all_registers_are_corrupt() {
        let mut text = empty();
        text.pop();
        assert_eq!(count(&text), Err(Corrupt));
        assert_eq!(make_dense(&mut text), Err(Corrupt));
        assert_eq!(raise(&mut text, REGISTERS - 1, 1), Err(Corrupt));
    }
}
