//! Sizes of values, and values. Pure.

use crate::random::Random;
use rand_distr::{Distribution, Normal, Zipf};
use std::str::FromStr;

/// Sizes of values in bytes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Sizes {
    /// All alike.
    Fixed(usize),
    /// Evenly from the first to the second.
    Uniform(usize, usize),
    /// Around the middle between both; the deviation is a sixth of the distance.
    Gaussian(usize, usize),
    /// By Zipf: small ones are the most frequent.
    Zipf(usize, usize),
    /// Each with a weight.
    Listed(Vec<(usize, u64)>),
}

/// Bytes of a value: the limit of Redis.
pub(crate) const SIZE_MAX: usize = 512 * 1024 * 1024;
const FORMS: &str =
    "write bytes as 100, 10-1000, gaussian:10-1000, zipf:10-1000 or 100@9,10000@1 (size@weight)";
/// Larger weights could overflow their sum.
const WEIGHT_MAX: u64 = 1_000_000;

impl FromStr for Sizes {
    type Err = String;

    fn from_str(text: &str) -> Result<Sizes, String> {
        if text.contains('@') {
            return text.split(',').map(listed).collect::<Result<_, _>>().map(Sizes::Listed);
        }
        if let Some((name, range)) = text.split_once(':') {
            let (min, max) = bounds(range)?;
            return match name {
                "uniform" => Ok(Sizes::Uniform(min, max)),
                "gaussian" => Ok(Sizes::Gaussian(min, max)),
                "zipf" => Ok(Sizes::Zipf(min, max)),
                _ => Err(FORMS.to_owned()),
            };
        }
        match text.contains('-') {
            true => bounds(text).map(|(min, max)| Sizes::Uniform(min, max)),
            false => size(text).map(Sizes::Fixed),
        }
    }
}

fn size(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&size| size <= SIZE_MAX).ok_or_else(|| FORMS.to_owned())
}

fn bounds(text: &str) -> Result<(usize, usize), String> {
    let (min, max) = text.split_once('-').ok_or(FORMS)?;
    let (min, max) = (size(min)?, size(max)?);
    if min <= max { Ok((min, max)) } else { Err(format!("{text}: the first size is above the second")) }
}

fn listed(text: &str) -> Result<(usize, u64), String> {
    let (bytes, weight) = text.split_once('@').ok_or(FORMS)?;
    let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
    Ok((size(bytes)?, weight.ok_or_else(|| format!("{text}: write a weight from 1 to {WEIGHT_MAX}"))?))
}

impl Sizes {
    /// The largest size.
    pub(crate) fn max(&self) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Uniform(_, max) | Sizes::Gaussian(_, max) | Sizes::Zipf(_, max) => *max,
            Sizes::Listed(sizes) => sizes.iter().map(|(size, _)| *size).max().unwrap_or(0),
        }
    }

    /// Whether a value may have this size.
    pub(crate) fn permit(&self, len: usize) -> bool {
        match self {
            Sizes::Fixed(size) => len == *size,
            Sizes::Uniform(min, max) | Sizes::Gaussian(min, max) | Sizes::Zipf(min, max) => {
                (*min..=*max).contains(&len)
            }
            Sizes::Listed(sizes) => sizes.iter().any(|(size, _)| *size == len),
        }
    }

    /// The next size.
    pub(crate) fn draw(&self, random: &mut Random) -> usize {
        match self {
            Sizes::Fixed(size) => *size,
            Sizes::Uniform(min, max) => min + random.below((max - min) as u64 + 1) as usize,
            Sizes::Gaussian(min, max) => {
                let (mean, deviation) = ((min + max) as f64 / 2.0, (max - min) as f64 / 6.0);
                let drawn = Normal::new(mean, deviation).map_or(mean, |normal| normal.sample(random));
                (drawn.max(0.0) as usize).clamp(*min, *max)
            }
            Sizes::Zipf(min, max) => {
                let drawn = Zipf::new((max - min) as f64 + 1.0, 1.0).map_or(1.0, |zipf| zipf.sample(random));
                (min + (drawn as usize).saturating_sub(1)).min(*max)
            }
            Sizes::Listed(sizes) => {
                let mut at = random.below(sizes.iter().map(|(_, weight)| weight).sum());
                let found = sizes.iter().find(|(_, weight)| {
                    let is_here = at < *weight;
                    at = at.saturating_sub(*weight);
                    is_here
                });
                found.map_or(0, |(size, _)| *size)
            }
        }
    }
}

/// The bytes of values.
#[derive(Clone, Debug)]
pub(crate) enum Values {
    /// The beginning of random text.
    Random(Vec<u8>),
    /// Bytes that follow from the key, so that a reply shows whether its value is the right one.
    Stamped,
}

/// Bytes of one stamp.
const STAMP_BYTES: usize = 16;

impl Values {
    /// Random text for values of up to `size_max` bytes.
    pub(crate) fn random(size_max: usize, random: &mut Random) -> Values {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-";
        Values::Random((0..size_max).map(|_| LETTERS[random.below(LETTERS.len() as u64) as usize]).collect())
    }

    /// Appends the value of `len` bytes for the key `number`.
    pub(crate) fn write(&self, number: u64, len: usize, out: &mut Vec<u8>) {
        match self {
            Values::Random(text) => out.extend_from_slice(&text[..len.min(text.len())]),
            Values::Stamped => {
                let end = out.len() + len;
                let mut block = 0;
                while out.len() < end {
                    let stamp = stamp(number, block);
                    out.extend_from_slice(&stamp[..STAMP_BYTES.min(end - out.len())]);
                    block += 1;
                }
            }
        }
    }
}

/// Whether `value` is the stamped value of the key `number`, of whatever length.
pub(crate) fn is_stamped(number: u64, value: &[u8]) -> bool {
    (0..).zip(value.chunks(STAMP_BYTES)).all(|(block, piece)| stamp(number, block)[..piece.len()] == *piece)
}

/// The stamp of one block: the key, and the block's number. The key's last digit comes first, so that short values differ too.
fn stamp(number: u64, block: u64) -> [u8; STAMP_BYTES] {
    let mut stamp = [b'.'; STAMP_BYTES];
    write_digits(number, &mut stamp[..12]);
    stamp[..12].reverse();
    write_digits(block, &mut stamp[12..15]);
    stamp
}

/// Writes the last decimal digits of `number` into all of `place`, with leading zeros.
pub(crate) fn write_digits(mut number: u64, place: &mut [u8]) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// The last twelve decimal digits of `number`: those of a key. Divisions of two halves do not wait for each other. With filled-in
/// values (`Template::settled`), a pipelined MSET of ten keys costs a quarter less processor time than with [`write_digits`].
#[inline]
pub(crate) fn key_digits(number: u64) -> [u8; 12] {
    let number = number % 1_000_000_000_000;
    let (high, low) = ((number / 1_000_000) as u32, (number % 1_000_000) as u32);
    let mut digits = [0; 12];
    for (at, half) in [(0, high), (6, low)] {
        let pairs = [half / 10_000, half / 100 % 100, half % 100];
        for (pair, value) in pairs.into_iter().enumerate() {
            digits[at + 2 * pair] = b'0' + (value / 10) as u8;
            digits[at + 2 * pair + 1] = b'0' + (value % 10) as u8;
        }
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(text: &str) -> Vec<usize> {
        let (sizes, mut random) = (text.parse::<Sizes>().expect("valid"), Random::new(1));
        let drawn: Vec<usize> = (0..10_000).map(|_| sizes.draw(&mut random)).collect();
        assert!(drawn.iter().all(|&size| sizes.permit(size)), "{text}");
        assert!(drawn.iter().all(|&size| size <= sizes.max()), "{text}");
        drawn
    }

    #[test]
    fn sizes_follow_their_distribution() {
        assert!(drawn("100").iter().all(|&size| size == 100));
        let uniform = drawn("10-19");
        assert!((10..20).all(|size| uniform.contains(&size)));
        let small = drawn("zipf:1-1000").iter().filter(|&&size| size == 1).count();
        assert!((1_200..1_500).contains(&small), "1 of 7.485: {small}");
        let middle = drawn("gaussian:0-600").iter().filter(|size| (200..=400).contains(*size)).count();
        assert!((6_600..7_050).contains(&middle), "{middle}");
        let large = drawn("1@9,100@1").iter().filter(|&&size| size == 100).count();
        assert!((900..1_100).contains(&large), "{large}");
    }

    #[test]
    fn senseless_sizes_are_refused() {
        for text in ["", "-1", "9-3", "x", "zipf:3", "pareto:1-2", "3@0", "3@", "536870913", "1@1,2"] {
            assert!(text.parse::<Sizes>().is_err(), "{text}");
        }
    }

    #[test]
    fn both_ways_to_write_digits_agree() {
        for number in [0, 7, 999_999, 1_000_000, 123_456_789_012, 999_999_999_999, u64::MAX] {
            let mut digits = [0; 12];
            write_digits(number, &mut digits);
            assert_eq!(key_digits(number), digits, "{number}");
        }
    }

    #[test]
    fn stamped_values_are_known_by_their_key() {
        let value = |number, len| {
            let mut out = Vec::new();
            Values::Stamped.write(number, len, &mut out);
            out
        };
        assert_eq!(value(7, 20), b"700000000000000.7000");
        for len in [0, 1, 16, 100, 20_000] {
            assert!(is_stamped(7, &value(7, len)));
        }
        assert!(!is_stamped(8, &value(7, 100)));
        let mut wrong = value(7, 100);
        wrong.swap(30, 60);
        assert!(!is_stamped(7, &wrong));
    }
}
