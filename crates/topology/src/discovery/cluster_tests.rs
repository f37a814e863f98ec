//! Real answers of Redis 7.0.15 taken apart, tables of who is believed, a machine among nodes that come and go, and clusters
//! made by seeds whose nodes lag behind and are cut off.

use super::cluster_answer::{Answer, Asked, Member, Replies};
use super::cluster_map::{ClusterMap, Verdict};
use super::reach::tcp;
use super::testing::{World, bulk};
use super::{ClusterDiscovery, ClusterSettings, Discovery, News, Party, ShardSpec, Wish};
use crate::Address;
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Instant;
use stdx::prng::Prng;

macro_rules! recorded {
    ($name:literal) => {
        include_bytes!(concat!("recorded/cluster-", $name, ".resp")).to_vec()
    };
}

fn address(text: &str) -> Address {
    let (host, port) = text.rsplit_once(':').expect("host:port");
    tcp(host, port.parse().expect("a port")).expect("valid")
}

/// The answer in `replies` of a node at `asked`.
fn digest(replies: &Replies, asked: &str, is_tls: bool) -> Result<Answer, String> {
    replies.digest(Asked { address: &address(asked), is_tls })
}

/// The shards of `answer`, in one line each: `primary [replicas] slots`.
fn shards(answer: &Answer) -> Vec<String> {
    let mut map = ClusterMap::default();
    map.join(answer);
    lines(&map.view().shards)
}

fn lines(shards: &[ShardSpec]) -> Vec<String> {
    let line = |shard: &ShardSpec| {
        let primary = shard.primary.as_ref().map_or("nobody".to_owned(), |node| node.label());
        let replicas: Vec<String> = shard.replicas.iter().map(|node| node.label()).collect();
        let slots: Vec<String> =
            shard.slots.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
        format!("{primary} [{}] {}", replicas.join(" "), slots.join(" "))
    };
    shards.iter().map(line).collect()
}

const ERROR: &[u8] = b"-ERR unknown subcommand 'SHARDS'. Try CLUSTER HELP.\r\n";

#[test]
fn a_healthy_cluster_is_the_same_by_whatever_it_is_asked() {
    let expected = [
        "127.0.0.1:21001 [127.0.0.1:21004] 0-5460",
        "127.0.0.1:21002 [127.0.0.1:21005] 5461-10922",
        "127.0.0.1:21003 [127.0.0.1:21006] 10923-16383",
    ];
    let info = recorded!("ok-info");
    let (nodes, all, ranges) = (recorded!("ok-nodes"), recorded!("ok-shards"), recorded!("ok-slots"));
    let refused = || ERROR.to_vec();
    for (nodes, shards_reply, slots) in [
        (nodes.clone(), all.clone(), None),
        (nodes.clone(), refused(), Some(ranges.clone())),
        (nodes, refused(), Some(refused())),
        (refused(), all, None),
        (refused(), refused(), Some(ranges)),
    ] {
        let replies = Replies { info: info.clone(), nodes, shards: shards_reply, slots };
        let answer = digest(&replies, "127.0.0.1:21001", false).expect("it makes sense");
        assert_eq!(
            (shards(&answer), answer.epoch, answer.is_ok),
            (expected.map(str::to_owned).to_vec(), 6, true)
        );
    }
}

#[test]
fn hosts_are_what_the_cluster_wants_to_be_called() {
    let named = Replies {
        info: recorded!("ok-info"),
        nodes: recorded!("hostnames-nodes"),
        shards: recorded!("hostnames-shards"),
        slots: None,
    };
    let slots = Replies {
        shards: ERROR.to_vec(),
        slots: Some(recorded!("hostnames-slots")),
        ..Replies { info: recorded!("ok-info"), nodes: recorded!("hostnames-nodes"), ..Replies::default() }
    };
    // Those that have no host name are called by their addresses.
    let expected = [
        "a.example.org:21001 [d.example.org:21004] 0-5460",
        "127.0.0.1:21002 [127.0.0.1:21005] 5461-10922",
        "127.0.0.1:21003 [127.0.0.1:21006] 10923-16383",
    ];
    for replies in [named, slots] {
        assert_eq!(shards(&digest(&replies, "127.0.0.1:21001", false).expect("valid")), expected);
    }
    // `cluster-preferred-endpoint-type unknown-endpoint`: all are where we asked, at ports of their own.
    let expected = [
        "nat.example.org:21001 [nat.example.org:21004] 0-5460",
        "nat.example.org:21002 [nat.example.org:21005] 5461-10922",
        "nat.example.org:21003 [nat.example.org:21006] 10923-16383",
    ];
    for (all, slots) in [
        (recorded!("unknown-endpoint-shards"), None),
        (ERROR.to_vec(), Some(recorded!("unknown-endpoint-slots"))),
    ] {
        let replies =
            Replies { info: recorded!("ok-info"), nodes: recorded!("ok-nodes"), shards: all, slots };
        assert_eq!(shards(&digest(&replies, "nat.example.org:7000", false).expect("valid")), expected);
    }
}

#[test]
fn after_a_failover_the_old_primary_has_nothing() {
    for slots in [None, Some(recorded!("failed-slots"))] {
        let all = if slots.is_some() { ERROR.to_vec() } else { recorded!("failed-shards") };
        let replies =
            Replies { info: recorded!("failed-info"), nodes: recorded!("failed-nodes"), shards: all, slots };
        let answer = digest(&replies, "127.0.0.1:21002", false).expect("valid");
        let expected = [
            "127.0.0.1:21004 [] 0-5460",
            "127.0.0.1:21002 [127.0.0.1:21005] 5461-10922",
            "127.0.0.1:21003 [127.0.0.1:21006] 10923-16383",
        ];
        assert_eq!((shards(&answer), answer.epoch), (expected.map(str::to_owned).to_vec(), 7));
        assert!(answer.nodes.iter().any(|member| member.is_failed && member.slots.is_empty()));
    }
}

#[test]
fn a_node_that_sees_no_majority_says_so() {
    let replies = Replies {
        info: recorded!("minority-info"),
        nodes: recorded!("minority-nodes"),
        shards: recorded!("minority-shards"),
        slots: None,
    };
    assert!(!digest(&replies, "127.0.0.1:21004", false).expect("valid").is_ok);
}

/// An answer made of lines of CLUSTER NODES alone.
fn of_lines(lines: &str, is_tls: bool) -> Result<Answer, String> {
    let replies = Replies {
        nodes: bulk(lines),
        shards: ERROR.to_vec(),
        slots: Some(ERROR.to_vec()),
        ..Replies::default()
    };
    digest(&replies, "seed:7000", is_tls)
}

#[test]
fn lines_of_every_age_are_understood() {
    let cases = [
        // Redis 3: no port of the bus.
        ("a 10.0.0.1:6379 myself,master - 0 0 1 connected 0-5 7", "10.0.0.1:6379 [] 0-5 7-7"),
        // A node that was never told its own address.
        ("a :6379@16379 myself,master - 0 0 1 connected 0", "seed:6379 [] 0-0"),
        ("a fe80::1:6379@16379 master - 0 0 1 connected 0", "[fe80::1]:6379 [] 0-0"),
        // Migrating slots are still here, and importing ones are not.
        ("a 10.0.0.1:1@2 myself,master - 0 0 1 connected 0-3 [3->-bb] [77-<-cc]", "10.0.0.1:1 [] 0-3"),
        // Redis 7.0 and 7.2: a host name, and fields with names.
        ("a 10.0.0.1:1@2,h.example.org,shard-id=69bc master - 0 0 1 connected 9", "10.0.0.1:1 [] 9-9"),
        ("a :0@0 master,noaddr - 0 0 1 disconnected 9", "nobody [] 9-9"),
        ("a 10.0.0.1:1@2 master,fail? - 0 0 1 connected 9", "10.0.0.1:1 [] 9-9"),
        // Slots that are none.
        ("a 10.0.0.1:1@2 master - 0 0 1 connected 16384 9-8 x 5", "10.0.0.1:1 [] 5-5"),
    ];
    for (line, expected) in cases {
        assert_eq!(shards(&of_lines(line, false).expect("valid")), [expected], "{line}");
    }
    for line in ["", "nonsense", "a b c", "a 10.0.0.1:1@2 handshake - 0 0 0 connected"] {
        assert!(of_lines(line, false).is_err(), "{line:?}");
    }
}

#[test]
fn replicas_that_failed_are_not_used() {
    let lines = "a h:1@2 master - 0 0 1 connected 0-9\n\
        b h:2@3 slave a 0 0 1 connected\n\
        c h:3@4 slave,fail a 0 0 1 disconnected\n\
        d h:4@5 slave,fail? a 0 0 1 connected\n";
    assert_eq!(shards(&of_lines(lines, false).expect("valid")), ["h:1 [h:2 h:4] 0-9"]);
}

#[test]
fn the_port_is_that_of_the_protocol_we_speak() {
    let node = |port: &str, tls: &str| {
        format!(
            "*1\r\n*4\r\n$5\r\nslots\r\n*2\r\n:0\r\n:9\r\n$5\r\nnodes\r\n*1\r\n%4\r\n$2\r\nid\r\n$1\r\na\r\n{port}{tls}$2\r\nip\r\n$1\r\nh\r\n+endpoint\r\n$1\r\nh\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
        )
    };
    let (port, tls) = ("+port\r\n:1\r\n", "+tls-port\r\n:2\r\n");
    let told = |shards: String, is_tls| {
        let shards = shards
            .replace("%4", if shards.contains("tls") && shards.contains("+port") { "%6" } else { "%5" });
        let replies = Replies { shards: shards.into_bytes(), nodes: ERROR.to_vec(), ..Replies::default() };
        self::shards(&digest(&replies, "x:1", is_tls).expect("valid"))
    };
    assert_eq!(told(node(port, tls), false), ["h:1 [] 0-9"]);
    assert_eq!(told(node(port, tls), true), ["h:2 [] 0-9"]);
    assert_eq!(told(node("", tls), false), ["h:2 [] 0-9"]);
    assert_eq!(told(node(port, ""), true), ["h:1 [] 0-9"], "something that speaks TLS stands before it");
}

#[test]
fn what_a_node_complains_of_is_the_reason() {
    for (complaint, reason) in [
        (
            "-ERR This instance has cluster support disabled\r\n",
            "ERR This instance has cluster support disabled",
        ),
        (
            "-LOADING Redis is loading the dataset in memory\r\n",
            "LOADING Redis is loading the dataset in memory",
        ),
        ("-NOPERM no\r\n", "NOPERM no"),
        ("+what\r\n", "its answer is not valid"),
    ] {
        let all = || complaint.as_bytes().to_vec();
        let replies = Replies { info: all(), nodes: all(), shards: all(), slots: Some(all()) };
        assert_eq!(digest(&replies, "h:1", false), Err(reason.to_owned()));
    }
}

/// A node, for tables: its name is its host.
fn member(id: &str, primary: &str, epoch: u64, slots: &[(u16, u16)]) -> Member {
    Member {
        id: id.to_owned(),
        address: tcp(id, 1),
        primary: Some(primary.to_owned()).filter(|primary| !primary.is_empty()),
        epoch,
        slots: slots.iter().map(|&(first, last)| first..=last).collect(),
        ..Member::default()
    }
}

fn answer(epoch: u64, nodes: &[Member]) -> Answer {
    Answer { epoch, is_ok: true, nodes: nodes.to_vec() }
}

/// The map after these answers, and what the last of them was good for.
fn joined(answers: &[&Answer]) -> (Vec<String>, Verdict) {
    let mut map = ClusterMap::default();
    let verdicts: Vec<Verdict> = answers.iter().map(|answer| map.join(answer)).collect();
    (lines(&map.view().shards), *verdicts.last().expect("an answer"))
}

#[test]
fn the_order_of_answers_does_not_matter() {
    let (a, b) = (member("a", "", 1, &[(0, 9)]), member("b", "", 2, &[(10, 19)]));
    let before = answer(2, &[a.clone(), b.clone(), member("c", "a", 1, &[]), member("d", "b", 2, &[])]);
    let failover =
        answer(3, &[member("c", "", 3, &[(0, 9)]), member("a", "c", 3, &[]), b, member("d", "b", 2, &[])]);
    // Slot 9 moves to b, which gets the highest epoch for it.
    let moved = answer(
        4,
        &[
            member("c", "", 3, &[(0, 8)]),
            member("a", "c", 3, &[]),
            member("b", "", 4, &[(9, 19)]),
            member("d", "b", 4, &[]),
        ],
    );
    let expected = ["c:1 [a:1] 0-8", "b:1 [d:1] 9-19"].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&before, &failover, &moved]), (expected.clone(), Verdict::Joined));
    for order in [[&moved, &before, &failover], [&before, &moved, &failover], [&moved, &failover, &before]] {
        assert_eq!(joined(&order), (expected.clone(), Verdict::Outdated));
    }
}

#[test]
fn minority_view_reverts_nothing_at_any_epoch() {
    let known = answer(
        3,
        &[member("c", "", 3, &[(0, 9)]), member("a", "c", 3, &[]), member("b", "", 2, &[(10, 19)])],
    );
    // a is cut off, believes to be a primary, and somebody with it asks for votes again and again.
    let minority = Answer {
        is_ok: false,
        ..answer(
            99,
            &[Member { is_asked: true, ..member("a", "", 1, &[(0, 9)]) }, member("b", "", 2, &[(10, 19)])],
        )
    };
    let expected = ["c:1 [a:1] 0-9", "b:1 [] 10-19"].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&known, &minority]), (expected, Verdict::Outdated));
}

#[test]
fn an_answer_may_be_older_in_one_shard_and_newer_in_another() {
    let known = answer(
        3,
        &[member("c", "", 3, &[(0, 9)]), member("a", "c", 3, &[]), member("b", "", 2, &[(10, 19)])],
    );
    let mixed = answer(
        4,
        &[member("a", "", 1, &[(0, 9)]), member("d", "", 4, &[(10, 19)]), member("b", "d", 4, &[])],
    );
    let expected = ["c:1 [a:1] 0-9", "d:1 [b:1] 10-19"].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&known, &mixed]), (expected, Verdict::Outdated));
}

#[test]
fn a_lower_epoch_is_believed_only_where_it_must_be_right() {
    let known = answer(9, &[member("a", "", 9, &[(0, 9)]), member("b", "", 2, &[(10, 19)])]);
    let taken = member("b", "", 2, &[(9, 19)]);
    // Somebody who has not heard yet that a has slot 9.
    let lagging = answer(9, &[member("a", "", 9, &[(0, 8)]), taken.clone()]);
    let kept = ["a:1 [] 0-9", "b:1 [] 10-19"].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&known, &lagging]), (kept.clone(), Verdict::Outdated));
    // a itself says that it has not got it.
    let given = ["a:1 [] 0-8", "b:1 [] 9-19"].map(str::to_owned).to_vec();
    let itself = answer(9, &[Member { is_asked: true, ..member("a", "", 9, &[(0, 8)]) }, taken.clone()]);
    assert_eq!(joined(&[&known, &itself]), (given, Verdict::Joined));
    // The cluster has forgotten a, and its slots were given to b by hand.
    let all = member("b", "", 2, &[(0, 19)]);
    let forgotten = answer(9, std::slice::from_ref(&all));
    assert_eq!(joined(&[&known, &forgotten]), (vec!["b:1 [] 0-19".to_owned()], Verdict::Joined));
    // But not by one who was cut off since before a came.
    for cut_off in [Answer { is_ok: false, ..forgotten.clone() }, Answer { epoch: 8, ..forgotten }] {
        assert_eq!(joined(&[&known, &cut_off]), (kept.clone(), Verdict::Outdated));
    }
    // Nor by one who has not heard of a yet, of whom we know from one that is cut off since.
    let early = answer(8, &[all]);
    let cut_off = Answer { is_ok: false, ..known };
    assert_eq!(joined(&[&early, &cut_off, &early]), (kept, Verdict::Outdated));
}

#[test]
fn an_empty_primary_can_become_a_replica_with_a_lower_epoch() {
    let known = answer(9, &[member("a", "", 9, &[]), member("b", "", 2, &[(0, 19)])]);
    let adopted = answer(9, &[member("a", "b", 2, &[]), member("b", "", 2, &[(0, 19)])]);
    assert_eq!(joined(&[&known, &adopted]).0, ["b:1 [a:1] 0-19"]);
}

#[test]
fn primaries_without_slots_follow_those_with_slots() {
    let owners = [member("b", "", 2, &[(10, 19)]), member("c", "", 1, &[(0, 9)])];
    let (newcomer, failed) = (member("a", "", 0, &[]), Member { is_failed: true, ..member("d", "", 0, &[]) });
    let all = [&owners[..], &[newcomer, failed, member("e", "a", 0, &[])]].concat();
    let expected = ["c:1 [] 0-9", "b:1 [] 10-19", "a:1 [e:1] "].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&answer(3, &all)]).0, expected);
    // They do not make a cluster in which nobody has a slot.
    assert_eq!(joined(&[&answer(3, &all[2..])]).0, Vec::<String>::new());
}

#[test]
fn strangers_are_refused() {
    let ours = answer(3, &[member("a", "", 1, &[(0, 9)]), member("b", "", 2, &[(10, 19)])]);
    let theirs = answer(99, &[member("x", "", 99, &[(0, 19)])]);
    let kept = ["a:1 [] 0-9", "b:1 [] 10-19"].map(str::to_owned).to_vec();
    assert_eq!(joined(&[&ours, &theirs]), (kept, Verdict::Strange));
}

#[test]
fn forgotten_nodes_are_not_asked_any_more() {
    let mut map = ClusterMap::default();
    map.join(&answer(3, &[member("a", "", 1, &[(0, 9)]), member("b", "a", 1, &[]), member("c", "", 2, &[])]));
    map.join(&answer(3, &[member("a", "", 1, &[(0, 9)])]));
    assert_eq!(map.addresses().cloned().collect::<Vec<_>>(), [tcp("a", 1).expect("valid")]);
}

fn discovery(seeds: &[&str], seed: u64) -> Discovery {
    let seeds = seeds.iter().map(|seed| address(seed)).collect();
    let settings =
        ClusterSettings { seeds, period: Duration::from_secs(10), is_tls: false, greeting: None, seed };
    Discovery::Cluster(Box::new(ClusterDiscovery::new(settings)))
}

/// The answer of a node of an old Redis that sees `lines`.
fn node(epoch: u64, lines: String) -> impl FnMut(&[String]) -> Option<Vec<u8>> {
    move |request| match request[1].as_str() {
        "INFO" => Some(bulk(&format!("cluster_state:ok\r\ncluster_current_epoch:{epoch}\r\n"))),
        "NODES" => Some(bulk(&lines)),
        _ => Some(ERROR.to_vec()),
    }
}

const TWO: &str = "aa a:1@2 master - 0 0 1 connected 0-9999\n\
    bb b:1@2 master - 0 0 2 connected 10000-16383\n\
    cc c:1@2 slave aa 0 0 1 connected\n";
const PROMOTED: &str = "aa a:1@2 master,fail - 0 0 1 connected\n\
    bb b:1@2 master - 0 0 2 connected 10000-16383\n\
    cc c:1@2 master - 0 0 3 connected 0-9999\n";

/// Three nodes that see the same, and a discovery that knows one of them.
fn world<'a>() -> World<'a> {
    let mut world = World::new(discovery(&["a:1"], 1));
    show(&mut world, TWO, 2);
    world
}

fn show(world: &mut World<'_>, lines: &str, epoch: u64) {
    for address in ["a:1", "b:1", "c:1"] {
        world.put(address, node(epoch, lines.to_owned()));
    }
}

#[test]
fn one_seed_is_enough_and_quiet_follows() {
    let mut world = world();
    world.run_for(Duration::from_secs(8));
    assert_eq!(lines(&world.views[0].shards), ["a:1 [c:1] 0-9999", "b:1 [] 10000-16383"]);
    assert_eq!(world.news, [News::Found { by: address("a:1"), shards: 2, nodes: 3 }]);
    assert_eq!(world.connected, [("a:1".to_owned(), Party::Node)]);
    world.run_for(Duration::from_secs(92));
    assert!((9..=11).contains(&world.connected.len()), "{:?}", world.connected);
    assert!(world.connected.iter().any(|(address, _)| address == "b:1"), "seeds are hints only");
    assert_eq!((world.views.len(), world.discovery.tally().failures), (1, 0));
}

#[test]
fn other_nodes_are_asked_until_a_down_primary_is_replaced() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    world.kill("a:1");
    world.wish(Wish::Down(address("a:1")));
    let before = world.connected.len();
    world.run_for(Duration::from_secs(3));
    let asked = &world.connected[before..];
    assert!((30..=62).contains(&asked.len()), "every 50 to 100 ms, not {} times in 3 s", asked.len());
    assert!(asked.iter().all(|(address, _)| address != "a:1"), "whoever is down is not asked");
    let heirs = asked.iter().filter(|(address, _)| address == "c:1").count();
    assert!(heirs * 2 > asked.len(), "those that may follow it are asked most: {heirs} of {}", asked.len());
    show(&mut world, PROMOTED, 3);
    world.run_for(Duration::from_millis(100));
    assert_eq!(lines(&world.views[1].shards), ["c:1 [] 0-9999", "b:1 [] 10000-16383"]);
    assert!(
        world.news.contains(&News::Changed("10000 slots (the first is 0) moved from a:1 to c:1".to_owned()))
    );
    let before = world.connected.len();
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.connected.len(), before, "and then there is quiet");
}

#[test]
fn a_failover_that_does_not_come_is_not_waited_for_in_a_hurry() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    world.kill("a:1");
    world.wish(Wish::Down(address("a:1")));
    world.run_for(Duration::from_secs(180));
    let before = world.connected.len();
    world.run_for(Duration::from_secs(60));
    let asked = world.connected.len() - before;
    assert!((60..=120).contains(&asked), "{asked} times in a minute");
    world.wish(Wish::Up(address("a:1")));
    world.run_for(Duration::from_secs(1));
    let before = world.connected.len();
    world.run_for(Duration::from_secs(5));
    assert_eq!(world.connected.len(), before, "it is back as what it was");
}

#[test]
fn a_node_that_says_nothing_costs_no_more_than_a_moment() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    world.cut.insert("b:1".to_owned());
    world.wish(Wish::Down(address("a:1")));
    show(&mut world, PROMOTED, 3);
    world.run_for(Duration::from_millis(600));
    assert_eq!(lines(&world.views[1].shards)[0], "c:1 [] 0-9999");
}

const GROWN: &str = "aa a:1@2 master - 0 0 1 connected 0-9999\n\
    bb b:1@2 master - 0 0 2 connected 10001-16383\n\
    cc c:1@2 slave aa 0 0 1 connected\n\
    dd d:1@2 master - 0 0 4 connected 10000\n";

/// A node that has come is known to itself, and a redirect names it.
fn world_that_has_grown<'a>(seed: u64) -> World<'a> {
    let mut world = World::new(discovery(&["a:1"], seed));
    show(&mut world, TWO, 2);
    world.run_for(Duration::from_secs(5));
    world.put("d:1", node(4, GROWN.to_owned()));
    world
}

#[test]
fn whoever_is_slow_is_not_waited_for_alone() {
    for seed in 0..20 {
        let mut world = world_that_has_grown(seed);
        show(&mut world, GROWN, 4);
        world.slow.insert("d:1".to_owned(), Duration::from_secs(2));
        world.wish(Wish::Redirected(address("d:1")));
        world.run_for(Duration::from_millis(110));
        assert_eq!(world.views.len(), 2, "seed {seed}: another was asked");
        assert_eq!(lines(&world.views[1].shards)[1], "d:1 [] 10000-10000");
        let asked = world.connected.len();
        world.run_for(Duration::from_secs(5));
        assert_eq!(world.connected.len(), asked, "seed {seed}: and then there is quiet");
        assert_eq!(world.discovery.tally().failures, 1, "seed {seed}");
    }
}

#[test]
fn what_comes_late_is_joined_as_any_answer_is() {
    let mut world = world_that_has_grown(1);
    // It is asked twice: it is of an age that does not know SHARDS.
    world.slow.insert("d:1".to_owned(), Duration::from_millis(200));
    world.wish(Wish::Redirected(address("d:1")));
    world.run_for(Duration::from_millis(399));
    assert_eq!(
        (world.views.len(), world.discovery.tally().failures),
        (1, 0),
        "the others have not heard of it"
    );
    world.run_for(Duration::from_millis(2));
    assert_eq!(lines(&world.views[1].shards)[1], "d:1 [] 10000-10000");
    // A late answer, true when it was asked for, reverts nothing.
    let mut world = world_that_has_grown(1);
    for late in ["a:1", "b:1", "c:1"] {
        world.slow.insert(late.to_owned(), Duration::from_millis(400));
    }
    world.wish(Wish::Look);
    world.run_for(Duration::from_millis(10));
    world.wish(Wish::Redirected(address("d:1")));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.views.len(), 2);
    assert_eq!(lines(&world.views[1].shards)[1], "d:1 [] 10000-10000");
    assert!(world.discovery.tally().refusals > 0, "a:1 was late");
}

#[test]
fn redirect_to_an_unknown_node_is_followed_for_two_seconds() {
    let mut world = world_that_has_grown(1);
    world.kill("d:1");
    world.wish(Wish::Redirected(address("d:1")));
    world.run_for(Duration::from_millis(700));
    show(&mut world, GROWN, 4);
    world.run_for(Duration::from_millis(110));
    assert_eq!(world.views.len(), 2, "they are asked again and again");
    let before = world.connected.len();
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.connected.len(), before);
    world.wish(Wish::Redirected(address("e:1")));
    world.run_for(Duration::from_secs(10));
    let asked = world.connected.len() - before;
    assert!((18..=25).contains(&asked), "{asked} times, mostly within 2 s");
}

#[test]
fn a_node_that_turns_out_to_be_down_is_not_waited_for() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    // It is frozen. Workers first notice late requests, so that a newer map would be good: it may be the very node that
    // is asked for one.
    world.cut.insert("a:1".to_owned());
    world.wish(Wish::Redirected(address("a:1")));
    world.run_for(Duration::from_millis(50));
    assert_eq!(world.connected.last(), Some(&("a:1".to_owned(), Party::Node)));
    show(&mut world, PROMOTED, 3);
    world.wish(Wish::Down(address("a:1")));
    world.run_for(Duration::from_millis(200));
    assert_eq!(
        world.views.last().map(|view| lines(&view.shards)[0].clone()),
        Some("c:1 [] 0-9999".to_owned())
    );
}

#[test]
fn a_storm_of_redirects_is_a_breeze_to_the_nodes() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    let before = world.connected.len();
    for _ in 0..1000 {
        world.wish(Wish::Redirected(address("b:1")));
        world.run_for(Duration::from_millis(1));
    }
    let asked = world.connected.len() - before;
    assert!((8..=11).contains(&asked), "{asked} times in a second");
}

#[test]
fn a_hint_to_strangers_is_followed_once_and_not_believed() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    world.put("x:1", node(99, "xx x:1@2 master - 0 0 99 connected 0-16383\n".to_owned()));
    world.wish(Wish::Redirected(address("x:1")));
    world.run_for(Duration::from_secs(2));
    assert_eq!(world.connected.iter().filter(|(address, _)| address == "x:1").count(), 1);
    assert_eq!(world.news.last(), Some(&News::Stranger { address: address("x:1") }));
    assert_eq!((world.views.len(), world.discovery.tally().refusals), (1, 1));
}

#[test]
fn address_taken_by_a_foreign_cluster_gets_no_requests() {
    let mut world = world();
    world.run_for(Duration::from_secs(5));
    world.kill("b:1");
    world.wish(Wish::Down(address("b:1")));
    world.run_for(Duration::from_secs(1));
    world.put("b:1", node(99, "xx b:1@2 master - 0 0 99 connected 0-16383\n".to_owned()));
    world.wish(Wish::Up(address("b:1")));
    world.run_for(Duration::from_millis(250));
    assert_eq!(lines(&world.views[1].shards), ["a:1 [c:1] 0-9999", "nobody [] 10000-16383"]);
    assert!(world.news.contains(&News::Stranger { address: address("b:1") }));
    world.put("b:1", node(2, TWO.to_owned()));
    world.wish(Wish::Up(address("b:1")));
    world.run_for(Duration::from_millis(250));
    assert_eq!(lines(&world.views[2].shards)[1], "b:1 [] 10000-16383");
}

#[test]
fn seeds_that_are_of_no_use_are_named_once_and_tried_again() {
    let mut world = World::new(discovery(&["a:1", "b:1", "c:1"], 3));
    world.put("a:1", |_| Some(b"-ERR This instance has cluster support disabled\r\n".to_vec()));
    world.put("b:1", |_| Some(b"-LOADING Redis is loading the dataset in memory\r\n".to_vec()));
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.news.len(), 3, "{:?}", world.news);
    assert!(world.news.contains(&News::NoCluster { address: address("a:1") }));
    let refused = News::NoAnswer { address: address("c:1"), reason: "connection refused".to_owned() };
    assert!(world.news.contains(&refused));
    assert!((60..=120).contains(&world.connected.len()), "{}", world.connected.len());
    world.put("b:1", node(2, TWO.to_owned()));
    world.run_for(Duration::from_secs(4));
    assert_eq!(world.views.len(), 1);
}

#[test]
fn minority_node_is_heard_and_others_are_asked_at_once() {
    let mut world = World::new(discovery(&["a:1"], 1));
    world.put("a:1", |request: &[String]| match request[1].as_str() {
        "INFO" => Some(bulk("cluster_state:fail\r\ncluster_current_epoch:2\r\n")),
        "NODES" => Some(bulk(TWO)),
        _ => Some(ERROR.to_vec()),
    });
    for address in ["b:1", "c:1"] {
        world.put(address, node(3, PROMOTED.replace("fail", "fail?")));
    }
    world.run_for(Duration::from_secs(1));
    assert_eq!(lines(&world.views[0].shards)[0], "a:1 [c:1] 0-9999");
    assert_eq!(lines(&world.views[1].shards)[0], "c:1 [] 0-9999");
    assert_eq!(world.views.len(), 2, "a:1 takes nothing back: {:?}", world.views);
}

/// A cluster that changes as Redis's does, and what its nodes have heard of it.
struct Model {
    prng: Prng,
    epoch: u64,
    /// By name: the epoch and the slots of each primary that has been one.
    primaries: BTreeMap<usize, (u64, Vec<usize>)>,
    replicas: BTreeMap<usize, usize>,
    /// All that was ever so, the newest last.
    history: Vec<Vec<Member>>,
}

/// Parts of the keyspace that move as one, to keep the model quick.
const PARTS: usize = 16;

impl Model {
    fn new(seed: u64) -> Model {
        let mut prng = Prng::new(seed);
        let shards = 2 + prng.below(3) as usize;
        let part = |shard: usize| (0..PARTS).filter(|part| part % shards == shard).collect();
        let primaries = (0..shards).map(|shard| (shard, (shard as u64 + 1, part(shard)))).collect();
        let replicas = (0..shards).map(|shard| (shards + shard, shard)).collect();
        let mut model = Model { prng, epoch: shards as u64, primaries, replicas, history: Vec::new() };
        model.record();
        model
    }

    fn members(&self) -> Vec<Member> {
        let name = |node: usize| format!("n{node}");
        let range = |part: &usize| ((part * 1024) as u16, (part * 1024 + 1023) as u16);
        let primaries = self.primaries.iter().map(|(node, (epoch, parts))| {
            let ranges: Vec<(u16, u16)> = parts.iter().map(range).collect();
            member(&name(*node), "", *epoch, &ranges)
        });
        let replicas = self
            .replicas
            .iter()
            .map(|(node, primary)| member(&name(*node), &name(*primary), self.primaries[primary].0, &[]));
        primaries.chain(replicas).collect()
    }

    fn record(&mut self) {
        self.history.push(self.members());
    }

    /// A replica is promoted, or a part of the keyspace moves.
    fn step(&mut self) {
        if self.prng.one_in(2) {
            let replicas: Vec<usize> = self.replicas.keys().copied().collect();
            let heir = *self.prng.pick(&replicas);
            let old = self.replicas.remove(&heir).expect("it is one");
            let (_, parts) = self.primaries.remove(&old).expect("it has one");
            self.epoch += 1;
            self.primaries.insert(heir, (self.epoch, parts));
            self.replicas.values_mut().filter(|primary| **primary == old).for_each(|primary| *primary = heir);
            self.replicas.insert(old, heir);
        } else {
            let all: Vec<usize> = self.primaries.keys().copied().collect();
            let (from, to) = (*self.prng.pick(&all), *self.prng.pick(&all));
            let parts = &mut self.primaries.get_mut(&from).expect("it is one").1;
            if from != to && parts.len() > 1 {
                let part = parts.pop().expect("more than one");
                let target = self.primaries.get_mut(&to).expect("it is one");
                target.1.push(part);
                // As SETSLOT at the importing node does it: a new epoch, unless it has the highest already.
                if target.0 != self.epoch {
                    self.epoch += 1;
                    target.0 = self.epoch;
                }
            }
        }
        self.record();
    }

    /// The answer of a node that has heard of each other one at some time, and that may be cut off. Of itself it knows
    /// all, unless it is.
    fn lagging(&mut self, asked: &str, since: usize) -> Answer {
        let newest = self.history.len() - 1;
        let is_cut_off = self.prng.one_in(3);
        let ages: Vec<usize> =
            (0..16).map(|_| since + self.prng.below((newest - since + 1) as u64) as usize).collect();
        let mut nodes: Vec<Member> = self.history[newest]
            .iter()
            .zip(ages)
            .filter_map(|(member, age)| {
                let is_asked = member.id == asked;
                let at = if is_asked && !is_cut_off { newest } else { age };
                let heard = self.history[at].iter().find(|other| other.id == member.id)?;
                Some(Member { is_asked, ..heard.clone() })
            })
            .collect();
        settle(&mut nodes);
        let epoch = self.history.len() as u64 + if is_cut_off { 1000 } else { 0 };
        Answer { epoch, is_ok: !is_cut_off, nodes }
    }
}

/// As nodes do it: of two that claim a slot, the one with the higher epoch has it.
fn settle(nodes: &mut [Member]) {
    let mut best: BTreeMap<u16, u64> = BTreeMap::new();
    for member in nodes.iter() {
        for range in &member.slots {
            let epoch = best.entry(*range.start()).or_default();
            *epoch = (*epoch).max(member.epoch);
        }
    }
    for member in nodes {
        let epoch = member.epoch;
        member.slots.retain(|range| best[range.start()] == epoch);
    }
}

/// Which part is whose.
fn owners(shards: &[ShardSpec]) -> BTreeMap<u16, String> {
    let mut owners = BTreeMap::new();
    for shard in shards {
        for slot in shard.slots.iter().cloned().flatten().filter(|slot| slot % 1024 == 0) {
            owners.insert(slot, shard.name.clone());
        }
    }
    owners
}

#[test]
fn no_answer_takes_back_what_is_known_to_be_newer() {
    for seed in 0..200 {
        let mut model = Model::new(seed);
        let mut map = ClusterMap::default();
        for _ in 0..40 {
            if model.prng.one_in(2) {
                model.step();
            }
            let newest = model.history.last().expect("there is one").clone();
            let asked = model.prng.pick(&newest).id.clone();
            let answer = match model.prng.one_in(4) {
                true => answer(model.history.len() as u64, &newest),
                false => {
                    let since = model.prng.below(model.history.len() as u64) as usize;
                    model.lagging(&asked, since)
                }
            };
            map.join(&answer);
            let view = map.view();
            if answer.is_ok && answer.nodes.iter().all(|member| newest.iter().any(|new| same(new, member))) {
                let mut truth = ClusterMap::default();
                truth.join(&Answer { nodes: newest.clone(), ..answer });
                let truth = truth.view().shards;
                assert_eq!(owners(&view.shards), owners(&truth), "seed {seed}: it was told all");
            }
        }
        // Whatever came before, one node that knows all is enough, and nobody who lags behind undoes it.
        let newest = model.history.last().expect("there is one").clone();
        let whole = answer(model.history.len() as u64, &newest);
        map.join(&whole);
        let truth = owners(&map.view().shards);
        let mut fresh = ClusterMap::default();
        fresh.join(&whole);
        assert_eq!(truth, owners(&fresh.view().shards), "seed {seed}");
        for _ in 0..20 {
            let asked = model.prng.pick(&newest).id.clone();
            let late = model.lagging(&asked, 0);
            map.join(&late);
            assert_eq!(owners(&map.view().shards), truth, "seed {seed}: {late:?}");
        }
    }
}

fn same(one: &Member, other: &Member) -> bool {
    (&one.id, &one.primary, one.epoch, &one.slots) == (&other.id, &other.primary, other.epoch, &other.slots)
}

#[test]
fn at_most_four_questions_at_once_and_one_per_50_ms() {
    for seed in 0..30 {
        let mut prng = Prng::new(seed);
        let mut world = World::new(discovery(&["a:1", "b:1"], seed));
        show(&mut world, TWO, 2);
        let (mut asked, mut most_open) = (0, 0);
        for _ in 0..200 {
            let address = address(["a:1", "b:1", "c:1", "x:1"][prng.below(4) as usize]);
            match prng.below(6) {
                0 => world.wish(Wish::Down(address)),
                1 => world.wish(Wish::Up(address)),
                2 => world.wish(Wish::Redirected(address)),
                3 => world.wish(Wish::Look),
                4 => drop(world.cut.insert(address.to_string())),
                _ => world.cut.clear(),
            }
            match prng.one_in(4) {
                true => drop(world.slow.insert("a:1".to_owned(), Duration::from_millis(prng.below(1500)))),
                false => world.slow.clear(),
            }
            let before = (world.connected.len(), world.now);
            world.run_for(Duration::from_millis(prng.below(400)));
            asked += world.connected.len() - before.0;
            let most = 2 + world.now.since(before.1).as_millis() as usize / 50;
            assert!(world.connected.len() - before.0 <= most, "seed {seed}");
            most_open = most_open.max(world.open.len());
        }
        assert!((2..=4).contains(&most_open), "seed {seed}: {most_open} at once");
        assert!(asked > 10, "seed {seed}");
        assert!(world.now > Instant::ZERO);
        assert!(world.views.len() <= 1, "seed {seed}: nothing has changed");
    }
}
