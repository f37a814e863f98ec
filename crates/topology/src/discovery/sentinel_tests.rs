//! Real answers of Redis 7.0.15's sentinels as parsed, and a machine among sentinels that agree, disagree, and die.

use super::sentinel_answer::{NoClaim, Role, is_about, parse, parse_role};
use super::sentinel_testing::{
    NIL, UNKNOWN, address, claim, discovery, primaries, primary, replica, roles_asked, said, sentinel, world,
};
use super::testing::{World, array};
use super::{News, Party, Wish};
use std::time::Duration;

#[test]
fn a_sentinels_answer_is_an_address_an_epoch_and_replicas() {
    let primary = include_bytes!("recorded/sentinel-master.resp").to_vec();
    let replicas = include_bytes!("recorded/sentinel-replicas.resp").to_vec();
    let replies = [
        array(&["127.0.0.1", "21011"]),
        primary.clone(),
        replicas.clone(),
        b"-ERR Unknown sentinel subcommand\r\n".to_vec(),
    ];
    let claim = parse(&replies).expect("it makes sense");
    assert_eq!((claim.address, claim.epoch), (address("127.0.0.1:21011"), 0));
    assert_eq!(claim.replicas, [address("127.0.0.1:21012"), address("127.0.0.1:21013")]);
    // Before Redis 5, and with a replica that the sentinel does not reach.
    let text =
        String::from_utf8(replicas).expect("text").replacen("$5\r\nslave\r\n", "$12\r\ns_down,slave\r\n", 1);
    let replies = [array(&["h", "1"]), primary, b"-ERR\r\n".to_vec(), text.into_bytes()];
    assert_eq!(parse(&replies).expect("it makes sense").replicas, [address("127.0.0.1:21013")]);
}

#[test]
fn a_name_that_a_sentinel_does_not_know_is_no_claim() {
    let unknown = || UNKNOWN.to_vec();
    assert_eq!(parse(&[NIL.to_vec(), unknown(), unknown(), unknown()]), Err(NoClaim::UnknownName));
    let refused = || b"-NOPERM this user has no permissions\r\n".to_vec();
    let reason = "NOPERM this user has no permissions".to_owned();
    assert_eq!(parse(&[refused(), refused(), refused(), refused()]), Err(NoClaim::Reason(reason)));
    let plain = || b"-ERR unknown command 'SENTINEL', with args beginning with: \r\n".to_vec();
    assert_eq!(parse(&[plain(), plain(), plain(), plain()]), Err(NoClaim::NoSentinel));
    for odd in [&b"+x\r\n"[..], b"*1\r\n$1\r\na\r\n", b"*2\r\n$1\r\na\r\n$1\r\n0\r\n"] {
        assert!(parse(&[odd.to_vec(), unknown(), unknown(), unknown()]).is_err(), "{odd:?}");
    }
}

#[test]
fn roles_are_parsed_from_the_reports_of_nodes() {
    // Redis 7.0.15.
    assert_eq!(parse_role(b"*3\r\n$6\r\nmaster\r\n:797\r\n*0\r\n"), Role::Primary);
    let replica = b"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:21011\r\n$9\r\nconnected\r\n:797\r\n";
    assert_eq!(parse_role(replica), Role::Other("the node is a replica".to_owned()));
    let sentinel = parse_role(b"*2\r\n$8\r\nsentinel\r\n*1\r\n$3\r\none\r\n");
    assert_eq!(sentinel, Role::Other("its role is sentinel".to_owned()));
    let loading = "LOADING Redis is loading the dataset in memory";
    assert_eq!(parse_role(format!("-{loading}\r\n").as_bytes()), Role::Unsaid(loading.to_owned()));
    assert!(matches!(parse_role(b"+master\r\n"), Role::Other(_)));
}

#[test]
fn messages_match_whole_names_only() {
    let names = ["one".to_owned(), "two".to_owned()];
    let message = |text: &str| array(&["pmessage", "*", "+any", text]);
    assert!(is_about(&message("one 127.0.0.1 21011 127.0.0.1 21013"), &names));
    assert!(is_about(&message("slave 127.0.0.1:21013 127.0.0.1 21013 @ two 127.0.0.1 21011"), &names));
    assert!(!is_about(&message("master oneself 127.0.0.1 21011"), &names));
    assert!(!is_about(b"*3\r\n$10\r\npsubscribe\r\n$1\r\n*\r\n:1\r\n", &names));
}

#[test]
fn primaries_are_found_in_the_order_of_their_names() {
    let (world, _) = world();
    assert_eq!(primaries(&world), ["a:1", "b:1"]);
    assert_eq!((roles_asked(&world, "a:1"), roles_asked(&world, "b:1")), (1, 1));
    let names: Vec<_> = world.views[0].shards.iter().map(|shard| shard.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    let told = world.connected.iter().filter(|(_, party)| *party == Party::Sentinel).count();
    assert_eq!(told, 6, "two connections to each sentinel");
}

#[test]
fn a_message_leads_to_the_new_primary_at_once() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    claim(&all[1], "c:1", 1);
    let message = array(&["pmessage", "*", "+switch-master", "one a 1 c 1"]);
    world.say("s:2", &message);
    world.run_for(Duration::from_millis(110));
    assert_eq!(primaries(&world), ["c:1", "b:1"]);
    // The others have not heard of it yet, and change nothing.
    let views = world.views.len();
    world.run_for(Duration::from_secs(30));
    assert_eq!((world.views.len(), primaries(&world)), (views, vec!["c:1".to_owned(), "b:1".to_owned()]));
    assert!(world.news.contains(&News::Changed("shard one: primary was a:1, is c:1".to_owned())));
}

/// A restarted sentinel answers questions half a second before discovery subscribes to it again.
#[test]
fn state_is_asked_for_after_a_missed_event() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    world.kill("s:2");
    world.put("s:2", sentinel(&all[1]));
    world.run_for(Duration::from_millis(300));
    claim(&all[1], "c:1", 1);
    world.run_for(Duration::from_millis(100));
    assert_eq!(primaries(&world), ["a:1", "b:1"], "nobody was asked");
    world.run_for(Duration::from_millis(300));
    assert_eq!(primaries(&world), ["c:1", "b:1"]);
}

#[test]
fn polling_alone_finds_the_new_primary() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    world.kill("a:1");
    world.wish(Wish::Down(address("a:1")));
    world.run_for(Duration::from_secs(2));
    all.iter().for_each(|said| claim(said, "c:1", 1));
    world.run_for(Duration::from_millis(110));
    assert_eq!(primaries(&world), ["c:1", "b:1"]);
}

#[test]
fn demoted_primary_gets_no_write_before_the_new_one_is_ready() {
    let (mut world, all) = world();
    claim(&all[0], "c:1", 1);
    world.wish(Wish::Look);
    world.run_for(Duration::from_secs(1));
    assert_eq!(primaries(&world), ["nobody", "b:1"], "c:1 says that it is a replica");
    let not_yet = News::NotPrimary {
        name: "one".into(),
        address: address("c:1"),
        reason: "the node is a replica".into(),
    };
    assert_eq!(world.news.iter().filter(|news| **news == not_yet).count(), 1);
    let asked = roles_asked(&world, "c:1");
    assert!((9..=22).contains(&asked), "{asked} times in a second");
    world.put("c:1", primary());
    world.run_for(Duration::from_millis(110));
    assert_eq!(primaries(&world), ["c:1", "b:1"]);
}

#[test]
fn a_primary_that_was_demoted_by_hand_is_not_written_to() {
    let (mut world, _) = world();
    world.put("a:1", replica());
    world.wish(Wish::Look);
    world.run_for(Duration::from_millis(200));
    assert_eq!(primaries(&world), ["nobody", "b:1"]);
    // A node that does not answer keeps its role: sentinels will name another if there is one.
    world.put("a:1", primary());
    world.run_for(Duration::from_secs(1));
    world.kill("b:1");
    world.wish(Wish::Look);
    world.run_for(Duration::from_secs(5));
    assert_eq!(primaries(&world), ["a:1", "b:1"]);
}

#[test]
fn older_claim_needs_a_majority_without_contradiction() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    all.iter().for_each(|said| claim(said, "c:1", 5));
    world.run_for(Duration::from_secs(15));
    assert_eq!(primaries(&world)[0], "c:1");
    // One was cut off for long.
    claim(&all[0], "a:1", 4);
    world.run_for(Duration::from_secs(30));
    assert_eq!(primaries(&world)[0], "c:1");
    // Two are gone, and the remaining one was the isolated one.
    world.kill("s:2");
    world.kill("s:3");
    world.run_for(Duration::from_secs(30));
    assert_eq!(primaries(&world)[0], "c:1");
    // All were told to forget everything.
    all.iter().for_each(|said| claim(said, "a:1", 0));
    world.put("s:2", sentinel(&all[1]));
    world.put("s:3", sentinel(&all[2]));
    world.run_for(Duration::from_secs(30));
    assert_eq!(primaries(&world)[0], "a:1");
}

#[test]
fn older_claim_is_taken_though_sentinels_answer_at_times_only() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    all.iter().for_each(|said| claim(said, "c:1", 5));
    world.run_for(Duration::from_secs(15));
    // All were told to forget everything. One is gone, and another answers for four seconds of eight.
    world.kill("s:3");
    all.iter().for_each(|said| claim(said, "a:1", 0));
    for expected in [Some("c:1"), Some("c:1"), None, None, Some("a:1")] {
        world.wish(Wish::Look);
        world.run_for(Duration::from_secs(4));
        let known = &primaries(&world)[0];
        assert!(expected.is_none_or(|expected| known == expected), "{known}, at {:?}", world.now);
        world.kill("s:2");
        world.run_for(Duration::from_secs(4));
        world.put("s:2", sentinel(&all[1]));
    }
}

#[test]
fn older_claim_that_is_contradicted_is_measured_anew() {
    let (mut world, all) = world();
    world.put("c:1", primary());
    all.iter().for_each(|said| claim(said, "c:1", 5));
    world.run_for(Duration::from_secs(15));
    let rounds = ["a:1", "a:1", "a:1", "c:1", "a:1", "a:1", "a:1", "a:1"];
    for (round, at) in rounds.into_iter().enumerate() {
        all.iter().for_each(|said| claim(said, at, if at == "a:1" { 0 } else { 5 }));
        world.wish(Wish::Look);
        world.run_for(Duration::from_secs(4));
        let expected = if round < 7 { "c:1" } else { "a:1" };
        assert_eq!(primaries(&world)[0], expected, "round {round}");
    }
}

#[test]
fn equals_are_decided_by_most() {
    let mut world = World::new(discovery(&["s:1", "s:2", "s:3"], &["one"]));
    for (at, claim) in [("s:1", "x:1"), ("s:2", "a:1"), ("s:3", "a:1")] {
        world.put(at, sentinel(&said(&[("one", claim, 3)])));
    }
    world.put("a:1", primary());
    world.put("x:1", primary());
    world.run_for(Duration::from_secs(12));
    assert_eq!(primaries(&world), ["a:1"]);
}

/// The claim of one sentinel waits for the others, and not for long.
#[test]
fn the_first_answer_alone_decides_nothing() {
    for (slowness, expected) in [(250, "a:1"), (60_000, "x:1")] {
        let mut world = World::new(discovery(&["s:1", "s:2", "s:3"], &["one"]));
        for (at, claim) in [("s:1", "x:1"), ("s:2", "a:1"), ("s:3", "a:1")] {
            world.put(at, sentinel(&said(&[("one", claim, 0)])));
        }
        for at in ["s:2", "s:3"] {
            world.slow.insert(at.to_owned(), Duration::from_millis(slowness));
        }
        world.put("a:1", primary());
        world.put("x:1", primary());
        world.run_for(Duration::from_millis(200));
        assert!(world.views.is_empty(), "{:?}", world.views);
        world.run_for(Duration::from_millis(200));
        assert_eq!(primaries(&world), [expected]);
    }
}

/// Whatever epoch it claims, a node that does not report itself as a primary gets no writes.
#[test]
fn a_lie_about_a_replica_moves_no_write_to_it() {
    let (mut world, all) = world();
    for (epoch, expected) in [(0, "a:1"), (99, "nobody")] {
        claim(&all[0], "c:1", epoch);
        world.wish(Wish::Look);
        world.run_for(Duration::from_secs(30));
        assert_eq!(primaries(&world), [expected, "b:1"], "epoch {epoch}");
    }
    claim(&all[0], "a:1", 100);
    world.run_for(Duration::from_secs(30));
    assert_eq!(primaries(&world), ["a:1", "b:1"]);
}

#[test]
fn an_unknown_name_is_reported_once_and_others_serve() {
    let mut world = World::new(discovery(&["s:1"], &["one", "none"]));
    world.put("s:1", sentinel(&said(&[("one", "a:1", 0)])));
    world.put("a:1", primary());
    world.run_for(Duration::from_secs(60));
    assert_eq!(primaries(&world), ["a:1", "nobody"]);
    let unknown = News::UnknownName { address: address("s:1"), name: "none".into() };
    assert_eq!(world.news.iter().filter(|news| **news == unknown).count(), 1);
}

#[test]
fn lost_sentinels_are_retried_and_silent_ones_probed() {
    let (mut world, _) = world();
    world.kill("s:1");
    world.run_for(Duration::from_secs(10));
    let tried = world.connected.iter().filter(|(at, _)| at == "s:1").count();
    assert!((10..60).contains(&tried), "{tried} attempts in 10 s");
    let (mut world, _) = super::sentinel_testing::world();
    let before = world.connected.len();
    // The sentinel does not answer any more, and its connections stay.
    world.put("s:1", |_| None);
    world.run_for(Duration::from_secs(7));
    let again: Vec<_> = world.connected[before..].iter().filter(|(at, _)| at == "s:1").collect();
    assert!(!again.is_empty(), "a PING without an answer ends the connection for messages");
}
