//! Every command and subcommand of the table, with too few, too many and the right number of arguments. Errors must be Redis's,
//! byte for byte, and replies of its type. Effects on data are tested by `differential`.

use crate::harness::oracle::{Oracle, OracleClient};
use crate::harness::{Client, World, server, show};
use command::{Carry, Command, Local, Refusal, Transaction, Wait};

/// Requests that a Redis without a cluster refuses, while shardis acts as a cluster for cluster clients: tested in
/// `administration`.
const ABOUT_THE_SERVER: &[&str] = &["asking", "cluster", "readonly", "readwrite"];

#[test]
fn every_wrong_arity_gets_the_error_of_redis() {
    let (node, world) = (Oracle::start(), World::with_shards(2));
    let (mut oracle, mut subject) = (node.connect(), world.connect());
    let mut compared = 0;
    for command in lines() {
        let bound = command.arity.unsigned_abs() as usize;
        let words = command.name.split('|').count();
        let too_few = bound.checked_sub(1).filter(|&len| len >= words);
        let too_many = (command.arity > 0).then_some(bound + 1);
        for len in too_few.into_iter().chain(too_many) {
            let request = request(command, len);
            let (expected, got) = (ask_oracle(&mut oracle, &request), ask(&mut subject, &request));
            if is_in_the_node(command, &expected) {
                assert!(expected.contains(&got), "{request:?}: {}, redis: {}", show(&got), shown(&expected));
                compared += 1;
            }
        }
    }
    assert!(compared > 400, "only {compared} requests were compared");
}

#[test]
fn every_right_arity_answers_as_redis_or_is_refused_by_name() {
    let (node, world) = (Oracle::start(), World::with_shards(2));
    let (mut oracle, mut subject) = (node.connect(), world.connect());
    let (mut compared, mut refused) = (0, 0);
    for command in lines() {
        let bound = command.arity.unsigned_abs() as usize;
        let lens = bound..bound + if command.arity < 0 { 3 } else { 1 };
        for request in lens.flat_map(|len| [request(command, len), request_of_keys(command, len)]) {
            let got = ask(&mut subject, &request);
            if got.starts_with(b"-CROSSSLOT ") {
                continue;
            }
            if let Some(text) = refusal(command) {
                assert!(got.starts_with(text.as_bytes()), "{request:?}: {}", show(&got));
                refused += 1;
                continue;
            }
            let expected = ask_oracle(&mut oracle, &request);
            if !is_in_the_node(command, &expected) {
                assert_known_as_far_as_nodes_know_it(command, &got);
            } else if is_about_the_server(command) {
                assert!(!got.starts_with(b"-ERR unknown command"), "{request:?}: {}", show(&got));
            } else {
                assert_alike(&request, &expected, &got);
                compared += 1;
            }
            if command.carry == Carry::Transaction(Transaction::Begin) {
                assert_eq!(subject.ask("DISCARD"), r"+OK\r\n");
                assert!(oracle.ask("DISCARD").iter().all(|reply| reply == r"+OK\r\n"));
            }
        }
        // After any reply, the connection is in step.
        assert_eq!(subject.ask("ECHO marker"), r"$6\r\nmarker\r\n", "behind {}", command.name);
    }
    assert!(compared > 400 && refused > 50, "{compared} compared, {refused} refused");
}

/// Whether nodes have it, so that there is something to compare with. The last reply is that of a node: the table has no facts
/// about versions before Redis 7.0.
fn is_in_the_node(command: &Command, replies: &[Vec<u8>]) -> bool {
    let is_unknown = !server::is_at_least_7_0() && replies.last().is_some_and(|reply| is_unknown(reply));
    command.since.is_in(server::server()) && !is_unknown
}

/// All clients know commands that shardis answers; forwarded ones are unknown if no node knows them.
#[track_caller]
fn assert_known_as_far_as_nodes_know_it(command: &Command, reply: &[u8]) {
    let is_answered_here = matches!(command.carry, Carry::Here(_) | Carry::Transaction(_));
    assert!(is_answered_here != is_unknown(reply), "{}: {}", command.name, show(reply));
}

fn is_unknown(reply: &[u8]) -> bool {
    let unknown: [&[u8]; 2] = [b"-ERR unknown ", b"-ERR Unknown subcommand or wrong number"];
    unknown.iter().any(|start| reply.starts_with(start))
}

/// All commands that are sent by themselves and all subcommands.
fn lines() -> impl Iterator<Item = &'static Command> {
    let lines = command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()));
    lines
        .filter(|command| command.carry != Carry::Container && &*command.name != "quit")
        .filter(|command| !changes_what_comes(command))
}

/// Behind it, more comes than replies: tested in `pubsub`.
fn changes_what_comes(command: &Command) -> bool {
    matches!(command.carry, Carry::Here(Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Monitor))
}

/// A request of `len` arguments: a key and small numbers.
fn request(command: &Command, len: usize) -> Vec<String> {
    let key = command.single_key().unwrap_or(1);
    let waits = match command.carry {
        Carry::Blocking(Wait::Last) => Some(len - 1),
        Carry::Blocking(Wait::First) => Some(1),
        _ => None,
    };
    filled(command, len, |at| match () {
        () if waits == Some(at) => "0.001",
        () if at == key => "k{t}",
        () => "1",
    })
}

/// A request of `len` arguments that could all be keys of one shard.
fn request_of_keys(command: &Command, len: usize) -> Vec<String> {
    filled(command, len, |at| if at % 2 == 1 { "k{t}" } else { "l{t}" })
}

fn filled(command: &Command, len: usize, word: impl Fn(usize) -> &'static str) -> Vec<String> {
    let mut words: Vec<String> = command.name.split('|').map(str::to_owned).collect();
    words.extend((words.len()..len).map(|at| word(at).to_owned()));
    words
}

fn ask(client: &mut Client, request: &[String]) -> Vec<u8> {
    client.command(&request.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

fn ask_oracle(oracle: &mut OracleClient, request: &[String]) -> Vec<Vec<u8>> {
    oracle.command(&request.iter().map(|word| word.as_bytes()).collect::<Vec<_>>())
}

fn shown(replies: &[Vec<u8>]) -> String {
    replies.iter().map(|reply| show(reply)).collect::<Vec<_>>().join(" or ")
}

/// Beginning of the refusal of `command`, if it is refused with any arguments. The error for an unknown command ends with the
/// arguments.
fn refusal(command: &Command) -> Option<String> {
    let name = &command.name;
    let not_allowed = format!("-ERR command '{name}' is not allowed through shardis");
    match command.carry {
        Carry::Refused(Refusal::Later(what)) => {
            Some(format!("-ERR command '{name}' is not supported by shardis yet ({what})\r\n"))
        }
        Carry::Refused(Refusal::Unknown(_)) => Some("-ERR unknown command".to_owned()),
        Carry::Refused(Refusal::Never(why)) | Carry::OnlyShard(why) => {
            Some(format!("{not_allowed}: {why}\r\n"))
        }
        Carry::Refused(Refusal::Admin(why)) | Carry::Admin(why, _) => {
            Some(format!("{not_allowed} without --allow-admin: {why}\r\n"))
        }
        _ => None,
    }
}

fn is_about_the_server(command: &Command) -> bool {
    let container = command.name.split('|').next().unwrap_or_default();
    ABOUT_THE_SERVER.contains(&container)
}

/// Errors byte for byte; other replies by their kind, since clocks, memory and chance are each server's own.
#[track_caller]
fn assert_alike(request: &[String], expected: &[Vec<u8>], got: &[u8]) {
    let kind = |reply: &[u8]| reply.first().map(|&byte| char::from(byte));
    let is_alike = |expected: &Vec<u8>| {
        if expected.starts_with(b"-") { expected == got } else { kind(expected) == kind(got) }
    };
    let same = expected.iter().any(is_alike);
    assert!(same, "{request:?}\n  redis:   {}\n  shardis: {}", shown(expected), show(got));
}
