//! The conversation with one node: its number of keys, then SCAN, and the size of each key that SCAN names.

use crate::survey::Survey;
use resp::encode;
use resp::reply::{ReplyLimits, Scanner, as_bulk, as_integer, elements, is_error, is_null, is_push};
use topology::ShardId;

/// Keys that one SCAN asks for.
const BATCH_KEYS: &[u8] = b"500";
/// The longest unread answer: a batch of keys, which the node may make larger than it was asked for.
const ANSWER_BYTES_MAX: usize = 64 << 20;

/// The question that the node is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Login,
    Count,
    Keys,
    Sizes,
    Done,
}

/// See the module.
#[derive(Debug)]
pub struct Scan {
    shard: ShardId,
    /// Keys that are looked at, at most.
    sample_max: u64,
    survey: Survey,
    /// Keys of the node by its own count.
    keys: u64,
    stage: Stage,
    /// Replies of this stage that have not come.
    awaited: usize,
    cursor: Vec<u8>,
    /// Keys of the present batch whose sizes are asked for, the next one last.
    batch: Vec<Vec<u8>>,
    /// Whether the node tells sizes; one refusal is enough.
    tells_sizes: bool,
    bytes: Vec<u8>,
    scanner: Scanner,
    fault: Option<String>,
}

impl Scan {
    /// A look at up to `sample_max` keys of the node of `shard`. `survey` is empty and gets them.
    pub fn new(shard: ShardId, sample_max: u64, survey: Survey) -> Scan {
        Scan {
            shard,
            sample_max,
            survey,
            keys: 0,
            stage: Stage::Login,
            awaited: 0,
            cursor: b"0".to_vec(),
            batch: Vec::new(),
            tells_sizes: true,
            bytes: Vec::new(),
            scanner: Scanner::default(),
            fault: None,
        }
    }

    /// The first requests on a connection that was just made: `auth`, if there are credentials, and PING. A connection that
    /// fails later is not made again, since its keys were counted.
    pub fn begin(&mut self, auth: Option<&[u8]>) -> Vec<u8> {
        let mut requests = auth.map(<[u8]>::to_vec).unwrap_or_default();
        encode::request(&mut requests, &[b"PING"]);
        (self.stage, self.awaited) = (Stage::Login, 1 + usize::from(auth.is_some()));
        self.bytes.clear();
        self.scanner = Scanner::default();
        requests
    }

    /// Takes bytes of the node. Returns the next requests.
    pub fn handle_bytes(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.bytes.extend_from_slice(bytes);
        let (mut requests, mut at) = (Vec::new(), 0);
        let received = std::mem::take(&mut self.bytes);
        while self.stage != Stage::Done {
            match self.scanner.scan(&received[at..], &ReplyLimits::default()) {
                Ok(Some(len)) => {
                    let reply = &received[at..at + len];
                    at += len;
                    if !is_push(reply) {
                        self.handle_reply(reply, &mut requests);
                    }
                }
                Ok(None) if received.len() - at > ANSWER_BYTES_MAX => self.fail("its answer is too large"),
                Ok(None) => break,
                Err(_) => self.fail("it does not speak Redis's protocol"),
            }
        }
        self.bytes = received[at..].to_vec();
        requests
    }

    fn handle_reply(&mut self, reply: &[u8], requests: &mut Vec<u8>) {
        self.awaited = self.awaited.saturating_sub(1);
        if is_error(reply) && self.stage != Stage::Sizes {
            let text = String::from_utf8_lossy(&reply[1..]).trim().to_owned();
            return self.fail(&text);
        }
        match self.stage {
            Stage::Login if self.awaited == 0 => self.ask(Stage::Count, &[b"DBSIZE"], requests),
            Stage::Login | Stage::Done => {}
            Stage::Count => {
                self.keys = as_integer(reply).and_then(|keys| keys.try_into().ok()).unwrap_or_default();
                self.ask_for_keys(requests);
            }
            Stage::Keys => self.take_keys(reply, requests),
            Stage::Sizes => self.take_size(reply, requests),
        }
    }

    fn ask(&mut self, stage: Stage, question: &[&[u8]], requests: &mut Vec<u8>) {
        (self.stage, self.awaited) = (stage, 1);
        encode::request(requests, question);
    }

    fn ask_for_keys(&mut self, requests: &mut Vec<u8>) {
        let cursor = std::mem::take(&mut self.cursor);
        self.ask(Stage::Keys, &[b"SCAN", &cursor, b"COUNT", BATCH_KEYS], requests);
    }

    /// Takes a cursor and a batch of keys, and asks for the sizes of these.
    fn take_keys(&mut self, reply: &[u8], requests: &mut Vec<u8>) {
        let mut parts = elements(reply).into_iter().flatten();
        let (cursor, keys) = (parts.next().and_then(as_bulk), parts.next().and_then(elements));
        let (Some(cursor), Some(keys)) = (cursor, keys) else {
            return self.fail("its answer to SCAN is none");
        };
        self.cursor = cursor.to_vec();
        let left = self.sample_max.saturating_sub(self.survey.seen());
        self.batch = keys.filter_map(as_bulk).take(left as usize).map(<[u8]>::to_vec).collect();
        if !self.tells_sizes {
            for key in std::mem::take(&mut self.batch) {
                self.survey.add_found(self.shard, &key, None);
            }
        }
        if self.batch.is_empty() {
            return self.go_on(requests);
        }
        (self.stage, self.awaited) = (Stage::Sizes, self.batch.len());
        for key in &self.batch {
            encode::request(requests, &[b"MEMORY", b"USAGE", key]);
        }
        self.batch.reverse();
    }

    /// Takes the size of the next key of the batch. A key without size is gone by now.
    fn take_size(&mut self, reply: &[u8], requests: &mut Vec<u8>) {
        let bytes = as_integer(reply).and_then(|bytes| bytes.try_into().ok());
        self.tells_sizes &= !is_error(reply);
        if let Some(key) = self.batch.pop().filter(|_| !is_null(reply)) {
            self.survey.add_found(self.shard, &key, bytes);
        }
        if self.awaited == 0 {
            self.go_on(requests);
        }
    }

    /// Asks for the next batch, unless this was the last one.
    fn go_on(&mut self, requests: &mut Vec<u8>) {
        match self.cursor == b"0" || self.survey.seen() >= self.sample_max {
            true => self.stage = Stage::Done,
            false => self.ask_for_keys(requests),
        }
    }

    /// The connection is lost, was refused, or took too long.
    pub fn fail(&mut self, reason: &str) {
        if self.stage != Stage::Done {
            self.fault = Some(reason.to_owned());
            self.stage = Stage::Done;
        }
    }

    /// Whether nothing is to be asked any more.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// Whether no key was counted, so that another address of the node may be tried.
    pub fn may_begin_again(&self) -> bool {
        self.stage == Stage::Login
    }

    /// The shard, the sampled keys, and the number of keys that these stand for; or the reason of a failure.
    pub fn into_outcome(self) -> Result<(Survey, u64), String> {
        // Fewer keys than the sample may have: all were seen.
        let is_complete = self.cursor == b"0" && self.survey.seen() < self.sample_max;
        let keys = if is_complete { self.survey.seen() } else { self.keys };
        self.fault.map_or(Ok((self.survey, keys)), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;
    use std::sync::Arc;
    use topology::{Topology, TopologySpec, parse_nodes};

    fn scan(sample_max: u64) -> Scan {
        let nodes = parse_nodes("a:1,b:1").expect("valid");
        let spec = TopologySpec { nodes, ..TopologySpec::default() };
        let layout = Layout::new(Topology::new(1, &spec).expect("valid"));
        Scan::new(ShardId(1), sample_max, Survey::new(Arc::new(layout), None))
    }

    fn answer(scan: &mut Scan, text: &str) -> String {
        let requests = scan.handle_bytes(text.replace('|', "\r\n").as_bytes());
        String::from_utf8(requests).expect("text").replace("\r\n", "|")
    }

    /// A scan that has logged in, of a node with `keys` keys.
    fn begun(sample_max: u64, keys: u64) -> Scan {
        let mut scan = scan(sample_max);
        assert_eq!(scan.begin(Some(b"*1\r\n$1\r\nx\r\n")), b"*1\r\n$1\r\nx\r\n*1\r\n$4\r\nPING\r\n");
        assert_eq!(answer(&mut scan, "+OK|+PONG|"), "*1|$6|DBSIZE|");
        assert_eq!(answer(&mut scan, &format!(":{keys}|")), "*4|$4|SCAN|$1|0|$5|COUNT|$3|500|");
        scan
    }

    #[test]
    fn all_keys_of_a_node_are_counted_with_their_sizes() {
        let mut scan = begun(100, 3);
        let sizes = answer(&mut scan, "*2|$1|7|*2|$1|a|$1|b|");
        assert_eq!(sizes, "*3|$6|MEMORY|$5|USAGE|$1|a|*3|$6|MEMORY|$5|USAGE|$1|b|");
        assert_eq!(answer(&mut scan, ":50|"), "");
        assert_eq!(answer(&mut scan, "$-1|"), "*4|$4|SCAN|$1|7|$5|COUNT|$3|500|");
        answer(&mut scan, "*2|$1|0|*1|$1|c|");
        answer(&mut scan, ":70|");
        assert!(scan.is_done());
        let (survey, keys) = scan.into_outcome().expect("no fault");
        assert_eq!((survey.total().keys, survey.total().bytes, keys), (2.0, 120.0, 2));
    }

    #[test]
    fn a_sample_ends_before_the_keys_do() {
        let mut scan = begun(1, 1000);
        assert_eq!(answer(&mut scan, "*2|$1|7|*2|$1|a|$1|b|"), "*3|$6|MEMORY|$5|USAGE|$1|a|");
        assert_eq!(answer(&mut scan, ":50|"), "");
        let (survey, keys) = scan.into_outcome().expect("no fault");
        assert_eq!((survey.seen(), keys), (1, 1000));
    }

    #[test]
    fn keys_without_sizes_are_counted_all_the_same() {
        let mut scan = begun(100, 3);
        answer(&mut scan, "*2|$1|7|*1|$1|a|");
        assert_eq!(answer(&mut scan, "-ERR unknown command|"), "*4|$4|SCAN|$1|7|$5|COUNT|$3|500|");
        assert_eq!(answer(&mut scan, "*2|$1|0|*2|$1|b|$1|c|"), "");
        let (survey, _) = scan.into_outcome().expect("no fault");
        assert_eq!((survey.seen(), survey.has_bytes()), (3, false));
    }

    #[test]
    fn a_refusal_and_another_protocol_are_faults() {
        let mut refused = scan(1);
        refused.begin(None);
        answer(&mut refused, "-NOAUTH Authentication required.|");
        assert_eq!(refused.into_outcome().err().as_deref(), Some("NOAUTH Authentication required."));
        for text in ["HTTP/1.1 400|", "*2|$1|0|:3|"] {
            let mut scan = begun(1, 1);
            answer(&mut scan, text);
            assert!(scan.is_done() && scan.into_outcome().is_err(), "{text}");
        }
    }
}
