//! The conversation with one node or sentinel. A node gets questions about itself and the rights of our user, a hundred PINGs
//! one after the other, and RANDOMKEY. A sentinel gets questions about each primary.

use crate::facts::{Facts, Kind, Member};
use crate::watch::ABOUT;
use resp::encode;
use resp::reply::{ReplyLimits, Scanner, is_push};
use stdx::Instant;

/// Questions about any node. The answers are found by their places in this list.
const OF_NODES: [&str; 8] = [
    "INFO",
    "CONFIG GET timeout",
    "CONFIG GET maxmemory",
    "CONFIG GET maxmemory-policy",
    "CONFIG GET databases",
    "CONFIG GET maxclients",
    "ACL WHOAMI",
    "TIME",
];

/// Further questions about a node of a cluster. Before Redis 7 there is no CLUSTER SHARDS.
const OF_CLUSTER_NODES: [&str; 6] = [
    "CLUSTER INFO",
    "CLUSTER NODES",
    "CLUSTER SHARDS",
    "CLUSTER SLOTS",
    "CONFIG GET cluster-require-full-coverage",
    "CONFIG GET cluster-allow-reads-when-down",
];

/// The questions about a member of this kind.
fn questions(kind: &Kind) -> Vec<Vec<String>> {
    let divided = |question: &str| question.split(' ').map(str::to_owned).collect();
    match kind {
        Kind::Node => OF_NODES.into_iter().map(divided).collect(),
        Kind::ClusterNode { .. } => OF_NODES.into_iter().chain(OF_CLUSTER_NODES).map(divided).collect(),
        Kind::Sentinel { names } => {
            let about = |name: &String| {
                ABOUT.map(|about| vec!["SENTINEL".to_owned(), about.to_owned(), name.clone()])
            };
            std::iter::once(vec!["INFO".to_owned()]).chain(names.iter().flat_map(about)).collect()
        }
    }
}

/// Requests that clients and shardis itself send. The user of the nodes must be allowed to.
pub(crate) const RIGHTS: [&[&[u8]]; 14] = [
    &[b"PING"],
    &[b"INFO"],
    &[b"SELECT", b"0"],
    &[b"CLIENT", b"ID"],
    &[b"GET", b"k"],
    &[b"MGET", b"k"],
    &[b"SET", b"k", b"v"],
    &[b"DEL", b"k"],
    &[b"SCAN", b"0"],
    &[b"MULTI"],
    &[b"EVAL", b"return 1", b"0"],
    &[b"SCRIPT", b"LOAD", b"return 1"],
    &[b"PUBLISH", b"c", b"m"],
    &[b"SUBSCRIBE", b"c"],
];

/// PINGs that are timed.
const PINGS: usize = 100;
/// Random keys. Some come more than once.
const KEYS: usize = 200;

/// The questions that the node is being asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Login,
    Questions,
    Rights,
    Pings,
    Keys,
    Done,
}

/// See the module.
#[derive(Debug)]
pub struct Interview {
    facts: Facts,
    stage: Stage,
    /// Replies of this stage that have not come.
    awaited: usize,
    replies: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    scanner: Scanner,
    /// When the last request was sent.
    sent_at: Instant,
}

impl Interview {
    /// An interview with `member`.
    pub fn new(member: Member) -> Interview {
        Interview {
            facts: Facts::new(member),
            stage: Stage::Login,
            awaited: 0,
            replies: Vec::new(),
            bytes: Vec::new(),
            scanner: Scanner::default(),
            sent_at: Instant::ZERO,
        }
    }

    /// The first request on a connection that was just made: `auth`, if there are credentials, and PING. Whatever was said
    /// on a connection before, to another address of the node, is forgotten.
    pub fn begin(&mut self, auth: Option<&[u8]>, now: Instant) -> Vec<u8> {
        *self = Interview::new(self.facts.member.clone());
        let mut requests = auth.map(<[u8]>::to_vec).unwrap_or_default();
        encode::request(&mut requests, &[b"PING"]);
        self.awaited = 1 + usize::from(auth.is_some());
        self.sent_at = now;
        requests
    }

    /// Takes bytes of the node at `now`, `unix_us` microseconds after 1970. Returns the next requests.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Instant, unix_us: u64) -> Vec<u8> {
        self.bytes.extend_from_slice(bytes);
        let mut requests = Vec::new();
        while self.stage != Stage::Done {
            match self.scanner.scan(&self.bytes, &ReplyLimits::default()) {
                Ok(Some(len)) => {
                    let reply: Vec<u8> = self.bytes.drain(..len).collect();
                    self.scanner = Scanner::default();
                    if !is_push(&reply) {
                        self.handle_reply(reply, now, unix_us, &mut requests);
                    }
                }
                Ok(None) => break,
                Err(_) => self.fail("it does not speak Redis's protocol"),
            }
        }
        requests
    }

    fn handle_reply(&mut self, reply: Vec<u8>, now: Instant, unix_us: u64, requests: &mut Vec<u8>) {
        self.replies.push(reply);
        self.awaited -= 1;
        if self.stage == Stage::Pings {
            self.facts.pings_us.push(now.since(self.sent_at).as_micros() as u64);
            if self.awaited > 0 {
                return self.send(&[b"PING"], now, requests);
            }
        }
        if self.awaited > 0 {
            return;
        }
        let replies = std::mem::take(&mut self.replies);
        match self.stage {
            Stage::Login => {
                if let Some(refusal) = replies.iter().find_map(|reply| reply.strip_prefix(b"-")) {
                    return self.fail(String::from_utf8_lossy(refusal).trim());
                }
                let questions = questions(&self.facts.member.kind);
                (self.stage, self.awaited) = (Stage::Questions, questions.len());
                for question in &questions {
                    let words: Vec<&[u8]> = question.iter().map(String::as_bytes).collect();
                    encode::request(requests, &words);
                }
            }
            Stage::Questions => {
                self.facts.take_answers(&questions(&self.facts.member.kind), &replies, unix_us);
                match self.facts.member.is_sentinel() {
                    true => self.stage = Stage::Done,
                    false => self.ask_rights(now, requests),
                }
            }
            Stage::Rights => {
                self.facts.take_rights(&replies);
                self.begin_pings(now, requests);
            }
            Stage::Pings => {
                (self.stage, self.awaited) = (Stage::Keys, KEYS);
                (0..KEYS).for_each(|_| encode::request(requests, &[b"RANDOMKEY"]));
            }
            Stage::Keys => {
                self.facts.take_keys(&replies);
                self.stage = Stage::Done;
            }
            Stage::Done => {}
        }
    }

    /// A node without users cannot tell their rights.
    fn ask_rights(&mut self, now: Instant, requests: &mut Vec<u8>) {
        let Some(user) = self.facts.user.clone() else { return self.begin_pings(now, requests) };
        (self.stage, self.awaited) = (Stage::Rights, RIGHTS.len());
        for right in RIGHTS {
            let words: Vec<&[u8]> = [&[b"ACL" as &[u8], b"DRYRUN", user.as_bytes()], right].concat();
            encode::request(requests, &words);
        }
    }

    fn begin_pings(&mut self, now: Instant, requests: &mut Vec<u8>) {
        (self.stage, self.awaited) = (Stage::Pings, PINGS);
        self.send(&[b"PING"], now, requests);
    }

    fn send(&mut self, words: &[&[u8]], now: Instant, requests: &mut Vec<u8>) {
        self.sent_at = now;
        encode::request(requests, words);
    }

    /// The connection is lost, was refused, or took too long.
    pub fn fail(&mut self, reason: &str) {
        if self.stage != Stage::Done {
            self.facts.fault = Some(reason.to_owned());
            self.stage = Stage::Done;
        }
    }

    /// Whether nothing is to be asked any more.
    pub fn is_done(&self) -> bool {
        self.stage == Stage::Done
    }

    /// The answers so far.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The answers.
    pub fn into_facts(self) -> Facts {
        self.facts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{CONFIG, member};

    fn answer(interview: &mut Interview, text: &str, at_us: u64) -> String {
        let bytes = text.replace('|', "\r\n").into_bytes();
        let now = Instant::ZERO + std::time::Duration::from_micros(at_us);
        let requests = interview.handle_bytes(&bytes, now, 5_000_000);
        String::from_utf8(requests).expect("text").replace("\r\n", "|")
    }

    #[test]
    fn a_node_is_asked_in_stages() {
        let mut interview = Interview::new(member("a:1", 0));
        let first = interview.begin(Some(b"*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n"), Instant::ZERO);
        assert!(first.ends_with(b"*1\r\n$4\r\nPING\r\n"));
        assert!(answer(&mut interview, "+OK|+PO", 0).is_empty(), "half a reply");
        assert!(answer(&mut interview, "NG|", 0).starts_with("*1|$4|INFO|"));
        let rights =
            answer(&mut interview, &format!("$15|redis_version:7|{CONFIG}$3|app|*2|$1|4|$6|500000|"), 0);
        assert!(rights.starts_with("*4|$3|ACL|$6|DRYRUN|$3|app|$4|PING|"), "{rights}");
        let refusal = "User app has no permissions to run the 'publish' command";
        let oks = "+OK|".repeat(12);
        let ping = answer(&mut interview, &format!("{oks}${}|{refusal}|+OK|", refusal.len()), 0);
        assert_eq!(ping, "*1|$4|PING|");
        for number in 1..100u64 {
            assert_eq!(answer(&mut interview, "+PONG|", number * 100), "*1|$4|PING|");
        }
        let keys = answer(&mut interview, "+PONG|", 10_000);
        assert_eq!(keys.matches("RANDOMKEY").count(), KEYS);
        answer(&mut interview, &format!("$1|x|{}", "$-1|".repeat(KEYS - 1)), 0);
        assert!(interview.is_done());
        let facts = interview.into_facts();
        assert_eq!((facts.fault.as_deref(), facts.user.as_deref()), (None, Some("app")));
        assert_eq!((facts.lacks, facts.keys), (vec!["PUBLISH".to_owned()], vec![b"x".to_vec()]));
        assert_eq!((facts.pings_us[0], facts.clock_ahead_us), (100, Some(-500_000)));
        assert_eq!(facts.info.get("redis_version").map(String::as_str), Some("7"));
    }

    #[test]
    fn another_connection_begins_anew() {
        let mut interview = Interview::new(member("a:1", 0));
        interview.begin(None, Instant::ZERO);
        assert!(!answer(&mut interview, "+PONG|$16|redis_v", 0).is_empty());
        interview.begin(None, Instant::ZERO);
        assert!(answer(&mut interview, "+PONG|", 0).starts_with("*1|$4|INFO|"));
    }

    #[test]
    fn a_refused_login_is_the_fault() {
        let mut interview = Interview::new(member("a:1", 0));
        interview.begin(None, Instant::ZERO);
        assert!(answer(&mut interview, "-NOAUTH Authentication required.|", 0).is_empty());
        assert_eq!(interview.into_facts().fault.as_deref(), Some("NOAUTH Authentication required."));
    }

    #[test]
    fn another_protocol_is_the_fault() {
        let mut interview = Interview::new(member("a:1", 0));
        interview.begin(None, Instant::ZERO);
        answer(&mut interview, "HTTP/1.1 400 Bad Request|", 0);
        assert!(interview.is_done() && interview.into_facts().fault.is_some());
    }
}
