//! Numbers of keys by a distribution. Pure: randomness comes from a seed.

use crate::random::Random;
use rand_distr::{Distribution, Normal, Zipf};
use std::str::FromStr;

/// The distribution of keys over the keyspace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Keys {
    /// All keys are equally likely.
    Uniform,
    /// Key n is drawn with a probability of n to the power of minus this.
    Zipf(f64),
    /// The most recently inserted keys are the likeliest, by Zipf.
    Latest(f64),
    /// Around the middle of the keyspace; the deviation is a sixth of it, so that nearly all fall inside.
    Gaussian,
    /// One after the other, in turn.
    Sequential,
    /// A share of the keys gets a share of the requests; the rest is uniform.
    HotSet {
        /// Share of the keys, from 0 to 1.
        keys: f64,
        /// Share of the requests, from 0 to 1.
        requests: f64,
    },
}

const FORMS: &str =
    "write uniform, zipf:0.99, latest, gaussian, sequential or hotset:10%:90% (keys, requests)";
/// YCSB's exponent.
pub(crate) const ZIPF_DEFAULT: f64 = 0.99;
/// Above this, one key has nearly all requests.
const ZIPF_MAX: f64 = 10.0;

impl FromStr for Keys {
    type Err = String;

    fn from_str(text: &str) -> Result<Keys, String> {
        let (name, rest) = text.split_once(':').map_or((text, None), |(name, rest)| (name, Some(rest)));
        let exponent = || match rest.unwrap_or("0.99").parse() {
            Ok(exponent) if exponent > 0.0 && exponent <= ZIPF_MAX => Ok(exponent),
            _ => Err(format!("write an exponent above 0, up to {ZIPF_MAX}")),
        };
        match (name, rest) {
            ("uniform", None) => Ok(Keys::Uniform),
            ("gaussian", None) => Ok(Keys::Gaussian),
            ("sequential", None) => Ok(Keys::Sequential),
            ("zipf", _) => exponent().map(Keys::Zipf),
            ("latest", _) => exponent().map(Keys::Latest),
            ("hotset", rest) => {
                let (keys, requests) = rest.unwrap_or("10%:90%").split_once(':').ok_or(FORMS)?;
                Ok(Keys::HotSet { keys: share(keys)?, requests: share(requests)? })
            }
            _ => Err(FORMS.to_owned()),
        }
    }
}

/// `10%` or `0.1`.
fn share(text: &str) -> Result<f64, String> {
    let share = match text.strip_suffix('%') {
        Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
        None => text.parse().ok(),
    };
    share
        .filter(|share| (0.0..=1.0).contains(share))
        .ok_or_else(|| format!("{text}: write a share as 10% or 0.1"))
}

/// Draws numbers of keys below a bound.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    way: Way,
    keyspace: u64,
    /// Keys that exist: insertions make it grow.
    inserted: u64,
    /// The next number in sequence, and the distance to the one after it.
    next: u64,
    step: u64,
}

#[derive(Clone, Debug)]
enum Way {
    Uniform,
    Zipf(Zipf<f64>),
    Latest(Zipf<f64>),
    Gaussian(Normal<f64>),
    Sequential,
    HotSet { hot: u64, requests: f64 },
}

impl Sampler {
    /// The sampler of thread `thread` of `threads` that divide a sequence among them.
    pub(crate) fn new(keys: Keys, keyspace: u64, thread: u64, threads: u64) -> Sampler {
        let count = keyspace.max(1);
        let zipf = |exponent: f64| {
            Zipf::new(count as f64, exponent).expect("a keyspace of 1 at least, a checked exponent")
        };
        let way = match keys {
            Keys::Uniform => Way::Uniform,
            Keys::Zipf(exponent) => Way::Zipf(zipf(exponent)),
            Keys::Latest(exponent) => Way::Latest(zipf(exponent)),
            Keys::Gaussian => {
                let (mean, deviation) = (count as f64 / 2.0, count as f64 / 6.0);
                Way::Gaussian(Normal::new(mean, deviation).expect("a finite deviation"))
            }
            Keys::Sequential => Way::Sequential,
            Keys::HotSet { keys, requests } => {
                Way::HotSet { hot: ((count as f64 * keys) as u64).clamp(1, count), requests }
            }
        };
        Sampler { way, keyspace: count, inserted: count, next: thread, step: threads.max(1) }
    }

    /// The next number.
    pub(crate) fn draw(&mut self, random: &mut Random) -> u64 {
        match &self.way {
            Way::Uniform => random.below(self.keyspace),
            Way::Zipf(zipf) => rank(zipf.sample(random)).min(self.keyspace - 1),
            Way::Latest(zipf) => (self.inserted - 1).saturating_sub(rank(zipf.sample(random))),
            Way::Gaussian(normal) => (normal.sample(random).max(0.0) as u64).min(self.keyspace - 1),
            Way::Sequential => {
                let number = self.next % self.keyspace;
                self.next += self.step;
                number
            }
            Way::HotSet { hot, requests } => {
                let cold = self.keyspace - hot;
                if cold == 0 || random.share() < *requests {
                    random.below(*hot)
                } else {
                    hot + random.below(cold)
                }
            }
        }
    }

    /// The number of a key that does not exist yet. Threads take turns, so that no two insert one key.
    pub(crate) fn insert(&mut self) -> u64 {
        let number = self.keyspace + self.next;
        self.next += self.step;
        self.inserted = number + 1;
        number
    }
}

/// Zipf's ranks begin with 1.
fn rank(drawn: f64) -> u64 {
    (drawn as u64).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DRAWS: usize = 100_000;

    fn counts(keys: &str, keyspace: u64) -> Vec<usize> {
        let mut sampler = Sampler::new(keys.parse().expect("valid"), keyspace, 0, 1);
        let (mut random, mut counts) = (Random::new(7), vec![0; keyspace as usize]);
        (0..DRAWS).for_each(|_| counts[sampler.draw(&mut random) as usize] += 1);
        counts
    }

    fn share_of(counts: &[usize]) -> f64 {
        counts.iter().sum::<usize>() as f64 / DRAWS as f64
    }

    #[test]
    fn uniform_keys_are_equally_likely() {
        assert!(counts("uniform", 10).iter().all(|count| (9_500..10_500).contains(count)));
    }

    #[test]
    fn zipf_follows_its_exponent() {
        let counts = counts("zipf:1", 1000);
        // The sum of 1/n up to 1000 is 7.485.
        assert!((share_of(&counts[..1]) - 1.0 / 7.485).abs() < 0.005, "{}", counts[0]);
        assert!((counts[0] as f64 / counts[9] as f64 / 10.0 - 1.0).abs() < 0.1);
    }

    #[test]
    fn gaussian_keys_are_around_the_middle() {
        let counts = counts("gaussian", 600);
        assert!((share_of(&counts[200..400]) - 0.6827).abs() < 0.01, "one deviation to both sides");
    }

    #[test]
    fn hot_keys_get_their_share() {
        let counts = counts("hotset:10%:0.9", 100);
        assert!((share_of(&counts[..10]) - 0.9).abs() < 0.01);
        assert!(counts.iter().all(|&count| count > 0));
    }

    #[test]
    fn threads_divide_a_sequence() {
        let mut random = Random::new(1);
        let mut draws = |thread| {
            let mut sampler = Sampler::new(Keys::Sequential, 5, thread, 2);
            [(); 4].map(|()| sampler.draw(&mut random))
        };
        assert_eq!([draws(0), draws(1)], [[0, 2, 4, 1], [1, 3, 0, 2]]);
    }

    #[test]
    fn the_latest_keys_follow_insertions() {
        let mut sampler = Sampler::new(Keys::Latest(ZIPF_DEFAULT), 1000, 0, 1);
        assert_eq!([sampler.insert(), sampler.insert()], [1000, 1001]);
        let mut random = Random::new(3);
        let drawn: Vec<u64> = (0..1000).map(|_| sampler.draw(&mut random)).collect();
        assert!(drawn.contains(&1001) && drawn.iter().all(|&number| number <= 1001));
        assert!(drawn.iter().filter(|&&number| number > 900).count() > 500);
    }

    #[test]
    fn unknown_distributions_are_refused() {
        for text in ["", "zipf:0", "zipf:x", "uniform:3", "hotset:2:0.5", "hotset:5%", "pareto"] {
            assert!(text.parse::<Keys>().is_err(), "{text}");
        }
    }
}
