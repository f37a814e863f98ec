//! Transcripts of clients that ask about the proxy and about each other. `|` stands for CR LF.

use crate::EngineLimits;
use crate::testing::{Rig, deliver_mail};
use crate::{Board, Event, Limits, Settings};
use std::sync::Arc;
use std::time::Duration;

const PORT: &str = "127.0.0.1:6379";

/// The line of a fresh client in CLIENT LIST, which begins with the client's number.
fn line(id: u64, port: u16, name: &str, last: &str) -> String {
    format!(
        "id={id} addr=127.0.0.1:{port} laddr={PORT} fd=9 name={name} age=0 idle=0 flags=N db=0 sub=0 psub=0 ssub=0 \
         multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 multi-mem=0 "
    ) + &format!("events=r cmd={last} user=default redir=-1 resp=2\n")
}

/// The reply without its fields of memory, which depend on the machine.
fn without_memory(reply: &str) -> String {
    let (_, body) = reply.split_once('|').expect("a bulk");
    let lines = body.trim_end_matches('|').lines();
    let shown = |line: &str| -> String {
        let is_memory = |field: &&str| {
            ["rbs=", "rbp=", "obl=", "oll=", "omem=", "tot-mem="].iter().any(|name| field.starts_with(name))
        };
        let fields: Vec<&str> = line.split(' ').filter(|field| !is_memory(field)).collect();
        fields.join(" ") + "\n"
    };
    lines.map(shown).collect()
}

#[test]
fn client_list_shows_the_clients_of_all_workers_oldest_first() {
    let mut rigs = Rig::workers(3, 1);
    let [first, second, third] = [0, 1, 2].map(|worker| rigs[worker].client());
    rigs[0].client_sends(first, "client setname one|");
    rigs[2].client_sends(third, "ping|");
    assert_eq!(rigs[0].taken(first), "+OK|");
    rigs[1].client_sends(second, "client list|ping|");
    assert_eq!(rigs[1].taken(second), "", "two workers have not answered");
    deliver_mail(&mut rigs);
    let lines = [
        line(1, 50_000, "one", "client|setname"),
        line(2, 50_100, "", "client|list"),
        line(3, 50_200, "", "ping"),
    ];
    let reply = rigs[1].taken(second);
    let reply = reply.strip_suffix("+PONG|").expect("the next reply comes behind");
    assert_eq!(without_memory(reply), lines.concat());

    rigs[1].client_sends(second, "client list id 3 7 1 3|");
    deliver_mail(&mut rigs);
    let reply = rigs[1].taken(second);
    assert_eq!(without_memory(&reply), [&*lines[2], &lines[0], &lines[2]].concat());
    rigs[1].client_sends(second, "client list type pubsub|");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[1].taken(second), "$0||", "nobody has subscribed");
    rigs[1].client_sends(second, "client info|");
    let own = rigs[1].taken(second);
    assert_eq!(without_memory(&own), line(2, 50_100, "", "client|info"));
}

#[test]
fn the_flags_of_a_client_show_its_settings() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let steps = [
        ("client no-evict on", "e"),
        ("readonly", "re"),
        ("client no-touch on", "reT"),
        ("client no-evict off", "rT"),
        ("reset", "T"),
        ("client no-touch off", "N"),
        ("readonly|readwrite", "N"),
    ];
    for (request, flags) in steps {
        rig.client_sends(client, &format!("{request}|client info|"));
        let taken = rig.taken(client);
        assert!(taken.contains(&format!(" flags={flags} ")), "{request}: {taken}");
    }
}

#[test]
fn a_list_keeps_its_place_among_the_replies() {
    let mut rigs = Rig::workers(2, 1);
    let client = rigs[0].client();
    rigs[0].client_sends(client, "get a|client list id 99|get b|");
    deliver_mail(&mut rigs);
    rigs[0].node_sends(0, "$1|a|");
    assert_eq!(rigs[0].taken(client), "$1|a|$0||");
    rigs[0].node_sends(0, "$1|b|");
    assert_eq!(rigs[0].taken(client), "$1|b|");
}

#[test]
fn a_worker_that_has_stopped_counts_as_an_empty_answer() {
    let mut rigs = Rig::workers(2, 1);
    let client = rigs[0].client();
    rigs[0].client_sends(client, "client kill id 99|");
    let (worker, mail) = rigs[0].proxy.poll_mail().expect("a question");
    assert_eq!(worker, 1);
    let answer = mail.undelivered().expect("a question has an answer");
    let now = rigs[0].now;
    rigs[0].proxy.handle_mail(answer, now);
    rigs[0].perform();
    assert_eq!(rigs[0].taken(client), ":0|");
}

#[test]
fn a_worker_that_does_not_answer_is_not_waited_for() {
    let mut rigs = Rig::workers(2, 1);
    let client = rigs[0].client();
    rigs[0].client_sends(client, "client kill id 99|");
    rigs[0].pass(Duration::from_millis(999));
    assert_eq!(rigs[0].taken(client), "");
    rigs[0].pass(Duration::from_millis(1));
    assert_eq!(rigs[0].taken(client), ":0|");
    // The late answer is dropped.
    deliver_mail(&mut rigs);
    assert_eq!(rigs[0].taken(client), "");
}

#[test]
fn clients_are_killed_wherever_they_are() {
    let mut rigs = Rig::workers(2, 1);
    let (killer, near, far) = (rigs[0].client(), rigs[0].client(), rigs[1].client());
    rigs[1].client_sends(far, "get a|");
    rigs[0].client_sends(killer, "client kill 127.0.0.1:50100|client kill 127.0.0.1:50100|");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[0].taken(killer), "+OK|-ERR No such client|");
    assert!(rigs[1].is_closed(far) && !rigs[0].is_closed(near));
    // The reply is dropped.
    rigs[1].node_sends(0, "$-1|");
    let others = [rigs[1].client(), rigs[1].client()];
    rigs[0].client_sends(killer, &format!("client kill laddr {PORT} type normal user default|ping|"));
    deliver_mail(&mut rigs);
    assert_eq!(rigs[0].taken(killer), ":3|+PONG|");
    assert!(rigs[0].is_closed(near) && others.iter().all(|&other| rigs[1].is_closed(other)));
    assert!(!rigs[0].is_closed(killer), "one's own connection is spared");
}

#[test]
fn a_client_that_kills_itself_gets_only_that_reply() {
    for request in ["client kill 127.0.0.1:50000", "client kill skipme no type normal"] {
        let mut rigs = Rig::workers(2, 1);
        let client = rigs[0].client();
        rigs[0].client_sends(client, &format!("get a|{request}|get b|"));
        deliver_mail(&mut rigs);
        assert!(!rigs[0].is_closed(client), "a reply is still to come");
        assert_eq!(rigs[0].node_got(0), "*2|$3|get|$1|a|");
        rigs[0].node_sends(0, "$-1|");
        let taken = rigs[0].taken(client);
        assert!(["$-1|+OK|", "$-1|:1|"].contains(&taken.as_str()), "{request}: {taken}");
        assert!(rigs[0].is_closed(client), "{request}");
    }
}

#[test]
fn filters_are_refused_with_redis_words() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let cases = [
        ("client list type foo", "-ERR Unknown client type 'foo'|"),
        ("client list id x", "-ERR Invalid client ID|"),
        ("client list id", "-ERR syntax error|"),
        ("client kill id 0", "-ERR client-id should be greater than 0|"),
        ("client kill type x", "-ERR Unknown client type 'x'|"),
        ("client kill user x", "-ERR No such user 'x'|"),
        ("client kill id 99 addr", "-ERR syntax error|"),
        ("client kill skipme x", "-ERR syntax error|"),
        ("client kill type replica", ":0|"),
        ("client unblock 1 x", "-ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR|"),
        ("client unblock x", "-ERR value is not an integer or out of range|"),
        ("client unblock 1 error", ":0|"),
        ("client no-touch on", "+OK|"),
        ("client no-evict x", "-ERR syntax error|"),
        ("client getredir", ":-1|"),
        ("client trackinginfo", "*6|$5|flags|*1|$3|off|$8|redirect|:-1|$8|prefixes|*0|"),
    ];
    for (request, reply) in cases {
        rig.client_sends(client, &format!("{request}|"));
        assert_eq!(rig.taken(client), reply, "{request}");
    }
}

#[test]
fn reply_off_drops_later_replies_of_every_kind_only() {
    let mut rigs = Rig::workers(2, 2);
    let client = rigs[0].client();
    let (a, b) = (rigs[0].key(0), rigs[0].key(1));
    let muted = [
        format!("get {a}|"),
        format!("mget {a} {b}|"),
        "scan 0 count 0|".to_owned(),
        "ping|".to_owned(),
        format!("rename {a} {b}|"),
        "nosuch".repeat(20) + "|",
        "client list|".to_owned(),
        "info keyspace|".to_owned(),
        "client reply skip|client reply off|client reply nonsense|".to_owned(),
    ];
    let requests = format!("get {a}|client reply off|{}", muted.concat());
    rigs[0].client_sends(client, &requests);
    deliver_mail(&mut rigs);
    // The second node answers first, so that all replies wait.
    rigs[0].node_sends(1, "*1|$1|b|");
    assert_eq!(rigs[0].taken(client), "");
    rigs[0].node_sends(0, "$5|first|$1|a|*1|$1|a|*2|$1|0|*0|");
    assert_eq!(rigs[0].taken(client), "$5|first|");
    (0..2).for_each(|shard| rigs[0].node_sends(shard, "$0||"));
    rigs[0].client_sends(client, &format!("get {a}|client reply on|get {b}|"));
    rigs[0].node_sends(1, "$1|b|");
    rigs[0].node_sends(0, "$1|a|");
    assert_eq!(rigs[0].taken(client), "+OK|$1|b|");
    assert_eq!((rigs[0].proxy.pending().merges, rigs[0].proxy.pending().inquiries), (0, 0));
}

#[test]
fn a_skipped_reply_is_that_of_the_next_request_alone() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(
        client,
        "client reply skip|get a|get b|client reply skip|client reply skip|ping|echo x|",
    );
    rig.node_sends(0, "$1|a|$1|b|");
    assert_eq!(rig.taken(client), "$1|b|$1|x|");
    rig.client_sends(client, "client reply skip|client reply on|client reply off|reset|ping|");
    assert_eq!(rig.taken(client), "+OK|+RESET|+PONG|");
}

#[test]
fn reply_skip_covers_a_command_being_learnt() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "client reply skip|foo.set k 1|ping|");
    rig.node_sends(0, "*1|*6|$7|foo.set|:-3|*1|+write|:1|:1|:1|");
    rig.node_sends(0, "+1|");
    assert_eq!(rig.taken(client), "+PONG|");
}

/// Each state of CLIENT REPLY with each request that matters to it: the reply, and the replies to two requests behind
/// it.
#[test]
fn replies_follow_the_state_and_the_request() {
    const ALL: &str = "+PONG|+PONG|";
    const ONE: &str = "+PONG|";
    let table = [
        // state, request, reply, replies to two PINGs
        ("", "ping", "+PONG|", ALL),
        ("", "client reply on", "+OK|", ALL),
        ("", "client reply off", "", ""),
        ("", "client reply skip", "", ONE),
        ("", "client reply x", "-ERR syntax error|", ALL),
        ("client reply skip|", "ping", "", ALL),
        ("client reply skip|", "client reply on", "+OK|", ALL),
        ("client reply skip|", "client reply off", "", ""),
        ("client reply skip|", "client reply skip", "", ONE),
        ("client reply skip|", "client reply x", "", ALL),
        ("client reply skip|", "reset", "", ALL),
        ("client reply off|", "ping", "", ""),
        ("client reply off|", "client reply on", "+OK|", ALL),
        ("client reply off|", "client reply off", "", ""),
        ("client reply off|", "client reply skip", "", ""),
        ("client reply off|", "client reply x", "", ""),
        ("client reply off|", "reset", "+RESET|", ALL),
    ];
    for (state, request, heard, behind) in table {
        let mut rig = Rig::ready(1);
        let client = rig.client();
        rig.client_sends(client, &format!("{state}{request}|"));
        assert_eq!(rig.taken(client), heard, "{state} {request}");
        rig.client_sends(client, "ping|ping|");
        assert_eq!(rig.taken(client), behind, "{state} {request}, and behind it");
    }
}

#[test]
fn questions_beyond_the_limit_are_refused() {
    let mut rig = Rig::ready_with(1, Limits { inquiries_max: 2, ..Limits::default() });
    let client = rig.client();
    rig.client_sends(
        client,
        "info keyspace|info keyspace|info keyspace|client list|config resetstat|info keyspace|ping|",
    );
    rig.node_sends(0, "$0||$0||");
    let (info, refused) = (
        "$12|# Keyspace||",
        "-TRYAGAIN too many requests to the other workers are pending: this one was not run|",
    );
    assert_eq!(rig.taken(client), format!("{}{}+PONG|", info.repeat(2), refused.repeat(4)));
    assert_eq!(rig.node_got(0), "*1|$4|INFO|".repeat(2), "a refused question asks nobody");
}

#[test]
fn a_muted_client_can_quit() {
    let mut rig = Rig::ready(1);
    let (quits, ends) = (rig.client(), rig.client());
    rig.client_sends(quits, "client reply off|get a|quit|");
    rig.client_sends(ends, "client reply off|get b|");
    rig.event(Event::Ended { conn: ends });
    assert!(!rig.is_closed(quits) && !rig.is_closed(ends));
    rig.node_sends(0, "$-1|$-1|");
    assert!(rig.is_closed(quits) && rig.is_closed(ends));
    assert_eq!((rig.taken(quits), rig.taken(ends)), (String::new(), String::new()));
}

#[test]
fn a_muted_client_is_closed_without_an_error() {
    let limits = Limits {
        engine: EngineLimits { request_bytes_max: 100, ..EngineLimits::default() },
        ..Limits::default()
    };
    for (muted, bytes) in
        [("off", "*1|:4|"), ("skip", "*1|:4|"), ("off", &format!("*1|$200|{}", "x".repeat(150)))]
    {
        let mut rig = Rig::ready_with(1, limits.clone());
        let client = rig.client();
        rig.client_sends(client, &format!("client reply {muted}|{bytes}"));
        rig.pass(Duration::from_secs(2));
        assert_eq!(rig.taken(client), "", "{muted} {bytes}");
        assert!(rig.is_closed(client), "{muted} {bytes}");
    }
}

#[test]
fn a_client_that_leaves_takes_its_questions_with_it() {
    let mut rigs = Rig::workers(2, 1);
    let (client, muted) = (rigs[0].client(), rigs[0].client());
    rigs[0].client_sends(client, "info keyspace|client list|");
    rigs[0].client_sends(muted, "client reply off|client list|info|");
    assert_eq!(rigs[0].proxy.pending().inquiries, 3, "what is behind a list is not read yet");
    for conn in [client, muted] {
        rigs[0].event(Event::Closed { conn, reason: "reset" });
    }
    assert_eq!(rigs[0].proxy.pending().inquiries, 0);
    deliver_mail(&mut rigs);
    rigs[0].node_sends(0, "$0||");
    assert!(!rigs[0].is_closed(rigs[0].node(0)), "the late answer had its ticket");
}

#[test]
fn info_sums_up_the_nodes_and_shows_which_are_down() {
    let mut rig = Rig::ready(3);
    let client = rig.client();
    let node = rig.node(2);
    rig.event(Event::Closed { conn: node, reason: "connection refused" });
    rig.client_sends(client, "info keyspace nodes|ping|");
    assert_eq!((rig.node_got(0), rig.node_got(1)), ("*1|$4|INFO|".to_owned(), "*1|$4|INFO|".to_owned()));
    let text = "redis_version:7.2.0|role:master|used_memory:10|db0:keys=3,expires=1,avg_ttl=50";
    rig.node_sends(0, &format!("${}|{text}|", text.replace('|', "||").len()));
    assert_eq!(rig.taken(client), "");
    rig.node_sends(1, "-ERR unknown command 'info'|");
    let taken = rig.taken(client);
    let (_, body) = taken.split_once('|').expect("a bulk");
    let expected = "# Keyspace|db0:keys=3,expires=1,avg_ttl=50||# Nodes|shards:3|\
        distribution:modulo, crc32a, tag rule sml|topology_epoch:1|\
        node0:name=127.0.0.1:7000,address=127.0.0.1:7000,state=up,in_flight=0,version=7.2.0,role=master,keys=3,\
        used_memory=10,ops_per_sec=0|\
        node1:name=127.0.0.1:7001,address=127.0.0.1:7001,state=up,in_flight=0,reason=ERR unknown command 'info'|\
        node2:name=127.0.0.1:7002,address=127.0.0.1:7002,state=down,in_flight=0,reason=connection refused||+PONG|";
    assert_eq!(body, expected);
}

#[test]
fn info_waits_only_if_it_asks_nodes() {
    let mut rig = Rig::connecting(1, Limits::default());
    let client = rig.client();
    rig.client_sends(client, "info cluster nosuch|info nosuch|");
    assert_eq!(rig.taken(client), "$30|# Cluster|cluster_enabled:0||$0||");
    rig.client_sends(client, "info keyspace|");
    rig.pass(Duration::from_millis(1001));
    assert_eq!(rig.taken(client), "$12|# Keyspace||");
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "info keyspace|");
    rig.pass(Duration::from_millis(1001));
    assert_eq!(rig.taken(client), "$12|# Keyspace||");
}

#[test]
fn commands_and_errors_are_counted_as_redis_counts_them() {
    let mut rigs = Rig::workers(2, 2);
    let (client, far) = (rigs[0].client(), rigs[1].client());
    let (a, b) = (rigs[0].key(0), rigs[0].key(1));
    rigs[0].client_sends(client, &format!("get {a}|mget {a} {b}|get|rename {a} {b}|client nosuch|select x|"));
    rigs[0].pass(Duration::from_millis(2));
    rigs[0].node_sends(0, "$1|a|*1|$1|a|");
    rigs[0].pass(Duration::from_millis(3));
    rigs[0].node_sends(1, "*1|$1|b|");
    rigs[1].client_sends(far, &format!("get {a}|"));
    rigs[1].node_sends(0, "-WRONGTYPE Operation against a key|");
    rigs[1].pass(Duration::from_secs(1));
    rigs[0].taken(client);
    rigs[0].client_sends(client, "info commandstats errorstats|");
    let row = |name: &str, counts: [u64; 4], per_call: &str| {
        let [calls, usec, rejected, failed] = counts;
        format!(
            "cmdstat_{name}:calls={calls},usec={usec},usec_per_call={per_call},rejected_calls={rejected},failed_calls={failed}|"
        )
    };
    let expected = [
        "# Commandstats|".to_owned(),
        row("get", [2, 2000, 1, 1], "1000.00"),
        row("mget", [1, 5000, 0, 0], "5000.00"),
        row("rename", [0, 0, 1, 0], "0.00"),
        row("select", [1, 0, 0, 1], "0.00"),
        row("info", [1, 0, 0, 0], "0.00"),
        "|# Errorstats|errorstat_CROSSSLOT:count=1|errorstat_ERR:count=3|errorstat_WRONGTYPE:count=1|"
            .to_owned(),
    ];
    let taken = rigs[0].taken(client);
    assert_eq!(taken.split_once('|').expect("a bulk").1, expected.concat() + "|");

    rigs[0].client_sends(client, "client kill 1.2.3.4:5|");
    deliver_mail(&mut rigs);
    rigs[0].client_sends(client, "info commandstats|");
    assert!(
        rigs[0].taken(client).contains(&row("client|kill", [1, 0, 0, 1], "0.00")),
        "an error that came late"
    );

    rigs[0].client_sends(client, "config resetstat|");
    deliver_mail(&mut rigs);
    rigs[0].client_sends(client, "info commandstats stats|");
    (0..2).for_each(|shard| rigs[0].node_sends(shard, "$0||"));
    let taken = rigs[0].taken(client);
    let reset = taken.strip_prefix("+OK|").expect("done").split_once('|').expect("a bulk").1;
    let counted = "# Stats|total_connections_received:0|total_commands_processed:1|";
    assert!(reset.starts_with(counted), "{reset}");
    assert!(reset.ends_with(&format!("# Commandstats|{}|", row("info", [1, 0, 0, 0], "0.00"))), "{reset}");
    rigs[0].client_sends(client, "info clients|");
    assert!(rigs[0].taken(client).contains("connected_clients:2|"), "levels stay");
}

#[test]
fn each_figure_of_the_nodes_has_its_own_merge() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "info stats persistence|");
    rig.node_sends(0, "$38|keyspace_hits:3\nloading:1\nrdb_saves:1\n|");
    rig.node_sends(1, "$38|keyspace_hits:4\nloading:0\nrdb_saves:2\n|");
    let report = rig.taken(client);
    assert!(report.contains("|keyspace_hits:7|keyspace_misses:0|"), "{report}");
    assert!(report.contains("|# Persistence|loading:1|"), "{report}");
    assert!(report.contains("|rdb_saves:3|"), "{report}");
}

#[test]
fn the_rate_is_that_of_the_last_second() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, &"ping|".repeat(30));
    rig.pass(Duration::from_secs(1));
    rig.taken(client);
    rig.client_sends(client, "info stats|");
    rig.node_sends(0, "$0||");
    assert!(rig.taken(client).contains("|instantaneous_ops_per_sec:30|"));
    rig.pass(Duration::from_secs(1));
    rig.client_sends(client, "info stats|");
    rig.node_sends(0, "$0||");
    assert!(rig.taken(client).contains("|instantaneous_ops_per_sec:1|"));
}

#[test]
fn cluster_clients_see_one_node_at_their_address() {
    let mut rig = Rig::ready(2);
    let client = rig.client();
    rig.client_sends(client, "cluster myid|");
    let id = rig.taken(client).split('|').nth(1).expect("a bulk").to_owned();
    assert!(id.len() == 40 && id.bytes().all(|byte| byte.is_ascii_hexdigit()), "{id}");
    let node_line = format!("{id} 127.0.0.1:6379@0 myself,master - 0 0 0 connected 0-16383\n");
    let cases = [
        ("cluster slots", format!("*1|*3|:0|:16383|*4|$9|127.0.0.1|:6379|$40|{id}|*0|")),
        (
            "cluster shards",
            format!(
                "*1|*4|$5|slots|*2|:0|:16383|$5|nodes|*1|*14|$2|id|$40|{id}|$4|port|:6379|$2|ip|$9|127.0.0.1|\
                 $8|endpoint|$9|127.0.0.1|$4|role|$6|master|$18|replication-offset|:0|$6|health|$6|online|"
            ),
        ),
        ("cluster nodes", format!("${}|{node_line}|", node_line.len())),
        ("cluster links", "*0|".to_owned()),
        ("cluster keyslot foo{bar}x", ":5061|".to_owned()),
        (&format!("cluster replicas {id}"), "*0|".to_owned()),
        ("cluster slaves x", "-ERR Unknown node x|".to_owned()),
        ("readonly", "+OK|".to_owned()),
        ("asking", "+OK|".to_owned()),
    ];
    for (request, reply) in cases {
        rig.client_sends(client, &format!("{request}|"));
        assert_eq!(rig.taken(client), reply, "{request}");
    }
    rig.client_sends(client, "cluster countkeysinslot 1|");
    assert!(rig.taken(client).ends_with("ask the nodes of a cluster themselves|"));
}

#[test]
fn the_one_user_is_described_as_redis_describes_it() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    let cases = [
        ("acl whoami", "$7|default|"),
        ("acl users", "*1|$7|default|"),
        ("acl list", "*1|$34|user default on nopass ~* &* +@all|"),
        (
            "acl getuser default",
            "*12|$5|flags|*2|$2|on|$6|nopass|$9|passwords|*0|$8|commands|$5|+@all|$4|keys|$2|~*|$8|channels|$2|&*|\
             $9|selectors|*0|",
        ),
        ("acl getuser nobody", "$-1|"),
        ("acl cat nosuch", "-ERR Unknown category 'nosuch'|"),
        ("acl cat x y", "-ERR unknown subcommand or wrong number of arguments for 'cat'. Try ACL HELP.|"),
    ];
    for (request, reply) in cases {
        rig.client_sends(client, &format!("{request}|"));
        assert_eq!(rig.taken(client), reply, "{request}");
    }
    rig.client_sends(client, "acl cat|acl cat pubsub|");
    let taken = rig.taken(client);
    assert!(taken.starts_with("*21|$8|keyspace|$4|read|"), "{taken}");
}

#[test]
fn a_late_report_of_a_shard_takes_one_reply_and_no_more() {
    let mut rig = Rig::ready(3);
    let (asker, client) = (rig.client(), rig.client());
    rig.client_sends(asker, "info keyspace|");
    rig.node_sends(0, "$0||");
    rig.node_sends(1, "$0||");
    rig.pass(Duration::from_millis(1500));
    let key = rig.key(2);
    rig.client_sends(client, &format!("get {key}|"));
    rig.node_sends(2, "$0||$1|v|");
    assert_eq!(rig.taken(client), "$1|v|");
}

#[test]
fn the_time_of_day_follows_the_wall_clock_when_it_is_set() {
    let board = Arc::new(Board::new(1));
    let settings = Settings { unix_epoch_us: 1_000_000_000, ..Settings::default() };
    let mut rig = Rig::over("127.0.0.1:7000", Limits::default(), settings, &board);
    let client = rig.client();
    let mut told = |step_us| {
        board.show_clock_step(step_us);
        rig.client_sends(client, "time|");
        rig.taken(client)
    };
    assert_eq!(told(0), "*2|$4|1000|$1|0|");
    assert_eq!(told(7_200_000_005), "*2|$4|8200|$1|5|");
    assert_eq!(told(-2_000_000_000), "*2|$1|0|$1|0|", "before 1970 there is no time");
}
