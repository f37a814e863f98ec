//! Mixes of kinds of requests: the user's, and YCSB's. Pure.

use crate::keys::{Keys, ZIPF_DEFAULT};
use crate::kinds::{Check, Kind};
use crate::template::Template;
use crate::trace::Trace;

/// Kinds with weights.
#[derive(Clone, Debug)]
pub(crate) struct Mix {
    pub(crate) kinds: Vec<Kind>,
    /// Weights, each with those before it.
    pub(crate) weights: Vec<u64>,
    /// The distribution of keys that belongs to the mix.
    pub(crate) keys: Option<Keys>,
    /// The requests that write one key each, for keys in sequence.
    pub(crate) load: Kind,
}

/// Kinds in a mix.
const KINDS_MAX: usize = 64;
/// Larger weights could overflow their sum.
const WEIGHT_MAX: u64 = 1_000_000_000;

impl Mix {
    fn new(weighted: Vec<(Kind, u64)>, keys: Option<Keys>, load: Kind) -> Mix {
        let mut sum = 0;
        let summed = weighted.into_iter().map(|(kind, weight)| {
            sum += weight;
            (kind, sum)
        });
        let (kinds, weights) = summed.unzip();
        Mix { kinds, weights, keys, load }
    }

    /// `get:80,set:15,mget10:5`. A kind without a weight has 1.
    pub(crate) fn parse(text: &str, is_cluster: bool) -> Result<Mix, String> {
        let weighted = |part: &str| {
            let (name, weight) = part.split_once(':').unwrap_or((part, "1"));
            let weight = weight.parse().ok().filter(|weight| (1..=WEIGHT_MAX).contains(weight));
            let weight = weight.ok_or_else(|| format!("{part}: write a weight from 1 to {WEIGHT_MAX}"))?;
            Ok((Kind::named(name, is_cluster)?, weight))
        };
        let kinds = text.split(',').map(weighted).collect::<Result<Vec<_>, String>>()?;
        if kinds.len() > KINDS_MAX {
            return Err(format!("a mix has at most {KINDS_MAX} kinds"));
        }
        Ok(Mix::new(kinds, None, Kind::named("set", is_cluster)?))
    }

    /// One kind.
    pub(crate) fn only(kind: Kind, is_cluster: bool) -> Result<Mix, String> {
        Ok(Mix::new(vec![(kind, 1)], None, Kind::named("set", is_cluster)?))
    }

    /// The commands of a trace, which has the requests themselves.
    pub(crate) fn traced(trace: &Trace) -> Result<Mix, String> {
        let kind = |name: &String| Kind {
            name: name.clone(),
            template: Template::fixed(b"", 1),
            check: Check::Anything,
        };
        let kinds = trace.names.iter().map(|name| (kind(name), 1)).collect();
        Ok(Mix::new(kinds, None, Kind::named("set", false)?))
    }

    /// YCSB's workload `ycsb-a` to `ycsb-f`. A record is a hash of ten fields, and has a place in one sorted set.
    pub(crate) fn ycsb(name: &str) -> Result<Mix, String> {
        let zipf = Keys::Zipf(ZIPF_DEFAULT);
        let (parts, keys): (&[(&str, u64)], Keys) = match name {
            "ycsb-a" => (&[("READ", 50), ("UPDATE", 50)], zipf),
            "ycsb-b" => (&[("READ", 95), ("UPDATE", 5)], zipf),
            "ycsb-c" => (&[("READ", 100)], zipf),
            "ycsb-d" => (&[("READ", 95), ("INSERT", 5)], Keys::Latest(ZIPF_DEFAULT)),
            "ycsb-e" => (&[("SCAN", 95), ("INSERT", 5)], zipf),
            "ycsb-f" => (&[("READ", 50), ("READ-MODIFY-WRITE", 50)], zipf),
            _ => {
                return Err(format!(
                    "--workload {name}: write ycsb-a, ycsb-b, ycsb-c, ycsb-d, ycsb-e or ycsb-f"
                ));
            }
        };
        let weighted = parts.iter().map(|&(part, weight)| (record_kind(part, "__new__"), weight)).collect();
        Ok(Mix::new(weighted, Some(keys), record_kind("INSERT", "__rand_int__")))
    }
}

/// Fields of a record, as YCSB has them.
const FIELDS: usize = 10;
/// Records of a scan: the mean of YCSB's, whose lengths are even from 1 to 100.
const SCAN_RECORDS: usize = 50;

/// One of YCSB's kinds of requests. An insertion writes the record whose number `inserted` stands for.
fn record_kind(name: &str, inserted: &str) -> Kind {
    let words = |text: String| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let requests = match name {
        "READ" => vec!["HGETALL user:__rand_int__".to_owned()],
        "UPDATE" => vec!["HSET user:__rand_int__ field__digit__ __data__".to_owned()],
        "INSERT" => {
            let fields: String = (0..FIELDS).map(|field| format!(" field{field} __data__")).collect();
            vec![format!("HSET user:{inserted}{fields}"), "ZADD users __again__ user:__again__".to_owned()]
        }
        "SCAN" => {
            let index = format!("ZRANGEBYSCORE users __rand_int__ +inf LIMIT 0 {SCAN_RECORDS}");
            let first = "HGETALL user:__again__".to_owned();
            let others = std::iter::repeat_n("HGETALL user:__next__".to_owned(), SCAN_RECORDS - 1);
            [index, first].into_iter().chain(others).collect()
        }
        _ => vec![
            "HGETALL user:__rand_int__".to_owned(),
            "HSET user:__again__ field__digit__ __data__".to_owned(),
        ],
    };
    let requests: Vec<_> = requests.into_iter().map(words).collect();
    Kind::of(name, &requests, Check::Anything, false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_summed_up() {
        let mix = Mix::parse("get:80,set:15,mget10:5,ping", false).expect("valid");
        assert_eq!(mix.weights, [80, 95, 100, 101]);
        assert_eq!(mix.kinds[2].name, "MGET10");
        assert_eq!(mix.kinds[2].template.numbers(), 10);
    }

    #[test]
    fn wrong_mixes_are_refused() {
        for text in ["", "get:0", "get:x", "nosuch:1", "get:1,", "get:2000000000"] {
            assert!(Mix::parse(text, false).is_err(), "{text}");
        }
        assert!(Mix::ycsb("ycsb-g").is_err());
    }

    #[test]
    fn the_workloads_of_ycsb_have_their_shares() {
        let shares = |name: &str| {
            let mix = Mix::ycsb(name).expect("known");
            let names: Vec<String> = mix.kinds.iter().map(|kind| kind.name.clone()).collect();
            (names.join(" "), mix.weights)
        };
        assert_eq!(shares("ycsb-a"), ("READ UPDATE".to_owned(), vec![50, 100]));
        assert_eq!(shares("ycsb-e"), ("SCAN INSERT".to_owned(), vec![95, 100]));
        assert_eq!(Mix::ycsb("ycsb-d").expect("known").keys, Some(Keys::Latest(ZIPF_DEFAULT)));
        let replies = |name: &str| record_kind(name, "__new__").template.replies;
        assert_eq!(["READ", "INSERT", "SCAN", "READ-MODIFY-WRITE"].map(replies), [1, 2, 51, 2]);
    }
}
