//! One client's mirror, with the bytes of all three sides.

use super::*;
use crate::policy::SHARE_WHOLE;

const ALL: Policy = Policy { reads: true, share: SHARE_WHOLE };
const WRITES: Policy = Policy { reads: false, share: SHARE_WHOLE };

/// A mirror, and the pairs that it compared.
struct Rig {
    shadow: Shadow,
    compared: Vec<Compared>,
}

fn rig(policy: Policy) -> Rig {
    Rig { shadow: Shadow::new(policy), compared: Vec::new() }
}

fn bytes(text: &str) -> Vec<u8> {
    text.replace('|', "\r\n").into_bytes()
}

fn request(words: &str) -> String {
    let mut bytes = Vec::new();
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    encode::request(&mut bytes, &words);
    String::from_utf8(bytes).expect("it is text").replace("\r\n", "|")
}

impl Rig {
    fn client(&mut self, text: &str) {
        self.shadow.client_sent(&bytes(text)).expect("the client stays");
    }

    fn ours(&mut self, text: &str) {
        self.shadow.client_got(&bytes(text), &mut self.compared).expect("the client stays");
    }

    fn theirs(&mut self, text: &str) {
        self.shadow.other_sent(&bytes(text), &mut self.compared).expect("the replies match");
    }

    /// Takes the bytes for the other pool.
    fn out(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.shadow.out)).expect("it is text").replace("\r\n", "|")
    }

    fn verdicts(&mut self) -> Vec<(&'static str, Verdict)> {
        self.compared.drain(..).map(|compared| (compared.command, compared.verdict)).collect()
    }
}

#[test]
fn replies_are_compared_whichever_comes_first() {
    let mut rig = rig(ALL);
    rig.client("SET k 1|GET k|");
    assert_eq!(rig.out(), request("SET k 1") + &request("GET k"));
    rig.theirs("+OK|");
    rig.ours("+OK|$1|1|");
    assert_eq!(rig.verdicts(), [("set", Verdict::Same)]);
    rig.theirs("$1|2|");
    assert_eq!(rig.verdicts(), [("get", Verdict::Different)]);
    assert_eq!(rig.shadow.held_bytes() - rig.shadow.theirs.held_bytes() - rig.shadow.ours.held_bytes(), 0);
}

#[test]
fn reads_are_left_out_if_only_writes_are_wanted() {
    let mut rig = rig(WRITES);
    rig.client("GET k|SET k 1|PING|CLIENT ID|SCAN 0|");
    assert_eq!(rig.out(), request("SET k 1"));
    rig.ours("$-1|+OK|+PONG|:1|*2|$1|0|*0|");
    rig.theirs("+OK|");
    assert_eq!(rig.verdicts(), [("set", Verdict::Same)]);
}

#[test]
fn keys_out_of_the_share_are_left_out() {
    let mut rig = rig(Policy { share: 0, ..ALL });
    rig.client("SET k 1|SELECT 1|");
    assert_eq!(rig.out(), request("SELECT 1"));
}

#[test]
fn a_transaction_is_mirrored_once_it_ran() {
    let mut rig = rig(ALL);
    rig.client("WATCH k|MULTI|SET k 1|GET k|EXEC|GET k|");
    rig.ours("+OK|+OK|+QUEUED|+QUEUED|");
    assert_eq!(rig.out(), "", "the GET behind it waits too");
    rig.ours("*2|+OK|$1|1|");
    let sent = ["MULTI", "SET k 1", "GET k", "EXEC", "GET k"].map(request).concat();
    assert_eq!(rig.out(), sent);
    rig.theirs("+OK|+QUEUED|+QUEUED|*2|+OK|$1|1|");
    rig.ours("$1|1|");
    rig.theirs("$1|1|");
    let verdicts = rig.verdicts();
    assert_eq!(verdicts.len(), 5);
    assert!(verdicts.iter().all(|(_, verdict)| *verdict == Verdict::Same), "{verdicts:?}");
}

#[test]
fn a_transaction_that_did_not_run_is_left_out() {
    for end in ["*-1|", "-EXECABORT x|"] {
        let mut rig = rig(ALL);
        rig.client("MULTI|SET k 1|EXEC|SET j 1|");
        rig.ours(&format!("+OK|+QUEUED|{end}+OK|"));
        assert_eq!(rig.out(), request("SET j 1"));
    }
    let mut rig = rig(ALL);
    rig.client("MULTI|SET k 1|DISCARD|SET j 1|");
    rig.ours("+OK|+QUEUED|+OK|+OK|");
    assert_eq!(rig.out(), request("SET j 1"));
}

#[test]
fn a_wait_that_got_something_is_mirrored() {
    let mut rig = rig(ALL);
    rig.client("BLPOP k 0|");
    assert_eq!(rig.out(), "");
    rig.ours("*2|$1|k|$1|v|");
    assert_eq!(rig.out(), request("BLPOP k 0"));
    rig.client("BLPOP k 1|GET k|");
    rig.ours("*-1|$-1|");
    assert_eq!(rig.out(), request("GET k"));
}

#[test]
fn the_choice_of_the_first_pool_is_repeated() {
    let mut rig = rig(ALL);
    rig.client("SPOP s 2|XADD x MAXLEN 5 * f v|SPOP s|");
    rig.ours("*2|$1|a|$1|b|$3|1-1|$-1|");
    assert_eq!(rig.out(), request("SREM s a b") + &request("XADD x MAXLEN 5 1-1 f v"));
    rig.theirs(":2|$3|1-1|");
    assert_eq!(rig.verdicts(), [("spop", Verdict::Same), ("xadd", Verdict::Same)]);
}

#[test]
fn a_mirror_goes_on_after_a_failure_with_the_state() {
    let mut rig = rig(ALL);
    rig.client("SELECT 2|HELLO 3 AUTH u p|GET a|");
    rig.ours("+OK|%1|+server|+redis|");
    assert_eq!(rig.out(), ["SELECT 2", "HELLO 3", "GET a"].map(request).concat());
    rig.shadow.fail(true);
    assert!(rig.shadow.is_broken());
    rig.client("GET b|");
    rig.ours("_|_|");
    assert_eq!(rig.shadow.take_counts(), Counts { sent: 3, unsent: 1, unanswered: 3 });
    assert_eq!((rig.out().as_str(), rig.verdicts().len()), ("", 0));
    rig.client("GET c|");
    assert!(!rig.shadow.is_broken());
    rig.shadow.connected(None);
    assert_eq!(rig.out(), ["HELLO 3", "SELECT 2", "GET c"].map(request).concat());
    rig.theirs("%1|+server|+redis|+OK|_|");
    rig.ours("_|");
    assert_eq!(rig.verdicts(), [("get", Verdict::Same)]);
}

#[test]
fn a_transaction_is_not_cut_by_a_failure() {
    let mut rig = rig(ALL);
    rig.client("MULTI|SET k 1|");
    rig.ours("+OK|+QUEUED|");
    rig.shadow.fail(true);
    rig.client("SET j 1|");
    rig.ours("+QUEUED|");
    rig.client("EXEC|");
    rig.ours("*2|+OK|+OK|");
    assert_eq!(rig.out(), "");
    rig.client("MULTI|SET i 1|EXEC|");
    rig.ours("+OK|+QUEUED|*1|+OK|");
    assert_eq!(rig.out(), ["MULTI", "SET i 1", "EXEC"].map(request).concat());
}

#[test]
fn a_slow_pool_does_not_fill_the_memory() {
    let mut rig = rig(ALL);
    let set = request(&format!("SET k {}", "v".repeat(100_000)));
    for _ in 0..1000 {
        rig.client(&set);
        rig.ours("+OK|");
        assert!(rig.shadow.held_bytes() <= HELD_BYTES_MAX + 2 * set.len(), "{}", rig.shadow.held_bytes());
    }
    rig.shadow.fail(true);
    let counts = rig.shadow.take_counts();
    assert_eq!(counts.sent + counts.unsent, 1000);
    assert!(counts.unanswered > 0);
}

#[test]
fn a_client_that_subscribes_is_left_alone() {
    for words in ["SUBSCRIBE c", "MONITOR", "CLIENT REPLY OFF", "CLIENT TRACKING ON", "RESET"] {
        let mut shadow = Shadow::new(ALL);
        assert_eq!(shadow.client_sent(&bytes(&request(words))), Err(End::Left), "{words}");
    }
}

#[test]
fn requests_are_found_however_they_are_cut() {
    let text = ["MULTI", "SET k 1", "EXEC", "GET k", "SPOP s"].map(request).concat().replace('|', "\r\n");
    let ours = bytes("+OK|+QUEUED|*1|+OK|$1|1|$1|m|");
    let expected = ["MULTI", "SET k 1", "EXEC", "GET k", "SREM s m"].map(request).concat();
    for step in 1..40 {
        let mut rig = rig(ALL);
        text.as_bytes().chunks(step).for_each(|piece| rig.shadow.client_sent(piece).expect("it stays"));
        for piece in ours.chunks(step) {
            rig.shadow.client_got(piece, &mut rig.compared).expect("it stays");
        }
        assert_eq!(rig.out(), expected, "{step}");
    }
}
