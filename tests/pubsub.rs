//! Publish and subscribe over real nodes, compared with a single Redis where it has the command.

use crate::harness::client::Ended;
use crate::harness::processes::Proxy;
use crate::harness::{Client, RedisServer, World, poll_until, show};

/// Two workers, so that subscribers and publishers meet over the nodes only.
const FLAGS: &[&str] = &["--workers=2"];

/// The number of the worker that serves `client`, of two.
fn worker_of(client: &mut Client) -> u64 {
    let reply = client.command(&[b"CLIENT", b"ID"]);
    let id: u64 = String::from_utf8_lossy(&reply[1..reply.len() - 2]).parse().expect("a number");
    (id - 1) % 2
}

/// A client of worker `worker`.
fn connect_to(world: &World, worker: u64) -> Client {
    let mut others = Vec::new();
    poll_until("a client of that worker", || {
        let mut client = world.connect();
        if worker_of(&mut client) == worker {
            return Some(client);
        }
        others.push(client);
        None
    })
}

fn message(channel: &str, text: &str) -> Vec<u8> {
    let text =
        format!("*3\r\n$7\r\nmessage\r\n${}\r\n{channel}\r\n${}\r\n{text}\r\n", channel.len(), text.len());
    text.into_bytes()
}

#[track_caller]
fn assert_reads(client: &mut Client, expected: &[u8]) {
    assert_eq!(show(&client.read_reply()), show(expected));
}

/// The bytes for a client that sends `lines` in one go, up to the reply to a last PING.
fn transcript(client: &mut Client, lines: &str) -> String {
    client.send(format!("{lines}\r\nPING the-end\r\n").as_bytes());
    let (bytes, ended) = client.read_until(b"the-end\r\n");
    assert_eq!(ended, Ended::Marker, "{}", show(&bytes));
    show(&bytes)
}

#[test]
fn subscriptions_and_refusals_are_confirmed_as_by_redis() {
    let (node, world) = (RedisServer::reference(), World::with_shards(4));
    let steps = [
        "UNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nSUNSUBSCRIBE\r\nUNSUBSCRIBE x y\r\nPUNSUBSCRIBE x\r\nSUNSUBSCRIBE x y",
        "SUBSCRIBE a a b\r\nPSUBSCRIBE p* q* p*\r\nSSUBSCRIBE s1 s2\r\nSUBSCRIBE c d e f g",
        "GET a\r\nGET\r\nMULTI\r\nCLIENT LIST\r\nCLIENT\r\nCLIENT nosuch\r\nMSET a 1 b\r\nEVAL x\r\nPUBLISH a b",
        "SUBSCRIBE\r\nPING\r\nPING hello\r\nPING a b\r\nUNSUBSCRIBE nosuch\r\nPUNSUBSCRIBE a\r\nSUNSUBSCRIBE a",
        "UNSUBSCRIBE a a b\r\nUNSUBSCRIBE c d e f\r\nUNSUBSCRIBE\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE q*",
        "PUNSUBSCRIBE\r\nPING\r\nSUNSUBSCRIBE s1\r\nGET a\r\nSUNSUBSCRIBE\r\nGET a\r\nPING",
        "SUBSCRIBE a\r\nUNSUBSCRIBE a\r\nSUBSCRIBE a\r\nRESET\r\nGET a\r\nUNSUBSCRIBE",
        "CLIENT REPLY OFF\r\nSUBSCRIBE a\r\nUNSUBSCRIBE a\r\nSUBSCRIBE b\r\nUNSUBSCRIBE b\r\nCLIENT REPLY ON",
    ];
    let (mut oracle, mut subject) = (node.connect(), world.connect());
    for lines in steps {
        assert_eq!(transcript(&mut subject, lines), transcript(&mut oracle, lines), "{lines}");
    }
    let steps = [
        "HELLO 3\r\nSUBSCRIBE a b\r\nPSUBSCRIBE p*\r\nSSUBSCRIBE s\r\nGET a\r\nUNSUBSCRIBE nosuch",
        "PING\r\nUNSUBSCRIBE a b\r\nUNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nSUNSUBSCRIBE\r\nSUNSUBSCRIBE",
        "SUBSCRIBE a\r\nHELLO 2\r\nGET a\r\nPING",
        "HELLO 3\r\nUNSUBSCRIBE",
    ];
    // The number of the client is in the greeting.
    let without_id = |text: String| {
        text.split("$2\\r\\nid\\r\\n:")
            .map(|part| part.trim_start_matches(char::is_numeric).to_owned())
            .collect::<Vec<_>>()
    };
    for lines in steps {
        let (got, expected) = (transcript(&mut subject, lines), transcript(&mut oracle, lines));
        assert_eq!(without_id(got), without_id(expected), "{lines}");
    }
    for client in [&mut oracle, &mut subject] {
        client.send(b"QUIT\r\n");
        assert_eq!(client.read_reply(), b"+OK\r\n");
        client.expect_eof();
    }
}

#[test]
fn questions_about_subscribers_are_answered_as_by_redis() {
    let (node, world) = (RedisServer::reference(), World::with_flags(4, FLAGS));
    let subscribe = |connect: &dyn Fn(u64) -> Client| {
        let mut clients: Vec<Client> = (0..4).map(|number| connect(number % 2)).collect();
        for client in &mut clients {
            client.ask("SUBSCRIBE news");
        }
        clients[0].ask("PSUBSCRIBE n*");
        clients[1].ask("PSUBSCRIBE n*");
        clients[2].ask("PSUBSCRIBE *s");
        clients[3].ask("SSUBSCRIBE shard");
        clients
    };
    let directly = |_| node.connect();
    let through = |worker| connect_to(&world, worker);
    let (mut oracles, mut subjects) = (subscribe(&directly), subscribe(&through));
    let (mut oracle, mut subject) = (node.connect(), connect_to(&world, 1));
    let questions = [
        "PUBLISH news hi",
        "PUBLISH nothing hi",
        "PUBLISH sports hi",
        "PUBLISH other hi",
        "SPUBLISH shard hi",
        "SPUBLISH news hi",
        "PUBSUB CHANNELS",
        "PUBSUB CHANNELS n*",
        "PUBSUB CHANNELS x*",
        "PUBSUB CHANNELS a b",
        "PUBSUB NUMSUB",
        "PUBSUB NUMSUB news nosuch news",
        "PUBSUB NUMPAT",
        "PUBSUB SHARDCHANNELS",
        "PUBSUB SHARDCHANNELS a b",
        "PUBSUB SHARDNUMSUB shard news",
        "PUBSUB HELP",
        "PUBSUB nosuch",
    ];
    for question in questions {
        assert_eq!(subject.ask(question), oracle.ask(question), "{question}");
    }
    // A reported write has been done: the next request on any connection sees it.
    for clients in [&mut oracles, &mut subjects] {
        assert!(clients[0].try_read_reply().is_ok());
        drop(clients.remove(3));
    }
    for (left, (one, other)) in oracles.iter_mut().zip(&mut subjects).enumerate().rev() {
        for client in [one, other] {
            client.send(b"UNSUBSCRIBE\r\nPUNSUBSCRIBE\r\nPING the-end\r\n");
            client.read_until(b"the-end\r\n");
        }
        let expected = format!(":{left}\\r\\n");
        poll_until("the client that was closed to be gone", || {
            (subject.ask("PUBSUB NUMSUB news").contains(&expected)).then_some(())
        });
        assert_eq!(subject.ask("PUBLISH sports hi"), oracle.ask("PUBLISH sports hi"));
    }
    assert_eq!(subject.ask("PUBSUB CHANNELS"), "*0\\r\\n");
}

#[test]
fn channel_messages_keep_order_on_all_workers() {
    let world = World::with_flags(4, FLAGS);
    let mut subscribers = [connect_to(&world, 0), connect_to(&world, 1)];
    for subscriber in &mut subscribers {
        subscriber.ask("SUBSCRIBE one");
        subscriber.ask("SUBSCRIBE other");
    }
    let mut publisher = connect_to(&world, 1);
    const MESSAGES: usize = 10_000;
    for batch in 0..MESSAGES / 100 {
        let requests: String = (0..100)
            .map(|number| format!("PUBLISH one {0}\r\nPUBLISH other {0}\r\n", 100 * batch + number))
            .collect();
        publisher.send(requests.as_bytes());
        for _ in 0..200 {
            assert_eq!(publisher.read_reply(), b":2\r\n");
        }
    }
    for subscriber in &mut subscribers {
        let mut next = [0, 0];
        for _ in 0..2 * MESSAGES {
            let got = subscriber.read_reply();
            let number = usize::from(got.starts_with(b"*3\r\n$7\r\nmessage\r\n$5\r\nother\r\n"));
            let channel = ["one", "other"][number];
            assert_eq!(show(&got), show(&message(channel, &next[number].to_string())));
            next[number] += 1;
        }
        assert_eq!(next, [MESSAGES, MESSAGES]);
    }
}

#[test]
fn pattern_gets_each_message_once_from_any_node() {
    let world = World::with_flags(4, FLAGS);
    let mut subscriber = connect_to(&world, 0);
    subscriber.ask("PSUBSCRIBE ch*");
    let mut publisher = connect_to(&world, 1);
    for channel in world.key_on_each("ch") {
        assert_eq!(publisher.ask(&format!("PUBLISH {channel} hi")), r":1\r\n");
        let event =
            format!("*4\r\n$8\r\npmessage\r\n$3\r\nch*\r\n${}\r\n{channel}\r\n$2\r\nhi\r\n", channel.len());
        assert_reads(&mut subscriber, event.as_bytes());
    }
    assert_eq!(
        transcript(&mut subscriber, "PING"),
        "*2\\r\\n$4\\r\\npong\\r\\n$0\\r\\n\\r\\n*2\\r\\n$4\\r\\npong\\r\\n$7\\r\\n"
    );
}

#[test]
fn notifications_of_keys_come_from_all_nodes() {
    let world = World::with_flags(4, FLAGS);
    for node in &world.nodes {
        assert_eq!(node.connect().ask("CONFIG SET notify-keyspace-events KEA"), r"+OK\r\n");
    }
    let (mut by_event, mut by_key) = (connect_to(&world, 0), connect_to(&world, 1));
    by_event.ask("SUBSCRIBE __keyevent@0__:set");
    by_key.ask("PSUBSCRIBE __keyspace@0__:*");
    let mut writer = world.connect();
    for key in world.key_on_each("k") {
        assert_eq!(writer.ask(&format!("SET {key} v")), r"+OK\r\n");
        assert_reads(&mut by_event, &message("__keyevent@0__:set", &key));
        let event = by_key.read_reply();
        let channel = format!("__keyspace@0__:{key}\r\n$3\r\nset\r\n");
        assert!(event.ends_with(channel.as_bytes()), "{}", show(&event));
    }
}

#[test]
fn restarted_node_is_resubscribed_and_the_gap_counted() {
    let mut world = World::with_flags(2, FLAGS);
    let channel = world.key_on(1, "ch");
    let (mut subscriber, mut other) = (connect_to(&world, 0), connect_to(&world, 0));
    subscriber.ask(&format!("SUBSCRIBE {channel}"));
    subscriber.ask("PSUBSCRIBE p*");
    let port = world.nodes[1].port;
    world.nodes[1].kill();
    poll_until("the loss to be noticed by the worker", || {
        other.ask(&format!("EXISTS {channel}")).starts_with("-TRYAGAIN ").then_some(())
    });
    let refused = other.ask(&format!("SUBSCRIBE {channel}"));
    assert!(
        refused.starts_with(&format!("-TRYAGAIN shard {} unavailable", world.shard_name(1))),
        "{refused}"
    );
    world.nodes[1] = RedisServer::start_on(port);
    let mut publisher = world.connect();
    poll_until("a receiver", || {
        (publisher.ask(&format!("PUBLISH {channel} again")) == r":1\r\n").then_some(())
    });
    assert_reads(&mut subscriber, &message(&channel, "again"));
    let gaps = poll_until("the count", || {
        let stats = publisher.ask("INFO stats");
        let (_, rest) = stats.split_once("total_message_gaps:")?;
        let gaps: u64 = rest.split_once('\\')?.0.parse().ok()?;
        (gaps > 0).then_some(gaps)
    });
    assert_eq!(gaps, 1, "one worker had subscribers");
    poll_until("the log to tell", || {
        let output = world.proxy.output();
        (output.contains("subscriptions lost") && output.contains("subscriptions restored")).then_some(())
    });
}

#[test]
fn a_hanging_node_is_an_error_and_delays_no_other_client() {
    // Long enough for the other node on a loaded machine.
    let world = World::with_flags(2, &["--workers=1", "--request-timeout-ms=1000"]);
    let channels = world.key_on_each("ch");
    let mut client = world.connect();
    world.nodes[1].freeze();
    client.send(format!("SUBSCRIBE {} {}\r\n", channels[1], channels[0]).as_bytes());
    let lost = client.read_reply();
    assert!(lost.starts_with(b"-TRYAGAIN shard "), "{}", show(&lost));
    assert!(client.read_reply().starts_with(b"*3\r\n$9\r\nsubscribe\r\n"));
    assert_eq!(world.connect().ask(&format!("PUBLISH {} hi", channels[0])), r":1\r\n");
    assert_reads(&mut client, &message(&channels[0], "hi"));
    world.nodes[1].thaw();
    poll_until("the node to be back", || {
        client.ask(&format!("SUBSCRIBE {}", channels[1])).starts_with('*').then_some(())
    });
}

#[test]
fn a_slow_subscriber_is_closed_and_others_get_everything() {
    let world = World::with_flags(1, FLAGS);
    let (mut slow, mut quick) = (connect_to(&world, 0), connect_to(&world, 0));
    for subscriber in [&mut slow, &mut quick] {
        subscriber.ask("SUBSCRIBE news");
    }
    let mut publisher = world.connect();
    let text = "x".repeat(1 << 20);
    let mut receivers = Vec::new();
    for _ in 0..64 {
        receivers.push(publisher.command(&[b"PUBLISH", b"news", text.as_bytes()]));
        assert_eq!(quick.read_reply().len(), message("news", &text).len());
    }
    assert_eq!(receivers.first(), Some(&b":2\r\n".to_vec()));
    assert_eq!(receivers.last(), Some(&b":1\r\n".to_vec()), "the slow one has gone");
    poll_until("the log to tell", || world.proxy.output().contains("messages not read").then_some(()));
    // Bytes in the sockets can still be read, and then nothing more.
    let (read, _) = slow.read_to_end();
    assert!(read.len() < 64 << 20, "{} bytes", read.len());
}

#[test]
fn subscription_links_are_shared_and_closed_when_unused() {
    let world = World::with_flags(2, FLAGS);
    let channel = world.key_on(0, "ch");
    let mut subscribers: Vec<Client> = (0..20).map(|_| world.connect()).collect();
    for subscriber in &mut subscribers {
        subscriber.ask(&format!("SUBSCRIBE {channel}"));
    }
    let mut node = world.nodes[0].connect();
    let direct = node.ask(&format!("PUBSUB NUMSUB {channel}"));
    assert!(direct.ends_with(r":2\r\n"), "one for each worker: {direct}");
    assert!(world.nodes[1].connect().ask("CLIENT LIST TYPE pubsub").starts_with("$0"));
    drop(subscribers);
    poll_until("the node to be told", || (node.ask("PUBSUB CHANNELS") == r"*0\r\n").then_some(()));
}

#[test]
fn a_message_of_any_bytes_and_size_is_passed_on() {
    let world = World::with_flags(2, FLAGS);
    let mut subscriber = connect_to(&world, 0);
    let channel = b"any \r\n\0 name";
    subscriber.command(&[b"SUBSCRIBE", channel]);
    let mut publisher = connect_to(&world, 1);
    for len in [0, 1, 1000, 100_000, 3 << 20] {
        let text: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        assert_eq!(publisher.command(&[b"PUBLISH", channel, &text]), b":1\r\n");
        let got = subscriber.read_reply();
        let fields: Vec<&[u8]> = resp::reply::elements(&got).expect("an array").collect();
        assert_eq!(resp::reply::as_bulk(fields[1]), Some(&channel[..]));
        assert!(resp::reply::as_bulk(fields[2]) == Some(&text[..]), "{len} bytes");
    }
}

#[test]
fn a_transaction_publishes_where_its_channel_lives() {
    let world = World::with_flags(4, FLAGS);
    let (here, elsewhere) = (world.key_on(1, "ch"), world.key_on(2, "ch"));
    let mut subscriber = connect_to(&world, 0);
    subscriber.ask(&format!("SUBSCRIBE {here}"));
    let mut client = connect_to(&world, 1);
    let key = world.key_on(1, "k");
    client.ask("MULTI");
    assert_eq!(client.ask(&format!("SET {key} v")), r"+QUEUED\r\n");
    assert_eq!(client.ask(&format!("PUBLISH {here} hi")), r"+QUEUED\r\n");
    assert_eq!(client.ask("EXEC"), r"*2\r\n+OK\r\n:1\r\n");
    assert_reads(&mut subscriber, &message(&here, "hi"));
    client.ask("MULTI");
    client.ask(&format!("SET {key} v"));
    assert!(client.ask(&format!("PUBLISH {elsewhere} hi")).starts_with("-CROSSSLOT "));
    assert!(client.ask("EXEC").starts_with("-EXECABORT "));
}

/// The lines for a monitoring client up to `last`, without times and ports.
fn shown(client: &mut Client, last: &str) -> Vec<String> {
    let (bytes, ended) = client.read_until(format!("\"{last}\"\r\n").as_bytes());
    assert_eq!(ended, Ended::Marker, "{}", show(&bytes));
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let without_time = |line: &str| {
        let (_, rest) = line.split_once(" [")?;
        let (place, request) = rest.split_once("] ")?;
        let (database, _) = place.split_once(' ')?;
        Some(format!("{database}: {request}"))
    };
    text.lines().filter_map(without_time).collect()
}

#[test]
fn monitor_sees_clients_of_all_workers_as_redis_does() {
    let (node, world) = (RedisServer::reference(), World::with_flags(4, FLAGS));
    let requests = "SET a 1\r\nGET a b\r\nnosuch\r\nAUTH x\r\nAUTH default x\r\nHELLO 2 AUTH default y\r\n\
        CLIENT LIST\r\nSELECT 3\r\nGET \"a\\x00\\n\\\"\\xff\"\r\nMULTI\r\nSET q 1\r\nGET q\r\nEXEC\r\n\
        CLIENT SETNAME x\r\nSUBSCRIBE c\r\nGET q\r\nUNSUBSCRIBE\r\nMGET a b c d\r\nPUBLISH c x\r\nPING the-end\r\n";
    let mut oracle = node.connect();
    oracle.ask("MONITOR");
    let mut monitors = [connect_to(&world, 0), connect_to(&world, 1)];
    monitors.iter_mut().for_each(|monitor| assert_eq!(monitor.ask("MONITOR"), r"+OK\r\n"));
    node.connect().send(requests.as_bytes());
    // Their first requests tell whose they are.
    let mut client = connect_to(&world, 1);
    client.send(requests.as_bytes());
    let expected = shown(&mut oracle, "the-end");
    for monitor in &mut monitors {
        let lines = shown(monitor, "the-end");
        let begin = lines.iter().position(|line| line.ends_with("\"SET\" \"a\" \"1\"")).expect("it is shown");
        assert_eq!(lines[begin..], expected);
        // Shown beside replies, its own requests too.
        monitor.send(b"PING own\r\n");
        let (_, ended) = monitor.read_until(b"$3\r\nown\r\n");
        assert_eq!(ended, Ended::Marker);
    }
    monitors[0].send(b"RESET\r\n");
    let (_, ended) = monitors[0].read_until(b"+RESET\r\n");
    assert_eq!(ended, Ended::Marker);
    assert_eq!(monitors[0].ask("ECHO more"), r"$4\r\nmore\r\n", "nothing else comes any more");
}

#[test]
fn wishes_to_track_are_answered_as_by_redis() {
    let (node, world) = (RedisServer::reference(), World::with_shards(4));
    let (mut oracle, mut subject) = (node.connect(), world.connect());
    let wishes = [
        "CLIENT TRACKING\r\nCLIENT TRACKING xx\r\nCLIENT TRACKING on foo\r\nCLIENT TRACKING on redirect",
        "CLIENT TRACKING on redirect x\r\nCLIENT TRACKING on redirect 999999\r\nCLIENT TRACKING on prefix a",
        "CLIENT TRACKING on bcast optin\r\nCLIENT TRACKING on optin optout\r\nCLIENT CACHING yes\r\nCLIENT CACHING x",
        "CLIENT TRACKING on bcast prefix a prefix ab\r\nCLIENT TRACKINGINFO\r\nCLIENT GETREDIR",
        "CLIENT TRACKING on bcast prefix b prefix a\r\nCLIENT TRACKING on bcast prefix ac\r\nCLIENT TRACKINGINFO",
        "CLIENT TRACKING on bcast prefix c\r\nCLIENT TRACKING on\r\nCLIENT TRACKINGINFO\r\nCLIENT GETREDIR",
        "CLIENT TRACKING off\r\nCLIENT TRACKING on bcast\r\nCLIENT TRACKINGINFO\r\nCLIENT TRACKING off",
        "CLIENT TRACKING on optin\r\nCLIENT TRACKING on optout\r\nCLIENT CACHING no\r\nCLIENT CACHING x",
        "CLIENT CACHING yes\r\nCLIENT TRACKINGINFO\r\nPING\r\nCLIENT TRACKINGINFO\r\nCLIENT TRACKING off",
        "CLIENT TRACKING on noloop optout\r\nCLIENT TRACKINGINFO\r\nCLIENT CACHING yes\r\nCLIENT CACHING no",
        "CLIENT TRACKING off\r\nCLIENT TRACKING off\r\nCLIENT TRACKINGINFO\r\nCLIENT TRACKING on\r\nRESET",
        "CLIENT TRACKINGINFO\r\nCLIENT GETREDIR",
    ];
    for lines in wishes {
        assert_eq!(transcript(&mut subject, lines), transcript(&mut oracle, lines), "{lines}");
    }
    let lines = "CLIENT TRACKING on\r\nCLIENT TRACKINGINFO";
    subject.ask("HELLO 3");
    oracle.ask("HELLO 3");
    assert_eq!(transcript(&mut subject, lines), transcript(&mut oracle, lines));
}

/// The push that says that `key` has changed.
fn changed(key: &str) -> Vec<u8> {
    format!(">2\r\n$10\r\ninvalidate\r\n*1\r\n${}\r\n{key}\r\n", key.len()).into_bytes()
}

const FORGET_ALL: &[u8] = b">2\r\n$10\r\ninvalidate\r\n_\r\n";

#[test]
fn noloop_still_reports_close_writes_of_others() {
    let world = World::with_flags(1, FLAGS);
    let (mut client, mut writer) = (connect_to(&world, 0), connect_to(&world, 1));
    client.ask("HELLO 3");
    assert_eq!(client.ask("CLIENT TRACKING ON BCAST NOLOOP"), r"+OK\r\n");
    assert_eq!(client.ask("SET own v"), r"+OK\r\n");
    assert_eq!(writer.ask("SET mark v"), r"+OK\r\n");
    let (told, ended) = client.read_until(&changed("mark"));
    assert_eq!((told, ended), (Vec::new(), Ended::Marker), "nothing of its own");
    let mut overwritten = 0;
    for round in 0..300 {
        client.send(format!("SET k own{round}\r\n").as_bytes());
        writer.send(format!("SET k other{round}\r\n").as_bytes());
        assert_eq!(show(&writer.read_reply()), r"+OK\r\n");
        let (told, _) = client.read_until(b"+OK\r\n");
        if writer.ask("GET k").contains("other") {
            overwritten += 1;
            if !told.windows(changed("k").len()).any(|window| window == changed("k")) {
                assert_eq!(client.read_until(&changed("k")).1, Ended::Marker, "round {round}");
            }
        }
        client.send(b"ECHO end\r\n");
        client.read_until(b"$3\r\nend\r\n");
    }
    assert!(overwritten > 0, "the other was never the last");
}

#[test]
fn caching_clients_get_invalidations_of_all_nodes() {
    let mut world = World::with_flags(4, FLAGS);
    let (mut client, mut writer) = (connect_to(&world, 0), connect_to(&world, 1));
    client.ask("HELLO 3");
    assert_eq!(client.ask("CLIENT TRACKING ON"), r"+OK\r\n");
    let keys = world.key_on_each("k");
    for key in &keys {
        client.ask(&format!("GET {key}"));
    }
    for (shard, key) in keys.iter().enumerate() {
        // Through shardis, and past it.
        match shard {
            0 | 1 => writer.ask(&format!("SET {key} v")),
            _ => world.nodes[shard].connect().ask(&format!("SET {key} v")),
        };
        assert_reads(&mut client, &changed(key));
        writer.ask(&format!("SET {key} w"));
    }
    assert_eq!(client.ask("PING"), r"+PONG\r\n", "of each change after the first nobody need know");

    client.ask(&format!("GET {}", keys[1]));
    writer.ask(&format!("PEXPIRE {} 1", keys[1]));
    assert_reads(&mut client, &changed(&keys[1]));
    assert_eq!(writer.ask("FLUSHALL"), r"+OK\r\n");
    assert_reads(&mut client, FORGET_ALL);
    assert_eq!(client.ask("PING"), r"+PONG\r\n", "all nodes were flushed at once");

    client.ask("CLIENT TRACKING OFF");
    client.ask("CLIENT TRACKING ON BCAST PREFIX k");
    for key in &keys {
        writer.ask(&format!("MSET {key} v other{key} w"));
        assert_reads(&mut client, &changed(key));
    }

    let port = world.nodes[2].port;
    world.nodes[2].kill();
    assert_reads(&mut client, FORGET_ALL);
    world.nodes[2] = RedisServer::start_on(port);
    assert_reads(&mut client, FORGET_ALL);
    poll_until("the node behind the proxy", || {
        (writer.ask(&format!("SET {} v", keys[2])) == r"+OK\r\n").then_some(())
    });
    assert_reads(&mut client, &changed(&keys[2]));
}

/// The invalidations for a client that tracks with `options` and has sent `lines`. The keys `w`, `missing` and `a` have
/// changed, and `e`, which it has read, existed only for a moment.
fn told_of_changes(mut connect: impl FnMut() -> Client, options: &str, lines: &str) -> String {
    let (mut client, mut writer) = (connect(), connect());
    writer.ask("MSET a{t} old w{t} old e{t} old");
    writer.ask("DEL missing{t} mark{t}");
    client.ask("HELLO 3");
    client.ask(&format!("CLIENT TRACKING ON {options}"));
    let mut shown = transcript(&mut client, lines);
    let caching = if options == "OPTIN" { "CLIENT CACHING YES\r\n" } else { "" };
    shown += &transcript(&mut client, &format!("{caching}GET mark{{t}}"));
    for key in ["w", "missing", "a"] {
        writer.ask(&format!("SET {key}{{t}} new"));
    }
    writer.ask("PEXPIRE e{t} 1");
    poll_until("the end of e", || (writer.ask("EXISTS e{t}") == r":0\r\n").then_some(()));
    writer.ask("SET mark{t} v");
    let (told, ended) = client.read_until(&changed("mark{t}"));
    assert_eq!(ended, Ended::Marker, "{}", show(&told));
    shown + &show(&told)
}

/// Reads in transactions of clients that choose the tracked keys.
fn play_cached_transactions(mut oracle: impl FnMut() -> Client, mut subject: impl FnMut() -> Client) {
    for (options, word) in [("OPTIN", "YES"), ("OPTOUT", "NO")] {
        for lines in [
            "CLIENT CACHING w\r\nMULTI\r\nPTTL a{t}\r\nGET a{t}\r\nGET missing{t}\r\nGET e{t}\r\nEXEC",
            "MULTI\r\nGET a{t}\r\nGET missing{t}\r\nEXEC\r\nCLIENT CACHING w\r\nGET w{t}",
            "WATCH w{t}\r\nCLIENT CACHING w\r\nMULTI\r\nGET a{t}\r\nGET e{t}\r\nEXEC\r\nGET w{t}",
            "CLIENT CACHING w\r\nWATCH w{t}\r\nMULTI\r\nGET a{t}\r\nEXEC",
            "CLIENT CACHING w\r\nMULTI\r\nGET a{t}\r\nDISCARD\r\nCLIENT TRACKINGINFO\r\nGET w{t}",
            "CLIENT CACHING w\r\nMULTI\r\nGET a{t}\r\nGET\r\nEXEC\r\nCLIENT TRACKINGINFO\r\nGET w{t}",
            "CLIENT CACHING w\r\nCLIENT GETNAME\r\nCLIENT SETNAME\r\nCLIENT TRACKINGINFO\r\nGET a{t}",
            "CLIENT CACHING w\r\nCLIENT NOSUCH\r\nCLIENT TRACKINGINFO\r\nGET a{t}",
            "CLIENT CACHING w\r\nMULTI\r\nCLIENT TRACKINGINFO\r\nGET a{t}\r\nEXEC\r\nCLIENT TRACKINGINFO",
            "MULTI\r\nGET w{t}\r\nCLIENT CACHING w\r\nGET a{t}\r\nEXEC\r\nCLIENT TRACKINGINFO\r\nGET e{t}",
        ] {
            let lines = lines.replace("CACHING w", &format!("CACHING {word}"));
            let expected = told_of_changes(&mut oracle, options, &lines);
            assert_eq!(told_of_changes(&mut subject, options, &lines), expected, "{options}: {lines}");
        }
    }
}

#[test]
fn reads_in_transactions_are_cached_as_with_redis() {
    let (node, world) = (RedisServer::reference(), World::with_shards(2));
    play_cached_transactions(|| node.connect(), || world.connect());
    let store = Proxy::start(&["--port=0", "--workers=2"]);
    play_cached_transactions(|| node.connect(), || Client::connect(store.port));
}

#[test]
fn changes_are_redirected_to_clients_of_any_worker() {
    let world = World::with_flags(4, FLAGS);
    let keys = world.key_on_each("k");
    for worker in [0, 1] {
        let mut listener = connect_to(&world, worker);
        let id = listener.ask("CLIENT ID").trim_start_matches(':').trim_end_matches(r"\r\n").to_owned();
        listener.ask("SUBSCRIBE __redis__:invalidate");
        let (mut client, mut writer) = (connect_to(&world, 0), world.connect());
        assert_eq!(client.ask(&format!("CLIENT TRACKING ON REDIRECT {id}")), r"+OK\r\n");
        for key in &keys {
            client.ask(&format!("GET {key}"));
            writer.ask(&format!("SET {key} v"));
            let message = format!(
                "*3\r\n$7\r\nmessage\r\n$20\r\n__redis__:invalidate\r\n*1\r\n${}\r\n{key}\r\n",
                key.len()
            );
            assert_reads(&mut listener, message.as_bytes());
        }
        drop(listener);
        poll_until("the loss to be noticed", || {
            client.ask(&format!("GET {}", keys[0]));
            writer.ask(&format!("SET {} v", keys[0]));
            client.ask("CLIENT TRACKINGINFO").contains("broken_redirect").then_some(())
        });
    }
}
