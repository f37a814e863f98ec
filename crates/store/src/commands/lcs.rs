//! LCS: the longest common subsequence of two strings.

use resp::Request;

use crate::args::{integer, is};
use crate::error::Error;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::text::TEXT_BYTES_MAX;

type Done = Result<(), Error>;
type Text = Vec<u8>;

pub(crate) fn lcs(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let text = |key: &[u8]| keyspace.peek_at::<Text>(key).map_err(|_| Error::LCS_NOT_STRINGS);
    let (one, other) = (text(request.arg(1)), text(request.arg(2)));
    let (one, other) = (one?, other?);
    let options = Options::parse(request)?;
    let (one, other) = (one.map_or(&[][..], Vec::as_slice), other.map_or(&[][..], Vec::as_slice));
    let shows_len_only = options.shows_len && !options.shows_ranges;
    let keeps = if shows_len_only { Keeps::Last } else { Keeps::All };
    let table = Lengths::new(one, other, keyspace.memory_max, keeps)?;
    if shows_len_only {
        out.integer(table.len() as i64);
        return Ok(());
    }
    let (common, matches) = table.walk();
    if options.shows_ranges {
        options.write_ranges(&matches, table.len(), out);
    } else {
        out.bulk(&common);
    }
    Ok(())
}

#[derive(Default)]
struct Options {
    shows_len: bool,
    shows_ranges: bool,
    shows_match_len: bool,
    match_len_min: i64,
}

impl Options {
    fn parse(request: &Request<'_>) -> Result<Options, Error> {
        let mut options = Options::default();
        let mut at = 3;
        while let Some(word) = request.get(at) {
            match request.get(at + 1) {
                _ if is(word, "IDX") => options.shows_ranges = true,
                _ if is(word, "LEN") => options.shows_len = true,
                _ if is(word, "WITHMATCHLEN") => options.shows_match_len = true,
                Some(len) if is(word, "MINMATCHLEN") => {
                    options.match_len_min = integer(len)?;
                    at += 1;
                }
                _ => return Err(Error::Syntax),
            }
            at += 1;
        }
        if options.shows_ranges && options.shows_len {
            return Err(Error::LCS_LEN_AND_IDX);
        }
        Ok(options)
    }

    fn write_ranges(&self, matches: &[Match], len: usize, out: &mut Reply) {
        let is_long = |one: &&Match| i64::try_from(one.len).is_ok_and(|len| len >= self.match_len_min);
        out.map(2);
        out.bulk(b"matches");
        out.array(matches.iter().filter(is_long).count());
        for found in matches.iter().filter(is_long) {
            out.array(2 + usize::from(self.shows_match_len));
            for start in [found.one, found.other] {
                out.array(2);
                out.integer(start as i64);
                out.integer((start + found.len - 1) as i64);
            }
            if self.shows_match_len {
                out.integer(found.len as i64);
            }
        }
        out.bulk(b"len");
        out.integer(len as i64);
    }
}

/// A common range: its start in each string, and its length.
struct Match {
    one: usize,
    other: usize,
    len: usize,
}

/// Lengths of the longest common subsequences of all prefixes of one text with all prefixes of the other.
///
/// From one column to the next this length grows by one or stays. A row therefore needs one bit for each column: zero where the
/// length grows. One operation computes 64 columns (Crochemore, Iliopoulos, Pinzon and Reid, 2001). The shorter text has the
/// columns.
struct Lengths<'t> {
    one: &'t [u8],
    other: &'t [u8],
    /// The columns are those of `one`.
    is_turned: bool,
    /// Words of a row.
    width: usize,
    /// The rows: all, or only the last.
    rows: Vec<u64>,
}

/// The rows that are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Keeps {
    All,
    Last,
}

impl<'t> Lengths<'t> {
    /// Refuses the request where Redis does: if four bytes for each pair of prefixes exceed the longest string, or the store's
    /// memory.
    fn new(one: &'t [u8], other: &'t [u8], memory_max: usize, keeps: Keeps) -> Result<Lengths<'t>, Error> {
        let cells = (one.len() + 1).checked_mul(other.len() + 1);
        let bytes = cells.and_then(|cells| cells.checked_mul(size_of::<u32>()));
        if bytes.is_none_or(|bytes| bytes > TEXT_BYTES_MAX.min(memory_max)) {
            return Err(Error::LCS_MEMORY);
        }
        let is_turned = one.len() < other.len();
        let (long, short) = if is_turned { (other, one) } else { (one, other) };
        let width = short.len().div_ceil(64);
        let places = places(short, width);
        let mut rows = Vec::with_capacity(if keeps == Keeps::All { width * long.len() } else { width });
        let mut row = vec![u64::MAX; width];
        for &byte in long {
            advance(&mut row, &places[usize::from(byte)]);
            if keeps == Keeps::All {
                rows.extend_from_slice(&row);
            }
        }
        if keeps == Keeps::Last {
            rows = row;
        }
        Ok(Lengths { one, other, is_turned, width, rows })
    }

    fn len(&self) -> usize {
        let rows = self.rows.len().checked_div(self.width).unwrap_or(0);
        self.grown(rows, self.one.len().min(self.other.len()))
    }

    fn at(&self, one: usize, other: usize) -> usize {
        if self.is_turned { self.grown(other, one) } else { self.grown(one, other) }
    }

    /// Growth of the length over the first `columns` of row number `row`, from 1.
    fn grown(&self, row: usize, columns: usize) -> usize {
        let Some(start) = row.checked_sub(1).map(|row| row * self.width) else { return 0 };
        let (words, bits) = (columns / 64, columns % 64);
        let whole: u32 = self.rows[start..start + words].iter().map(|word| word.count_zeros()).sum();
        let rest = if bits == 0 { 0 } else { (self.rows[start + words] | u64::MAX << bits).count_zeros() };
        (whole + rest) as usize
    }

    /// Walks from the end to the beginning, as Redis does. Of several answers this gives the same one.
    fn walk(&self) -> (Vec<u8>, Vec<Match>) {
        let (mut common, mut matches) = (Vec::new(), Vec::<Match>::new());
        let (mut row, mut column) = (self.one.len(), self.other.len());
        // Whether the last match can still grow at its front.
        let mut is_open = false;
        while row > 0 && column > 0 {
            if self.one[row - 1] == self.other[column - 1] {
                common.push(self.one[row - 1]);
                match matches.last_mut() {
                    Some(last) if is_open && last.one == row && last.other == column => {
                        *last = Match { one: row - 1, other: column - 1, len: last.len + 1 };
                    }
                    _ => matches.push(Match { one: row - 1, other: column - 1, len: 1 }),
                }
                is_open = true;
                (row, column) = (row - 1, column - 1);
            } else {
                is_open = false;
                if self.at(row - 1, column) > self.at(row, column - 1) { row -= 1 } else { column -= 1 }
            }
        }
        common.reverse();
        (common, matches)
    }
}

/// For each byte that occurs in `text`, a bit for each of its positions.
fn places(text: &[u8], width: usize) -> Vec<Vec<u64>> {
    let mut places = vec![Vec::new(); 256];
    for (at, &byte) in text.iter().enumerate() {
        let places: &mut Vec<u64> = &mut places[usize::from(byte)];
        places.resize(width, 0);
        places[at / 64] |= 1 << (at % 64);
    }
    places
}

/// Computes the row below `row` for a byte that occurs at `places`.
fn advance(row: &mut [u64], places: &[u64]) {
    let mut carry = false;
    for (word, places) in row.iter_mut().zip(places) {
        let both = *word & places;
        let (sum, first) = word.overflowing_add(both);
        let (sum, second) = sum.overflowing_add(u64::from(carry));
        carry = first | second;
        *word = sum | (*word & !places);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stdx::Prng;

    /// The length of the longest common subsequence, computed cell by cell.
    fn length(one: &[u8], other: &[u8]) -> usize {
        let mut row = vec![0_usize; other.len() + 1];
        for byte in one {
            let mut corner = 0;
            for (column, other_byte) in other.iter().enumerate() {
                let above = row[column + 1];
                row[column + 1] = if byte == other_byte { corner + 1 } else { above.max(row[column]) };
                corner = above;
            }
        }
        row[other.len()]
    }

    #[test]
    fn lengths_of_all_prefixes_equal_the_plain_table() {
        let mut prng = Prng::new(17);
        for _ in 0..200 {
            let mut text = |len: u64| {
                let len = prng.below(len) as usize;
                (0..len).map(|_| b'a' + prng.below(3) as u8).collect::<Vec<u8>>()
            };
            let (one, other) = (text(200), text(140));
            let all = Lengths::new(&one, &other, usize::MAX, Keeps::All).expect("fits");
            let last = Lengths::new(&one, &other, usize::MAX, Keeps::Last).expect("fits");
            assert_eq!((all.len(), last.len()), (length(&one, &other), length(&one, &other)));
            for (row, column) in
                [(one.len() / 2, other.len()), (one.len(), other.len() / 3), (0, other.len())]
            {
                assert_eq!(all.at(row, column), length(&one[..row], &other[..column]));
            }
            assert_eq!(all.walk().0.len(), all.len());
        }
    }
}
