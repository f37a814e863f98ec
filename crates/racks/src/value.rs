//! Comparison of the values that copies have of a key.
//!
//! Two nodes dump equal sets and hashes differently: their elements lie in an order that each node drew. So a value is
//! loaded into a keyspace of this process and written in a form of its own.

use crate::task::Value;
use command::NewEvaluator;
use resp::{Request, Span, reply};

/// Milliseconds by which times to live may differ: they were counted from the arrival of the command at each node.
const TTL_TOLERANCE_MS: u64 = 2_000;

/// Whether both copies have the same value. A value of an unknown form is the same only if all its bytes are.
pub(crate) fn are_same(one: &Value, other: &Value, evaluator: NewEvaluator) -> bool {
    let is_ttl_same = match (one.ttl_ms, other.ttl_ms) {
        (Some(one), Some(other)) => one.abs_diff(other) <= TTL_TOLERANCE_MS,
        (one, other) => one == other,
    };
    let is_dump_same = || match (&one.dump, &other.dump) {
        (Some(one), Some(other)) => {
            one == other
                || canonical(one, evaluator).is_some_and(|text| Some(text) == canonical(other, evaluator))
        }
        (one, other) => one == other,
    };
    is_ttl_same && is_dump_same()
}

/// The value of `dump` in a form that is the same for equal values.
fn canonical(dump: &[u8], evaluator: NewEvaluator) -> Option<Vec<u8>> {
    let mut keyspace = evaluator(0, 0);
    if !keyspace.load(b"k", dump, None) {
        return None;
    }
    let mut ask = |name: &str| {
        let bytes = format!("*2\r\n${}\r\n{name}\r\n$1\r\nk\r\n", name.len()).into_bytes();
        let key = Span { start: bytes.len() - 3, len: 1 };
        let name = Span { start: bytes.len() - name.len() - 9, len: name.len() };
        let mut reply = Vec::new();
        keyspace.run(&Request::new(&bytes, &[name, key]), false, &mut reply);
        reply
    };
    let size = match ask("TYPE").as_slice() {
        b"+set\r\n" => 1,
        b"+hash\r\n" => 2,
        _ => return keyspace.dump(b"k"),
    };
    let reply = ask(if size == 1 { "SMEMBERS" } else { "HGETALL" });
    let elements: Vec<&[u8]> = reply::elements(&reply)?.collect();
    let mut groups: Vec<&[&[u8]]> = elements.chunks(size).collect();
    groups.sort_unstable();
    Some(groups.concat().concat())
}

/// The value that the replies to DUMP and PTTL tell; `None` for an error.
pub(crate) fn of_replies(replies: &[u8]) -> Option<Value> {
    let mut replies = reply::elements_left(replies, 2);
    let (dump, ttl) = (replies.next()?, reply::as_integer(replies.next()?)?);
    if reply::is_error(dump) {
        return None;
    }
    // The key may have expired between both.
    let dump = reply::as_bulk(dump).filter(|_| ttl != -2).map(<[u8]>::to_vec);
    let ttl_ms = u64::try_from(ttl).ok().filter(|_| dump.is_some());
    Some(Value { dump, ttl_ms })
}

/// The place of the value that counts among `values`, which are in the order of preference: that of most copies. A key that
/// some copies have counts more than its absence, so that a comparison never deletes.
pub(crate) fn truth(values: &[&Value], evaluator: NewEvaluator) -> usize {
    let alike = |at: usize| values.iter().filter(|other| are_same(values[at], other, evaluator)).count();
    let weight = |at: usize| (values[at].dump.is_some(), alike(at));
    (0..values.len()).rev().max_by_key(|&at| weight(at)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::tests::bytes;
    use resp::request::{RequestLimits, Scanner};
    use store::Scratch;

    fn value(seed: u64, lines: &[&str]) -> Value {
        let mut keyspace = Scratch::boxed(seed, 0);
        for line in lines {
            let (bytes, mut args, mut inline) = (bytes(line), Vec::new(), Vec::new());
            Scanner::default()
                .scan(&bytes, &RequestLimits::default(), &mut args, &mut inline)
                .expect("valid");
            keyspace.run(&Request::new(&bytes, &args), false, &mut Vec::new());
        }
        Value { dump: keyspace.dump(b"k"), ttl_ms: None }
    }

    #[test]
    fn equal_sets_are_the_same_in_any_order() {
        let members: Vec<String> = (0..1000).map(|number| format!("m{number}")).collect();
        let add = format!("SADD k {}", members.join(" "));
        let (one, other) = (value(1, &[&add]), value(2, &[&add]));
        assert_ne!(one.dump, other.dump, "nodes draw the order");
        assert!(are_same(&one, &other, Scratch::boxed));
        assert!(!are_same(&one, &value(2, &[&add, "SREM k m7"]), Scratch::boxed));
        let (one, other) = (value(1, &["HSET k a 1 b 2"]), value(2, &["HSET k b 2", "HSET k a 1"]));
        assert!(are_same(&one, &other, Scratch::boxed));
        assert!(!are_same(&one, &value(1, &["HSET k a 2 b 1"]), Scratch::boxed));
    }

    #[test]
    fn times_to_live_may_differ_a_little() {
        let at = |ttl_ms| Value { ttl_ms, ..value(1, &["SET k v"]) };
        assert!(are_same(&at(Some(5_000)), &at(Some(6_000)), Scratch::boxed));
        assert!(!are_same(&at(Some(5_000)), &at(Some(9_000)), Scratch::boxed));
        assert!(!are_same(&at(Some(5_000)), &at(None), Scratch::boxed));
    }

    #[test]
    fn most_copies_decide_and_absence_never_wins() {
        let [one, other, absent] = [&["SET k 1"][..], &["SET k 2"], &[]].map(|lines| value(1, lines));
        let truth = |values: &[&Value]| truth(values, Scratch::boxed);
        assert_eq!(truth(&[&one, &other]), 0);
        assert_eq!(truth(&[&one, &other, &other]), 1);
        assert_eq!(truth(&[&absent, &absent, &one]), 2);
        assert_eq!(truth(&[&absent, &absent]), 0);
    }

    #[test]
    fn values_are_read_from_replies() {
        assert_eq!(
            of_replies(b"$1\r\nx\r\n:-1\r\n"),
            Some(Value { dump: Some(b"x".to_vec()), ttl_ms: None })
        );
        assert_eq!(
            of_replies(b"$1\r\nx\r\n:5\r\n"),
            Some(Value { dump: Some(b"x".to_vec()), ttl_ms: Some(5) })
        );
        assert_eq!(of_replies(b"$1\r\nx\r\n:-2\r\n"), Some(Value { dump: None, ttl_ms: None }));
        assert_eq!(of_replies(b"_\r\n:-2\r\n"), Some(Value { dump: None, ttl_ms: None }));
        assert_eq!(of_replies(b"-LOADING\r\n-LOADING\r\n"), None);
    }
}
