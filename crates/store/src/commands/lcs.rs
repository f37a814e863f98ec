//! LCS: the longest bytes that two strings have in common, in order but not in one piece.

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
    let table = Lengths::new(one, other, keyspace.memory_max)?;
    if options.shows_len && !options.shows_ranges {
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

/// A piece that both have: where it starts in each, and its length.
struct Match {
    one: usize,
    other: usize,
    len: usize,
}

/// The length of the longest common bytes of every beginning of one text with every beginning of the other.
struct Lengths<'t> {
    one: &'t [u8],
    other: &'t [u8],
    cells: Vec<u32>,
}

impl<'t> Lengths<'t> {
    /// Costs time and memory by the product of both lengths: refused if that is more than a string may have, as in
    /// Redis, or more than the store has.
    fn new(one: &'t [u8], other: &'t [u8], memory_max: usize) -> Result<Lengths<'t>, Error> {
        let width = other.len() + 1;
        let bytes = width.checked_mul(one.len() + 1).and_then(|cells| cells.checked_mul(size_of::<u32>()));
        if bytes.is_none_or(|bytes| bytes > TEXT_BYTES_MAX.min(memory_max)) {
            return Err(Error::LCS_MEMORY);
        }
        let mut cells = vec![0; width * (one.len() + 1)];
        for (row, byte) in one.iter().enumerate() {
            let (above, below) = cells.split_at_mut((row + 1) * width);
            let above = &above[row * width..];
            for (column, other_byte) in other.iter().enumerate() {
                below[column + 1] =
                    if byte == other_byte { above[column] + 1 } else { above[column + 1].max(below[column]) };
            }
        }
        Ok(Lengths { one, other, cells })
    }

    fn len(&self) -> usize {
        self.at(self.one.len(), self.other.len()) as usize
    }

    fn at(&self, row: usize, column: usize) -> u32 {
        self.cells[row * (self.other.len() + 1) + column]
    }

    /// From the end to the beginning, as Redis goes: of several answers it decides which one is given.
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
