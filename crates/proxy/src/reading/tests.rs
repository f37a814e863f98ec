//! Policies, fitness and own writes, over nodes whose reports the test writes.

use super::*;
use topology::{TopologySpec, parse_nodes};

const SHARD: ShardId = ShardId(0);
const HISTORY: ReplicationId = [b'a'; 40];

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn topology(list: &str) -> Topology {
    let nodes = parse_nodes(list).expect("valid");
    Topology::new(1, &TopologySpec { nodes, ..TopologySpec::default() }).expect("valid")
}

/// One shard with the settings `reading`: node 0 is the primary, nodes 1 and 2 are replicas, the last in zone z.
struct Rig {
    readers: Readers,
    limits: Limits,
    down: Vec<u32>,
}

impl Rig {
    fn new(reading: Reading) -> Rig {
        let mut readers = Readers::new(reading);
        readers.follow(&topology("a:1@y|b:1@y|c:1@z"), at(0));
        Rig { readers, limits: Limits::default(), down: Vec::new() }
    }

    /// A rig whose replicas are linked and have all writes.
    fn healthy(from: ReadFrom) -> Rig {
        let mut rig = Rig::new(Reading { from, zone: Some("z".to_owned()), ..Reading::default() });
        rig.poll(0, [Some(10), Some(10), Some(10)]);
        rig
    }

    /// Polls all nodes at `ms`. Each answers with its offset; without one, its answer is lost.
    fn poll(&mut self, ms: u64, offsets: [Option<u64>; 3]) {
        for (node, offset) in (0..).map(NodeId).zip(offsets) {
            let poll = self.readers.note_asked(SHARD, node, at(ms));
            let report = offset.map(|offset| Report {
                is_primary: node.0 == 0,
                link_is_up: true,
                offset: Some(offset),
                history: Some(HISTORY),
            });
            self.readers.absorb((SHARD, node), poll, report, at(ms));
        }
    }

    /// Lets `node` answer at `ms` with a healthy replica's report after `change`.
    fn tell(&mut self, ms: u64, node: u32, change: impl FnOnce(&mut Report)) {
        let mut report =
            Report { is_primary: false, link_is_up: true, offset: Some(10), history: Some(HISTORY) };
        change(&mut report);
        let poll = self.readers.note_asked(SHARD, NodeId(node), at(ms));
        self.readers.absorb((SHARD, NodeId(node)), poll, Some(report), at(ms));
    }

    fn choose(&mut self, ms: u64, client: u64, written: Option<Written>) -> Choice {
        let from = self.readers.reading.from;
        let asker = Asker { from, client, written, now: at(ms) };
        self.readers.choose(SHARD, asker, &self.limits, |node| !self.down.contains(&node.0))
    }

    /// The numbers of reads of a thousand clients, by node.
    fn shares(&mut self, ms: u64) -> [usize; 3] {
        let mut shares = [0; 3];
        for client in 0..1000 {
            match self.choose(ms, client * 4 + 1, None) {
                Choice::Replica(node) => shares[node.0 as usize] += 1,
                Choice::Primary | Choice::Fallback => shares[0] += 1,
                other => panic!("client {client}: {other:?}"),
            }
        }
        shares
    }

    /// The one node that all clients read from.
    fn all_read(&mut self, ms: u64) -> usize {
        let shares = self.shares(ms);
        shares.iter().position(|&share| share == 1000).unwrap_or_else(|| panic!("{shares:?}"))
    }
}

#[test]
fn policies_print_as_they_are_written() {
    for (word, from) in ReadFrom::WORDS {
        assert_eq!((word.parse(), from.to_string().as_str()), (Ok(from), word));
        assert_eq!(ReadFrom::WORDS[from as usize], (word, from), "they are counted by their places");
    }
    let refusal = "slave".parse::<ReadFrom>().expect_err("an old word");
    assert_eq!(refusal, "write one of primary, prefer-primary, replica, prefer-replica, any, nearest, zone");
}

#[test]
fn only_reads_with_equal_results_may_go_to_a_replica() {
    let may = |name: &str| {
        let command = command::find(name.as_bytes()).unwrap_or_else(|| panic!("{name}"));
        may_read_replica(command)
    };
    for name in ["get", "mget", "hgetall", "zrange", "sort_ro", "eval_ro", "exists", "dump", "sinter"] {
        assert!(may(name), "{name}");
    }
    for name in [
        "set", "getdel", "eval", "sort", "pfcount", "scan", "hscan", "keys", "dbsize", "xread", "touch",
        "ping", "publish", "info",
    ] {
        assert!(!may(name), "{name}");
    }
}

#[test]
fn each_policy_chooses_among_healthy_nodes() {
    for (from, chosen) in [(ReadFrom::Primary, 0), (ReadFrom::PreferPrimary, 0), (ReadFrom::Zone, 2)] {
        assert_eq!(Rig::healthy(from).all_read(1), chosen, "{from}");
    }
    for from in [ReadFrom::Replica, ReadFrom::PreferReplica] {
        let [primary, first, second] = Rig::healthy(from).shares(1);
        assert!(primary == 0 && first > 400 && second > 400, "{from}: {first} {second}");
    }
    let shares = Rig::healthy(ReadFrom::Any).shares(1);
    assert!(shares.iter().all(|&share| share > 250), "{shares:?}");
}

#[test]
fn a_client_keeps_to_one_replica() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let first = rig.choose(1, 7, None);
    for ms in 2..50 {
        assert_eq!(rig.choose(ms, 7, None), first);
    }
}

#[test]
fn without_a_fit_replica_each_policy_falls_back_as_defined() {
    let expected = [
        (ReadFrom::Primary, Choice::Primary),
        (ReadFrom::PreferPrimary, Choice::Primary),
        (ReadFrom::Replica, Choice::Nowhere),
        (ReadFrom::PreferReplica, Choice::Fallback),
        (ReadFrom::Any, Choice::Fallback),
        (ReadFrom::Nearest, Choice::Fallback),
        (ReadFrom::Zone, Choice::Fallback),
    ];
    for (from, choice) in expected {
        let mut rig = Rig::healthy(from);
        rig.down = vec![1, 2];
        assert_eq!(rig.choose(1, 1, None), choice, "{from}");
    }
}

#[test]
fn unfit_replica_is_skipped_while_unfit() {
    type FallIll<'a> = &'a dyn Fn(&mut Rig);
    let ills: [(&str, FallIll<'_>); 4] = [
        ("its link to the primary is down", &|rig| rig.tell(5, 1, |report| report.link_is_up = false)),
        ("it is not a replica", &|rig| rig.tell(5, 1, |report| report.is_primary = true)),
        ("it does not answer", &|rig| {
            rig.readers.note_asked(SHARD, NodeId(1), at(5));
        }),
        ("its replication state is unknown", &|rig| {
            rig.readers.absorb((SHARD, NodeId(1)), 0, None, at(5));
        }),
    ];
    for (why, fall_ill) in ills {
        let mut rig = Rig::healthy(ReadFrom::PreferReplica);
        fall_ill(&mut rig);
        assert_eq!(rig.all_read(400), 2, "{why}");
        assert_eq!(rig.readers.unfit_because(SHARD, &rig.limits, at(400)), why);
        rig.tell(401, 1, |_| {});
        assert!(rig.shares(402)[1] > 400, "{why}: it is well again");
    }
}

#[test]
fn lagging_or_silent_replica_is_not_read_under_a_lag_limit() {
    let from = ReadFrom::PreferReplica;
    let mut rig = Rig::new(Reading { from, lag_bytes_max: Some(100), ..Reading::default() });
    rig.poll(1, [Some(1000), Some(900), Some(899)]);
    assert_eq!(rig.all_read(2), 1);
    rig.tell(3, 1, |report| report.offset = None);
    assert_eq!(rig.choose(4, 1, None), Choice::Fallback);
    rig.tell(5, 1, |report| (report.offset, report.history) = (Some(1000), Some([b'b'; 40])));
    assert_eq!(rig.choose(6, 1, None), Choice::Fallback, "offsets of another history say nothing");
    // Without a lag limit, both are read from.
    let mut rig = Rig::healthy(from);
    rig.tell(3, 1, |report| report.offset = None);
    assert!(rig.shares(4)[1] > 400);
}

#[test]
fn own_writes_are_read_from_nodes_that_have_them() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    assert_eq!(rig.choose(5, 1, written), Choice::OwnWrite);
    // The primary is asked after the write was answered, and reports an offset. One replica has reached the offset.
    rig.poll(10, [Some(30), Some(30), Some(29)]);
    let others = (0..50).map(|client| rig.choose(11, client, written));
    assert!(others.into_iter().all(|choice| choice == Choice::Replica(NodeId(1))));
    // Long after, both have the write.
    rig.poll(5000, [Some(90), Some(30), Some(30)]);
    let nodes: Vec<_> = (0..50).map(|client| rig.choose(5001, client, written)).collect();
    assert!(nodes.contains(&Choice::Replica(NodeId(2))), "{nodes:?}");
    assert_eq!(
        rig.choose(5001, 1, Some(Written { poll: rig.readers.polls(SHARD), at: at(5000) })),
        Choice::OwnWrite
    );
}

#[test]
fn keys_of_a_gained_slot_count_as_just_written() {
    let mut rig = Rig::healthy(ReadFrom::Replica);
    assert!(matches!(rig.choose(10, 1, None), Choice::Replica(_)));
    rig.readers.note_gains([SHARD].into(), at(20));
    assert_eq!(rig.choose(20, 1, None), Choice::OwnWrite, "the replicas may not have it");
    rig.poll(30, [Some(50), Some(50), Some(40)]);
    assert_eq!(rig.choose(30, 1, None), Choice::Replica(NodeId(1)), "it has all that came");
}

#[test]
fn own_writes_wait_out_replicas_without_offsets() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    for node in [1, 2] {
        rig.tell(1, node, |report| report.offset = None);
    }
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    let patience = rig.limits.own_write_patience.as_millis() as u64;
    assert_eq!(rig.choose(5 + patience - 1, 1, written), Choice::OwnWrite);
    assert!(matches!(rig.choose(5 + patience, 1, written), Choice::Replica(_)));
    // But a replica that reports a smaller offset is never taken to have the write.
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    rig.poll(10, [Some(30), Some(29), Some(29)]);
    assert_eq!(rig.choose(100_000, 1, written), Choice::OwnWrite);
}

#[test]
fn a_replica_that_is_always_seconds_behind_is_followed() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    // The primary's offset grows by 1 with each poll, and the replicas have a lag of 500.
    let seen = (1..2000u64).find(|&round| {
        let behind = Some((10 + round).saturating_sub(500).max(10));
        rig.poll(10 * round, [Some(10 + round), behind, behind]);
        matches!(rig.choose(10 * round, 1, written), Choice::Replica(_))
    });
    let seen = seen.expect("they come there");
    assert!((500..1100).contains(&seen), "after {seen} polls");
    assert!(rig.readers.shards[0].points.len() <= POINTS_MAX);
}

#[test]
fn another_primary_counts_anew() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    // Its replicas have its history, and one of them lacks all of it.
    rig.tell(6, 1, |report| (report.offset, report.history) = (Some(500), Some([b'b'; 40])));
    assert_eq!(rig.choose(7, 1, written), Choice::OwnWrite);
    rig.tell(8, 0, |report| {
        *report = Report { is_primary: true, history: Some([b'b'; 40]), offset: Some(400), ..*report };
    });
    assert_eq!(rig.choose(9, 1, written), Choice::Replica(NodeId(1)));
}

/// A client has written to node 0, which has just become the primary. Node 1 was the primary before, and node 2 still
/// follows node 1.
fn failover(told_by_primary: Option<ReplicationId>) -> (Rig, Option<Written>) {
    let mut rig = Rig::new(Reading { from: ReadFrom::PreferReplica, ..Reading::default() });
    let old = Some([b'o'; 40]);
    rig.tell(1, 0, |report| {
        *report = Report { is_primary: true, history: told_by_primary, offset: Some(20), ..*report };
    });
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    rig.tell(6, 1, |report| *report = Report { is_primary: true, history: old, offset: Some(90), ..*report });
    rig.tell(6, 2, |report| (report.offset, report.history) = (Some(90), old));
    (rig, written)
}

#[test]
fn replica_of_an_old_history_never_covers_new_writes() {
    let (mut rig, written) = failover(Some([b'n'; 40]));
    assert_eq!(rig.choose(7, 1, written), Choice::OwnWrite);
    assert_eq!(rig.choose(100_000, 1, written), Choice::OwnWrite, "however long that is ago");
    assert_eq!(rig.choose(100_000, 1, None), Choice::Replica(NodeId(2)), "to others it only lags");
    // Node 2 follows the new primary and has reached its offset.
    rig.poll(100_001, [Some(30), None, Some(30)]);
    assert_eq!(rig.choose(100_002, 1, written), Choice::Replica(NodeId(2)));
    // A primary that does not report its history gives no bound.
    let (mut rig, written) = failover(None);
    let patience = rig.limits.own_write_patience.as_millis() as u64;
    assert_eq!(rig.choose(5 + patience - 1, 1, written), Choice::OwnWrite);
    assert_eq!(rig.choose(5 + patience, 1, written), Choice::Replica(NodeId(2)));
}

#[test]
fn reads_wait_for_the_history_of_a_new_primary() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let before = topology("a:1@y|b:1@y|c:1@z");
    let shard = topology::ShardSpec {
        name: before.shard(SHARD).name.clone(),
        primary: Some(topology::NodeSpec::tcp("b", 1)),
        replicas: vec![topology::NodeSpec::tcp("a", 1), topology::NodeSpec::tcp("c", 1)],
        slots: Vec::new(),
    };
    rig.readers.follow(&before.succeed(2, &[shard]).expect("valid"), at(20));
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(21) });
    // The last report of node 1 is from its time as a replica, and it may be slow to answer again.
    assert_eq!(rig.choose(5000, 1, written), Choice::OwnWrite);
}

#[test]
fn former_primary_does_not_bound_writes_of_the_next() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    // A redirect led the client to the next primary, which the topology does not know yet.
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    rig.tell(10, 0, |_| {});
    assert_eq!(rig.choose(11, 1, written), Choice::OwnWrite, "node 0 says that it is a replica");
    assert_eq!(rig.choose(5000, 1, written), Choice::OwnWrite);
}

#[test]
fn nearest_node_changes_only_beyond_noise() {
    let mut rig = Rig::new(Reading { from: ReadFrom::Nearest, ..Reading::default() });
    let measure = |rig: &mut Rig, rtts_us: [u64; 3]| {
        for _ in 0..40 {
            for (node, rtt_us) in (0..).zip(rtts_us) {
                let asked = rig.readers.note_asked(SHARD, NodeId(node), at(0));
                let report = Report { is_primary: node == 0, link_is_up: true, ..Report::default() };
                let then = Instant::from_nanos(rtt_us * 1000);
                rig.readers.absorb((SHARD, NodeId(node)), asked, Some(report), then);
            }
        }
    };
    measure(&mut rig, [900, 2000, 1000]);
    assert_eq!(rig.all_read(1), 0);
    measure(&mut rig, [900, 2000, 820]);
    assert_eq!(rig.all_read(1), 0, "a tenth is noise");
    measure(&mut rig, [900, 2000, 500]);
    assert_eq!(rig.all_read(1), 2);
    rig.down = vec![2];
    assert_eq!(rig.all_read(1), 0);
}

#[test]
fn zone_reads_fall_back_to_the_zone_primary_then_afar() {
    let zone =
        |zone: &str| Reading { from: ReadFrom::Zone, zone: Some(zone.to_owned()), ..Reading::default() };
    let mut rig = Rig::new(zone("y"));
    rig.poll(0, [Some(10), Some(10), Some(10)]);
    assert_eq!(rig.all_read(1), 1);
    rig.down = vec![1];
    assert_eq!(rig.all_read(1), 0);
    let mut rig = Rig::new(zone("nowhere"));
    rig.poll(0, [Some(10), Some(10), Some(10)]);
    let [primary, first, second] = rig.shares(1);
    assert!(primary == 0 && first > 400 && second > 400);
}

#[test]
fn restored_replica_regains_clients_by_slow_start() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let whole = rig.shares(1)[1];
    rig.readers.suspect(SHARD, NodeId(1));
    assert_eq!(rig.all_read(2), 2);
    rig.tell(1000, 1, |_| {});
    let mut before = 0;
    for second in 1..=11 {
        let [primary, share, _] = rig.shares(1000 * second);
        let expected = whole * (second as usize - 1) / 10;
        assert!(primary == 0 && share.abs_diff(expected) < 60 && share >= before, "{share} of {whole}");
        before = share;
    }
    assert_eq!(before, whole);
    // At the start, no client has to wait for the share of a replica.
    assert_eq!(Rig::healthy(ReadFrom::PreferReplica).shares(0)[1], whole);
}

#[test]
fn slow_start_of_the_only_replica_leaves_reads_to_primary() {
    for (from, while_coming_back) in [
        (ReadFrom::PreferReplica, Choice::Primary),
        (ReadFrom::Any, Choice::Primary),
        (ReadFrom::Nearest, Choice::Primary),
        (ReadFrom::Zone, Choice::Primary),
        (ReadFrom::Replica, Choice::Replica(NodeId(2))),
    ] {
        let mut rig = Rig::healthy(from);
        rig.down = vec![1];
        rig.readers.suspect(SHARD, NodeId(2));
        rig.tell(1000, 2, |_| {});
        assert_eq!(rig.choose(1000, 1, None), while_coming_back, "{from}");
        rig.down = vec![0, 1];
        assert_eq!(rig.choose(1000, 1, None), Choice::Replica(NodeId(2)), "{from}: better than none");
        rig.down = vec![1];
        rig.limits.slow_start = Duration::ZERO;
        let replica = rig.shares(1000)[2];
        assert!(replica == 1000 || from == ReadFrom::Any && replica > 400, "{from}: {replica}");
    }
}

#[test]
fn zones_come_from_the_operator_or_else_from_the_node() {
    let ours = Some("z".to_owned());
    let mut readers =
        Readers::new(Reading { from: ReadFrom::Zone, zone: ours.clone(), ..Reading::default() });
    readers.follow(&topology("a:1@y|b:1@z|c:1|d:1"), at(0));
    let node = |number| (SHARD, NodeId(number));
    let zones = |readers: &Readers| -> Vec<Zone> {
        readers.shards[0].members.iter().map(|member| member.zone).collect()
    };
    let wanted = [0, 1, 2, 3].map(|number| readers.wants_zone_of(node(number)));
    assert_eq!(wanted, [false, false, true, true]);
    readers.note_zone(node(2), "z");
    readers.note_zone(node(3), "");
    let said = [Zone::Said(false), Zone::Said(true)];
    assert_eq!(zones(&readers), [said, [Zone::Told(true), Zone::Told(false)]].concat());
    // The zone that a node reported is known until the node may be another. The zone that an operator gave is known
    // as long as it is configured.
    readers.follow(&topology("a:1@y|b:1@z|c:1|d:1@z"), at(1));
    (1..4).for_each(|number| readers.suspect(SHARD, NodeId(number)));
    assert_eq!(zones(&readers), [said, [Zone::Unknown, Zone::Said(true)]].concat());
    assert!(readers.wants_zone_of(node(2)));
    // Without a policy by zones, no node is asked.
    let mut readers = Readers::new(Reading { from: ReadFrom::Any, zone: ours, ..Reading::default() });
    readers.follow(&topology("a:1|b:1"), at(0));
    assert!(!readers.wants_zone_of(node(1)));
}

#[test]
fn while_the_primary_is_down_its_replicas_may_cover_for_it() {
    let mut rig = Rig::new(Reading { covers_for_primary: true, ..Reading::default() });
    rig.poll(0, [Some(10), Some(10), Some(10)]);
    assert_eq!(rig.all_read(1), 0);
    rig.down = vec![0];
    assert!(rig.shares(1)[1] > 400);
    // A replica without a link to its primary, which is down, is better than none.
    for node in [1, 2] {
        rig.tell(5, node, |report| report.link_is_up = false);
    }
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(5) });
    assert!(matches!(rig.choose(6, 1, written), Choice::Replica(_)));
    rig.down = vec![0, 1, 2];
    assert_eq!(rig.choose(6, 1, None), Choice::Primary);
    // Without cover, the policy decides.
    let mut rig = Rig::healthy(ReadFrom::Primary);
    rig.down = vec![0];
    assert_eq!(rig.choose(6, 1, None), Choice::Primary);
    let mut rig = Rig::healthy(ReadFrom::PreferPrimary);
    rig.down = vec![0];
    assert!(matches!(rig.choose(6, 1, None), Choice::Replica(_)));
}

#[test]
fn replica_polling_is_fast_while_reads_wait_else_slow() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let asked = |rig: &mut Rig, ms: u64| rig.readers.next_to_poll(&rig.limits, at(ms)).is_some();
    assert!(asked(&mut rig, 0) && !asked(&mut rig, 99), "watching begins with a question");
    assert!(asked(&mut rig, 100));
    assert!(!asked(&mut rig, 1099) && asked(&mut rig, 1100), "nobody has read since");
    rig.poll(1100, [Some(10), Some(10), Some(10)]);
    let written = Some(Written { poll: rig.readers.polls(SHARD), at: at(1101) });
    assert_eq!(rig.choose(1101, 1, written), Choice::OwnWrite);
    assert_eq!(rig.readers.deadline(), at(1110));
    assert!(asked(&mut rig, 1110));
    assert_eq!(rig.readers.deadline(), at(1120));
}

#[test]
fn the_lack_of_fit_replicas_is_reported_once() {
    let mut rig = Rig::healthy(ReadFrom::PreferReplica);
    let mut note = |ms: u64, is_fit| rig.readers.note_fitness(SHARD, is_fit, &rig.limits, at(ms));
    assert_eq!([note(10, false), note(20, true)], [None, None], "at first that says nothing");
    assert_eq!(note(2000, false), Some("it is not connected"));
    assert_eq!(note(2001, false), None);
    assert_eq!(note(2002, true), Some("it is not connected"));
    assert_eq!(note(2003, true), None);
}

#[test]
fn another_topology_keeps_the_reports_of_nodes_that_stay() {
    let before = topology("a:1|b:1");
    let mut readers = Readers::new(Reading { from: ReadFrom::PreferReplica, ..Reading::default() });
    readers.follow(&before, at(0));
    let report = Report { link_is_up: true, offset: Some(1), ..Report::default() };
    readers.absorb((SHARD, NodeId(1)), 0, Some(report), at(0));
    let shard = topology::ShardSpec {
        name: "a:1".to_owned(),
        primary: Some(topology::NodeSpec::tcp("c", 1)),
        replicas: vec![topology::NodeSpec::tcp("a", 1), topology::NodeSpec::tcp("b", 1)],
        slots: Vec::new(),
    };
    readers.follow(&before.succeed(2, &[shard]).expect("valid"), at(1));
    let known: Vec<_> = readers.shards[0].members.iter().map(|member| member.report.is_some()).collect();
    assert_eq!(known, [false, false, true]);
    assert_eq!(readers.deadline(), at(1), "the new primary is asked at once");
}
