//! PROXY. `|` stands for CR LF.

use crate::limits::CrossShard;
use crate::local::operator::explain::{Explanation, Rules, explain};
use crate::local::operator::overview::write_topology;
use crate::login::job::{ReloadOutcome, Task};
use crate::reload::end_reload;
use crate::testing::Rig;

use resp::request::{RequestLimits, Scanned, Scanner};
use topology::{Topology, TopologySpec, parse_nodes};

fn topology(nodes: &str, distribution: &str) -> Topology {
    let nodes = parse_nodes(nodes).expect("nodes");
    let distribution = distribution.parse().expect("a distribution");
    Topology::new(1, &TopologySpec { nodes, distribution, ..TopologySpec::default() }).expect("a topology")
}

/// The rules without any option.
fn strict(topology: &Topology) -> Rules<'_> {
    Rules { topology, cross_shard: CrossShard::Refuse, allow_admin: false, databases: 16, policy: None }
}

fn explained_by(rules: &Rules<'_>, line: &str) -> Explanation {
    let (mut args, mut inline) = (Vec::new(), Vec::new());
    let bytes = format!("{line}\r\n");
    let scanned =
        Scanner::default().scan(bytes.as_bytes(), &RequestLimits::default(), &mut args, &mut inline);
    assert!(matches!(scanned, Ok(Scanned::Inline { .. })), "{line}");
    explain(rules, &resp::Request::new(&inline, &args))
}

fn explained(line: &str) -> Explanation {
    let topology = topology("a:1,b:2", "modulo");
    let rules = strict(&topology);
    explained_by(&rules, line)
}

#[test]
fn an_explanation_names_the_nodes_and_their_keys() {
    let (get, mget) = (explained("get x"), explained("mget x y z w v"));
    assert_eq!((get.route, get.targets.len(), get.is_read), ("whole to one shard", 1, true));
    assert_eq!(mget.route, "one part for each shard, at the same time");
    let nodes: Vec<&str> = mget.targets.iter().map(|target| &*target.node).collect();
    let counts: usize = mget.targets.iter().map(|target| target.key_count).sum();
    assert!(nodes.contains(&"a:1") && nodes.contains(&"b:2"), "{nodes:?}");
    assert_eq!((counts, mget.merged), (5, "the values in the order of the keys"));
    let of_x =
        mget.targets.iter().find(|target| target.keys.contains(&b"x".to_vec())).expect("x is asked for");
    assert_eq!(of_x.node, get.targets[0].node, "the key is where a GET looks for it");
}

#[test]
fn an_explanation_has_the_error_that_the_client_would_get() {
    for (line, refused) in [
        ("sunion x y z w v", "CROSSSLOT Keys in request don't hash to the same slot"),
        ("get", "ERR wrong number of arguments for 'get' command"),
        ("client nosuch", "ERR unknown subcommand 'nosuch'. Try CLIENT HELP."),
        ("shutdown", "ERR command 'shutdown' is not allowed through shardis: it would stop a node"),
        ("config set a b", "ERR command 'config|set' is not allowed through shardis without --allow-admin"),
        ("swapdb 0 1", "ERR command 'swapdb' is not allowed through shardis: clients would see"),
        ("sort x by w_*", "ERR command 'sort' is not allowed through shardis"),
    ] {
        let explanation = explained(line);
        assert!(explanation.refused.starts_with(refused), "{line}: {explanation:?}");
        assert!(explanation.targets.is_empty() && explanation.route == "refused", "{line}");
    }
}

/// An explanation says of each line that a client is refused exactly if a rig refuses it without asking a node.
#[test]
fn every_command_is_refused_exactly_if_its_explanation_says_so() {
    let topology = topology("127.0.0.1:7000,127.0.0.1:7001", "modulo");
    let rules = strict(&topology);
    let mut refused = 0;
    for (command, line) in super::every_command::lines() {
        let explanation = explained_by(&rules, &line);
        let mut rig = Rig::ready(2);
        let client = rig.client();
        rig.client_sends(client, &format!("{line}|"));
        let reply = rig.taken(client);
        let asked =
            [0, 1].into_iter().any(|shard| !rig.node_got(shard).is_empty()) || rig.last_pinned().is_some();
        let is_refused =
            reply.contains("is not allowed through") || reply.starts_with("-ERR unknown command");
        assert_eq!(is_refused, !explanation.refused.is_empty(), "{line}: {reply} {explanation:?}");
        assert!(!asked || !explanation.targets.is_empty(), "{line} asks a node: {explanation:?}");
        if is_refused {
            let said = reply.trim_start_matches('-').trim_end_matches('|');
            assert_eq!(said, explanation.refused, "{}", command.name);
            refused += 1;
        }
    }
    assert!(refused > 20, "{refused}");
}

/// Arguments decide about these, and the number of shards.
#[test]
fn arguments_are_refused_exactly_if_the_explanation_says_so() {
    for shards in [1, 2] {
        let nodes = ["127.0.0.1:7000", "127.0.0.1:7001"];
        let topology = topology(&nodes[..shards].join(","), "modulo");
        let rules = strict(&topology);
        for line in [
            "sort x by w_*",
            "sort x",
            "move x 16",
            "move x 3",
            "copy x x db 99",
            "swapdb 0 16",
            "swapdb 0 1",
        ] {
            let mut rig = Rig::ready(shards);
            let client = rig.client();
            rig.client_sends(client, &format!("{line}|"));
            let told = rig.taken(client);
            let refused = explained_by(&rules, line).refused;
            let expected = if refused.is_empty() { String::new() } else { format!("-{refused}|") };
            assert_eq!(told, expected, "{line} with {shards} shards");
        }
    }
}

#[test]
fn many_keys_in_all_slots_are_explained() {
    let slots = |shard: u16| vec![shard * 8192..=shard * 8192 + 8191];
    let shards = [0, 1].map(|shard| topology::ShardSpec {
        primary: Some(topology::NodeSpec::tcp("a", 7000 + shard)),
        slots: slots(shard),
        ..topology::ShardSpec::default()
    });
    let topology = Topology::of_cluster(None, 1, &shards).expect("a topology");
    let rules = strict(&topology);
    let words: Vec<String> =
        std::iter::once("MGET".to_owned()).chain((0..300_000).map(|n| n.to_string())).collect();
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let (mut bytes, mut args) = (Vec::new(), Vec::new());
    resp::encode::request(&mut bytes, &words);
    let scanned = Scanner::default().scan(&bytes, &RequestLimits::default(), &mut args, &mut Vec::new());
    assert!(matches!(scanned, Ok(Scanned::Request { .. })));
    let explanation = explain(&rules, &resp::Request::new(&bytes, &args));
    assert_eq!(explanation.targets.iter().map(|target| target.key_count).sum::<usize>(), 300_000);
    assert_eq!(explanation.targets.len(), 16_384);
}

#[test]
fn a_shard_that_is_gone_is_not_shown() {
    let shard = |port: u16, slots| topology::ShardSpec {
        primary: Some(topology::NodeSpec::tcp("a", port)),
        slots: vec![slots],
        ..topology::ShardSpec::default()
    };
    let three = [shard(1, 0..=5000), shard(2, 5001..=10_000), shard(3, 10_001..=16_383)];
    let two = [shard(1, 0..=10_000), shard(3, 10_001..=16_383)];
    let topology = Topology::of_cluster(None, 1, &three).expect("a topology");
    let topology = Topology::of_cluster(Some(&topology), 2, &two).expect("a topology");
    let mut reply = Vec::new();
    write_topology(&topology, false, &mut reply);
    let scanned = resp::reply::Scanner::default().scan(&reply, &resp::reply::ReplyLimits::default());
    assert_eq!(scanned, Ok(Some(reply.len())), "{}", String::from_utf8_lossy(&reply));
    let text = String::from_utf8_lossy(&reply);
    assert!(text.contains("a:3") && text.contains("38.96 %") && !text.contains("a:2"), "{text}");
}

#[test]
fn emulation_is_explained_where_it_is_on() {
    let topology = topology("a:1,b:2", "modulo");
    let rules = Rules {
        topology: &topology,
        cross_shard: CrossShard::Emulate,
        allow_admin: true,
        databases: 16,
        policy: None,
    };
    let sunion = explained_by(&rules, "sunionstore d x y z w v");
    assert_eq!(
        (sunion.route, sunion.refused.as_str()),
        ("emulated: values are fetched, and the result is written", "")
    );
    assert_eq!(explained_by(&rules, "config set a b").targets.len(), 2);
}

#[test]
fn slots_are_named_where_keys_go_by_slots() {
    let topology = topology("a:1,b:2", "slots");
    let rules = strict(&topology);
    let explanation = explained_by(&rules, "get foo");
    assert_eq!(explanation.targets[0].slots, [12182]);
    assert!(explanation.to_string().contains("foo (slot 12182)"), "{explanation}");
}

#[test]
fn an_operator_is_answered_without_a_node() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    for (line, part) in [
        ("proxy explain get x", "$5|route|$18|whole to one shard|"),
        ("proxy topology", "$12|distribution|"),
        ("proxy info", "|workers:1|"),
        ("proxy help", "EXPLAIN <command> [<arg> ...]"),
    ] {
        rig.client_sends(client, &format!("{line}|"));
        let reply = rig.taken(client);
        assert!(reply.contains(part), "{line}: {reply}");
    }
    assert_eq!([rig.node_got(0), rig.node_got(1)], ["", ""]);
}

#[test]
fn only_an_administrator_may_ask() {
    let users = "user default on nopass ~* &* +@all -@admin";
    let mut rig = Rig::ready_with_users(1, users);
    let client = rig.client();
    for question in
        ["explain get x", "topology", "info", "slowlog get", "hotkeys", "bigkeys", "hotslots", "reload"]
    {
        rig.client_sends(client, &format!("proxy {question}|"));
        assert!(rig.taken(client).starts_with("-NOPERM "), "{question}");
    }
}

/// The replies to `lines`, for each of which the control thread has this outcome.
fn reloaded(rig: &mut Rig, lines: &str, outcomes: &[ReloadOutcome]) -> String {
    let client = rig.client();
    rig.client_sends(client, lines);
    let jobs: Vec<_> = std::iter::from_fn(|| rig.proxy.poll_job()).collect();
    for (job, outcome) in jobs.into_iter().zip(outcomes) {
        let Task::Reload(order) = job.task else { panic!("{job:?}") };
        end_reload(&mut rig.proxy, job, order, outcome, rig.now);
    }
    rig.perform();
    rig.taken(client)
}

#[test]
fn reload_is_answered_with_its_outcome() {
    let mut rig = Rig::ready(1);
    let lines = |text: &str| vec![text.to_owned(), "more".to_owned()];
    let outcomes = [
        ReloadOutcome::Done(lines("a")),
        ReloadOutcome::Done(lines("a")),
        ReloadOutcome::Refused(lines("b")),
        ReloadOutcome::Faulty(lines("c\r\nd")),
        ReloadOutcome::Begun(lines("a")),
        ReloadOutcome::Late,
    ];
    let asked = "proxy reload|proxy reload plan|proxy reload back|proxy reload back 3|proxy reload force|proxy reload|ping|";
    assert_eq!(
        reloaded(&mut rig, asked, &outcomes),
        "+OK|*2|$1|a|$4|more|-ERR reload refused: b|-ERR reload refused: c  d|+upgrade started|\
         -ERR no answer about the configuration in time, outcome unknown|+PONG|"
    );
}

#[test]
fn the_discovery_looks_for_a_newer_topology() {
    let mut rig = Rig::cluster(2);
    let client = rig.client();
    rig.client_sends(client, "proxy updateslotmap|");
    assert_eq!(rig.taken(client), "+OK|");
    assert!(rig.proxy.poll_wish(rig.now).is_some());
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "proxy updateslotmap|");
    assert!(rig.taken(client).starts_with("-ERR the nodes are those of the configuration"));
}

#[test]
fn reload_with_other_words_is_no_order() {
    let mut rig = Rig::ready(1);
    for words in ["now", "plan 1", "back x", "back -1", "back 1 2", "plan plan"] {
        let reply = reloaded(&mut rig, &format!("proxy reload {words}|"), &[]);
        assert!(reply.starts_with("-ERR write PROXY RELOAD, "), "{words}: {reply}");
    }
}

#[test]
fn reload_without_an_outcome_ends_at_its_deadline() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "proxy reload|");
    assert_eq!(rig.taken(client), "");
    rig.pass(std::time::Duration::from_secs(1));
    assert!(rig.taken(client).starts_with("-ERR no answer about the configuration in time"));
}
