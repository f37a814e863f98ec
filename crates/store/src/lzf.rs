//! LZF, in which Redis compresses strings in dumps: pieces that came before are named by their distance.
//!
//! A byte below 32 says how many bytes follow as they are, less one. Any other is a length of three bits and the upper
//! five bits of a distance, with another byte of length if the three bits are all set.

/// Decompresses `bytes`, which must make exactly `len`. `None` if they do not.
pub(crate) fn decompress(bytes: &[u8], len: usize) -> Option<Vec<u8>> {
    // Nothing is allocated because somebody announces it.
    if len / EXPANSION_MAX > bytes.len() {
        return None;
    }
    let mut out = Vec::with_capacity(len);
    let mut at = 0;
    while let Some(&control) = bytes.get(at) {
        at += 1;
        if control < LITERAL_MAX {
            let end = at + usize::from(control) + 1;
            out.extend_from_slice(bytes.get(at..end)?);
            at = end;
        } else {
            let mut count = usize::from(control >> 5);
            if count == 7 {
                count += usize::from(*bytes.get(at)?);
                at += 1;
            }
            let distance = (usize::from(control & 0x1f) << 8 | usize::from(*bytes.get(at)?)) + 1;
            at += 1;
            let from = out.len().checked_sub(distance)?;
            // It may reach into what it makes itself.
            (from..from + count + 2).for_each(|place| out.push(out[place]));
        }
        if out.len() > len {
            return None;
        }
    }
    (out.len() == len).then_some(out)
}

const LITERAL_MAX: u8 = 32;

/// Three bytes make 264 at most.
const EXPANSION_MAX: usize = 88;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_came_before_are_repeated() {
        assert_eq!(decompress(b"\x02abc\x60\x02", 8).as_deref(), Some(&b"abcabcab"[..]));
        assert_eq!(decompress(b"\x00a\xe0\x02\x00", 12).as_deref(), Some(&b"aaaaaaaaaaaa"[..]));
    }

    #[test]
    fn what_does_not_fit_is_none() {
        for (bytes, len) in [
            (&b"\x02abc"[..], 4),
            (b"\x02abc", 2),
            (b"\x05abc", 6),
            (b"\x20\x00", 3),
            (b"\x00a\xe0", 10),
            (b"\x00a", 1 << 40),
        ] {
            assert_eq!(decompress(bytes, len), None, "{bytes:?}");
        }
    }
}
