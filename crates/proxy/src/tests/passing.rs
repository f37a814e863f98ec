//! Transcripts of users of the nodes (`--auth=nodes`). `|` stands for CR LF.

use crate::testing::Rig;
use crate::{ConnId, Credentials, Event, Limits};
use resp::request::{RequestLimits, Scanned, Scanner};
use std::collections::BTreeMap;
use std::time::Duration;
use stdx::Prng;

const NO_AUTH: &str = "-NOAUTH Authentication required.|";
const NO_AUTH_HELLO: &str = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
     <pass> option can be used to authenticate the client and select the RESP protocol version at the same time|";
pub(super) const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";
const NOT_ANY_MORE: &str = "-WRONGPASS what a node says of it, in its own words|";
pub(super) const HELLO: &str = "*1|$5|HELLO|";
const BOB: &str = "*3|$4|AUTH|$3|bob|$1|b|";
const GET: &str = "*2|$3|get|$1|k|";

/// A rig whose nodes' default user needs no password.
fn open(shards: usize) -> Rig {
    let mut rig = Rig::passing(shards, Limits::default(), Credentials::default());
    (0..shards as u32).for_each(|shard| rig.bring_up(shard));
    rig
}

/// A rig whose nodes' default user needs a password.
fn closed(shards: usize, limits: Limits) -> Rig {
    let mut rig = Rig::passing(shards, limits, Credentials::default());
    (0..shards as u32).for_each(|shard| turn_away(&mut rig, shard));
    rig
}

/// Connects the link to the node of `shard`, which answers only NOAUTH before a login.
fn turn_away(rig: &mut Rig, shard: u32) {
    let conn = rig.node(shard);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), "*1|$4|PING|");
    rig.sends(conn, NO_AUTH);
}

/// The link over which clients log in, which is made for the first of them.
fn door(rig: &mut Rig) -> ConnId {
    rig.bring_up_greeted(0, HELLO, NO_AUTH_HELLO)
}

/// Logs `client` in as bob. Returns the link of the login.
fn as_bob(rig: &mut Rig, client: ConnId) -> ConnId {
    rig.client_sends(client, "auth bob b|");
    let door = door(rig);
    assert_eq!(rig.taken(door), BOB);
    rig.sends(door, "+OK|");
    assert_eq!(rig.taken(client), "+OK|");
    door
}

/// Passes a second in which nodes only get health checks, and answer them.
pub(super) fn quiet_second(rig: &mut Rig) {
    rig.pass(Duration::from_secs(1));
    for (_, conn) in rig.conns() {
        match rig.taken(conn).as_str() {
            "*1|$4|PING|" => rig.sends(conn, "+PONG|"),
            HELLO => rig.sends(conn, "*0|"),
            _ => {}
        }
    }
}

/// The link of bob to `shard`, which is made for his first request there.
fn bobs(rig: &mut Rig, shard: u32) -> ConnId {
    rig.bring_up_greeted(shard, &format!("{BOB}{HELLO}"), "+OK|*2|$5|proto|:2|")
}

#[test]
fn requests_use_links_of_their_authenticated_user() {
    let mut rig = open(1);
    let [anybody, bob] = [rig.client(), rig.client()];
    rig.client_sends(anybody, "get k|acl whoami|");
    rig.client_sends(bob, "get k|auth bob b|get k|acl whoami|");
    assert_eq!(rig.node_got(0), GET.repeat(2));
    let door = door(&mut rig);
    assert_eq!(rig.taken(door), BOB);
    rig.node_sends(0, "$1|0|$1|0|");
    assert_eq!(rig.taken(anybody), "$1|0|$7|default|");
    assert_eq!(rig.taken(bob), "$1|0|", "nothing is said of who it is before a node has said it");
    rig.sends(door, "+OK|");
    assert_eq!(rig.taken(bob), "+OK|");
    let own = bobs(&mut rig, 0);
    assert_eq!((rig.taken(own).as_str(), rig.node_got(0).as_str()), (GET, ""));
    rig.sends(own, "$1|b|");
    assert_eq!(rig.taken(bob), "$1|b|$3|bob|");
    // A client with the same name and password shares the link. Another password gets another link, even for the same
    // user.
    for (login, asked) in
        [("auth bob b|", BOB.to_owned()), ("hello 2 auth bob x|", BOB.replace("$1|b|", "$1|x|"))]
    {
        let client = rig.client();
        rig.client_sends(client, &format!("{login}get k|"));
        assert_eq!(rig.taken(door), asked);
        rig.sends(door, "+OK|");
        if asked == BOB {
            assert_eq!(rig.taken(own), GET);
        } else {
            let other = rig.bring_up_greeted(0, &format!("{asked}{HELLO}"), "+OK|*0|");
            assert_eq!((rig.taken(other).as_str(), rig.taken(own).as_str()), (GET, ""));
        }
    }
}

#[test]
fn a_wrong_password_changes_nothing_and_opens_no_connection() {
    let mut rig = open(1);
    let client = rig.client();
    let door = as_bob(&mut rig, client);
    rig.client_sends(client, "get k|");
    let own = bobs(&mut rig, 0);
    assert_eq!(rig.taken(own), GET);
    rig.sends(own, "$1|b|");
    rig.taken(client);
    let conns = rig.conns().len();
    for number in 0..100 {
        let name = format!("{number:02}");
        rig.client_sends(client, &format!("auth {name} x|get k|"));
        assert_eq!(rig.taken(door), format!("*3|$4|AUTH|$2|{name}|$1|x|"));
        rig.sends(door, WRONG);
        assert_eq!(rig.taken(own), GET, "it is who it was");
        rig.sends(own, "$1|b|");
        assert_eq!(rig.taken(client), format!("{WRONG}$1|b|"));
    }
    rig.pass(Duration::ZERO);
    assert_eq!(rig.conns().len(), conns);
    // A login in another form is the node's decision as well.
    rig.client_sends(client, "auth secret|");
    assert_eq!(rig.taken(door), "*2|$4|AUTH|$6|secret|");
    let text = "-ERR AUTH <password> called without any password configured for the default user.|";
    rig.sends(door, text);
    rig.client_sends(client, "auth a b c|acl whoami|");
    assert_eq!(rig.taken(client), format!("{text}-ERR syntax error|$3|bob|"));
}

#[test]
fn before_a_required_login_little_is_permitted() {
    let mut rig = closed(2, Limits::default());
    assert_eq!((rig.is_up(0), rig.proxy.counters().nodes_up), (true, 2), "the nodes are well");
    let client = rig.client();
    rig.client_sends(client, "get k|client list|info|json.get k|hello|hello 3|select 3|");
    let refused = format!("{}{}{NO_AUTH}", NO_AUTH.repeat(4), NO_AUTH_HELLO.repeat(2));
    assert_eq!(rig.taken(client), refused);
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    rig.client_sends(client, "*3|$3|set|$1|k|$16385|");
    assert_eq!(rig.taken(client), "-ERR Protocol error: unauthenticated bulk length|");
    // After a login more is permitted; behind RESET, no more than before.
    let client = rig.client();
    as_bob(&mut rig, client);
    rig.client_sends(client, &format!("*3|$3|set|$1|k|$20000|{}|", "x".repeat(20_000)));
    let own = rig.bring_up_greeted(rig.shard_of("k"), &format!("{BOB}{HELLO}"), "+OK|*0|");
    assert!(rig.taken(own).starts_with("*3|$3|set|"));
    rig.sends(own, "+OK|");
    rig.client_sends(client, "reset|get k|");
    assert_eq!(rig.taken(client), format!("+OK|+RESET|{NO_AUTH}"));
}

#[test]
fn requests_before_the_first_answer_get_noauth_of_the_node() {
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let client = rig.client();
    rig.client_sends(client, "get k|");
    turn_away(&mut rig, 0);
    assert_eq!(rig.node_got(0), GET);
    rig.node_sends(0, NO_AUTH);
    rig.client_sends(client, "get k|");
    assert_eq!((rig.taken(client), rig.node_got(0).as_str()), (NO_AUTH.repeat(2), ""));
    // Large requests are refused even then.
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let client = rig.client();
    rig.client_sends(client, "*3|$3|set|$1|k|$16385|");
    assert_eq!(rig.taken(client), "-ERR Protocol error: unauthenticated bulk length|");
    // If no login is needed, the client goes on as usual.
    let client = rig.client();
    rig.client_sends(client, "get k|");
    rig.bring_up(0);
    assert_eq!(rig.node_got(0), GET);
}

#[test]
fn local_commands_wait_for_the_first_answer_about_logins() {
    const PING: &str = "*1|$4|PING|";
    let asks = |rig: &mut Rig| {
        let client = rig.client();
        rig.client_sends(client, "ping|hello|multi|config set x y|client id|get k|");
        assert_eq!(rig.taken(client), "");
        client
    };
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let (client, other) = (asks(&mut rig), asks(&mut rig));
    turn_away(&mut rig, 0);
    assert_eq!(rig.node_got(0), PING.repeat(2));
    rig.node_sends(0, &NO_AUTH.repeat(2));
    for client in [client, other] {
        assert_eq!(rig.taken(client), format!("{NO_AUTH}{NO_AUTH_HELLO}{}", NO_AUTH.repeat(4)));
    }
    assert_eq!(rig.node_got(0), "");
    // A request that needs no login need not wait.
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let client = rig.client();
    rig.client_sends(client, "reset|quit|");
    assert_eq!(rig.taken(client), "+RESET|+OK|");
    // No login is needed.
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let client = rig.client();
    rig.client_sends(client, "ping|multi|get k|");
    rig.bring_up(0);
    assert_eq!((rig.node_got(0).as_str(), rig.taken(client).as_str()), (PING, ""));
    rig.node_sends(0, "+PONG|");
    assert_eq!(rig.taken(client), "+PONG|+OK|+QUEUED|");
    // No node has answered. Commands that need no node are answered, without a question for each request.
    let mut rig = Rig::passing(1, Limits::default(), Credentials::default());
    let client = rig.client();
    rig.client_sends(client, "ping|ping|");
    let conn = rig.node(0);
    rig.event(Event::Closed { conn, reason: "connection refused" });
    assert_eq!(rig.taken(client), "+PONG|+PONG|");
    let late = rig.client();
    rig.client_sends(late, "ping|");
    assert_eq!(rig.taken(late), "+PONG|");
}

#[test]
fn default_user_may_be_disabled_and_enabled_with_clients() {
    let mut rig = open(1);
    let client = rig.client();
    let lost = |rig: &mut Rig| {
        let conn = rig.node(0);
        rig.event(Event::Ended { conn });
        rig.pass(Duration::from_millis(11));
    };
    lost(&mut rig);
    turn_away(&mut rig, 0);
    rig.client_sends(client, "get k|");
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (NO_AUTH, ""));
    lost(&mut rig);
    rig.bring_up(0);
    rig.client_sends(client, "get k|");
    assert_eq!(rig.node_got(0), GET);
}

#[test]
fn connections_that_are_our_own_carry_no_request_of_a_client() {
    let ours = Credentials::new(Some(b"proxy"), b"p");
    let mut rig = Rig::passing(1, Limits::default(), ours);
    let first = rig.node(0);
    rig.event(Event::Connected { conn: first });
    assert_eq!(rig.taken(first), "*3|$4|AUTH|$5|proxy|$1|p|*1|$4|PING|");
    rig.sends(first, "+OK|+PONG|");
    let client = rig.client();
    rig.client_sends(client, "get k|hello 3|");
    assert_eq!(rig.taken(client), format!("{NO_AUTH}{NO_AUTH_HELLO}"));
    as_bob(&mut rig, client);
    rig.client_sends(client, "get k|info|json.get k|client unblock 1|");
    let own = bobs(&mut rig, 0);
    let asked = rig.taken(own);
    assert!(asked.starts_with(GET) && asked.contains("|INFO|") && asked.contains("|COMMAND|"), "{asked}");
    assert_eq!(rig.taken(first), "");
}

#[test]
fn hello_says_all_at_once_or_nothing() {
    let mut rig = closed(1, Limits::default());
    let client = rig.client();
    rig.client_sends(client, "hello 3 auth bob b setname a\u{7f}|hello 3 auth bob b nosuch|");
    rig.client_sends(client, "hello 3 auth bob x setname me|");
    let refusals = "-ERR Client names cannot contain spaces, newlines or special characters.|\
                    -ERR Syntax error in HELLO option 'nosuch'|";
    assert_eq!(rig.taken(client), refusals);
    let door = door(&mut rig);
    assert_eq!(rig.taken(door), BOB.replace("$1|b|", "$1|x|"));
    rig.sends(door, WRONG);
    rig.client_sends(client, "client getname|");
    assert_eq!(rig.taken(client), format!("{WRONG}{NO_AUTH}"));
    rig.client_sends(client, "hello 3 auth bob b setname me|client getname|get k|");
    assert_eq!(rig.taken(door), BOB);
    rig.sends(door, "+OK|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("%7|$6|server|") && reply.ends_with("|$2|me|"), "{reply}");
    let own = rig.bring_up_greeted(0, &format!("{BOB}*2|$5|HELLO|$1|3|{HELLO}"), "+OK|%0|%0|");
    assert_eq!(rig.taken(own), GET);
    rig.sends(own, "_|");
    // Database and protocol stay when the user changes. RESET resets all of them.
    rig.client_sends(client, "auth eve e|select 3|get k|");
    rig.sends(door, "+OK|");
    let greeting = format!("*3|$4|AUTH|$3|eve|$1|e|*2|$5|HELLO|$1|3|*2|$6|SELECT|$1|3|{HELLO}");
    let eves = rig.bring_up_greeted(0, &greeting, "+OK|%0|+OK|%0|");
    rig.sends(eves, "_|");
    rig.client_sends(client, "reset|hello|");
    assert_eq!(rig.taken(client), format!("_|+OK|+OK|_|+RESET|{NO_AUTH_HELLO}"));
}

#[test]
fn login_error_of_another_node_answers_requests_there() {
    let mut rig = open(2);
    let client = rig.client();
    as_bob(&mut rig, client);
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("get {b}|get {a}|"));
    bobs(&mut rig, 0);
    rig.bring_up_greeted(1, &format!("{BOB}{HELLO}"), NOT_ANY_MORE);
    let own = bobs_again(&mut rig, 0);
    rig.sends(own, "$1|v|");
    assert_eq!(rig.taken(client), format!("{NOT_ANY_MORE}$1|v|"));
    rig.taken(own);
    // The error lasts as long as the node returns it. A transaction gets the error as the reason for its failure.
    let error = NOT_ANY_MORE.trim_start_matches('-');
    rig.client_sends(client, &format!("get {b}|mset {a} 1 {b} 2|multi|set {b} 1|exec|"));
    let discarded = format!("+OK|+QUEUED|-EXECABORT Transaction discarded because of: {error}");
    assert_eq!(rig.taken(client), format!("{}{discarded}", NOT_ANY_MORE.repeat(2)));
    assert_eq!(rig.taken(own), "", "nothing of a command is sent if a part of it cannot be");
    assert_eq!((rig.notices().len(), rig.proxy.counters().nodes_up), (0, 2), "the nodes are well");
    rig.pass(Duration::from_millis(30));
    rig.bring_up_greeted(1, &format!("{BOB}{HELLO}"), "+OK|*0|");
    rig.client_sends(client, &format!("get {b}|"));
    let other = rig.conns().iter().rfind(|(node, _)| *node == 1).expect("it is there").1;
    assert_eq!(rig.taken(other), format!("*2|$3|get|${}|{b}|", b.len()));
}

/// The link of bob to `shard` that exists.
fn bobs_again(rig: &mut Rig, shard: u32) -> ConnId {
    rig.conns().into_iter().rfind(|(node, _)| *node == shard).expect("it is there").1
}

#[test]
fn a_deleted_user_gets_the_error_of_the_node() {
    let mut rig = open(1);
    let client = rig.client();
    let door = as_bob(&mut rig, client);
    rig.client_sends(client, "get k|");
    let own = bobs(&mut rig, 0);
    rig.sends(own, "$1|v|");
    rig.pass(Duration::from_secs(2));
    // Redis closes the connections of a user that is deleted.
    rig.event(Event::Ended { conn: own });
    rig.client_sends(client, "get k|");
    rig.bring_up_greeted(0, &format!("{BOB}{HELLO}"), WRONG);
    assert_eq!(rig.taken(client), format!("$1|v|{WRONG}"));
    // The client may log in as another user.
    rig.client_sends(client, "auth eve e|get k|");
    rig.sends(door, "+OK|");
    let eves = rig.bring_up_greeted(0, &format!("*3|$4|AUTH|$3|eve|$1|e|{HELLO}"), "+OK|*0|");
    rig.sends(eves, "$1|e|");
    assert_eq!(rig.taken(client), "+OK|$1|e|");
}

#[test]
fn an_unused_password_is_forgotten_after_a_while() {
    let mut rig = open(1);
    let client = rig.client();
    let secret = "*3|$4|AUTH|$3|bob|$17|hush-said-the-fox|";
    rig.client_sends(client, "auth bob hush-said-the-fox|get k|");
    let door = door(&mut rig);
    assert_eq!(rig.taken(door), secret);
    rig.sends(door, "+OK|");
    let own = rig.bring_up_greeted(0, &format!("{secret}{HELLO}"), "+OK|*0|");
    rig.sends(own, "$1|v|");
    let shows = |rig: &Rig| {
        let bytes = format!("{:?}", b"hush-said-the-fox");
        let all = format!("{:?}", rig.proxy);
        all.contains("hush-said") || all.contains(bytes.trim_matches(['[', ']']))
    };
    assert!(!shows(&rig), "it is hidden while it is known");
    rig.client_sends(client, "client list|acl whoami|info|");
    rig.sends(own, "$0||");
    assert!(!rig.taken(client).contains("hush-said"));
    rig.event(Event::Ended { conn: client });
    (0..4).for_each(|_| quiet_second(&mut rig));
    assert_eq!((rig.is_closed(own), rig.proxy.core.cx.profiles.identities.len()), (false, 1));
    (0..4).for_each(|_| quiet_second(&mut rig));
    assert_eq!((rig.is_closed(own), rig.is_closed(door)), (true, true));
    assert_eq!(rig.proxy.core.cx.profiles.identities.len(), 0);
    // The place of his profile belongs to another user, and its link begins with that login.
    let client = rig.client();
    rig.client_sends(client, "auth eve e|get k|");
    let door = rig.bring_up_greeted(0, HELLO, "*0|");
    rig.sends(door, "+OK|");
    let eves = rig.bring_up_greeted(0, &format!("*3|$4|AUTH|$3|eve|$1|e|{HELLO}"), "+OK|*0|");
    assert!(rig.taken(eves).ends_with(GET));
}

#[test]
fn users_logged_in_at_once_are_bounded() {
    let mut rig = closed(1, Limits { identities_max: 1, ..Limits::default() });
    let [bob, eve] = [rig.client(), rig.client()];
    let door = as_bob(&mut rig, bob);
    rig.client_sends(eve, "auth eve e|get k|");
    rig.sends(door, "+OK|");
    assert_eq!(rig.taken(eve), format!("-ERR too many users are logged in at once|{NO_AUTH}"));
    // A user that is logged in may log in twice.
    rig.client_sends(eve, "auth bob b|acl whoami|");
    rig.sends(door, "+OK|");
    assert_eq!(rig.taken(eve), "+OK|$3|bob|");
    let long = "x".repeat(16_385);
    rig.client_sends(eve, &format!("*3|$4|auth|$1|x|$16385|{long}|"));
    assert_eq!(rig.taken(eve), "-ERR the user's name or the password is too long|");
    // Links are bounded too.
    let mut rig = closed(1, Limits { profile_nodes_max: 0, ..Limits::default() });
    let bob = rig.client();
    as_bob(&mut rig, bob);
    rig.client_sends(bob, "get k|");
    let refusal = "-TRYAGAIN shard 127.0.0.1:7000 unavailable: too many users are logged in at once|";
    assert_eq!(rig.taken(bob), refusal);
}

/// Newer nodes leave out the reply to an AUTH that fails while another reply waits to be sent.
#[test]
fn logins_at_a_node_are_sent_one_at_a_time() {
    let mut rig = closed(1, Limits::default());
    let [bob, eve, ann] = [rig.client(), rig.client(), rig.client()];
    for (client, login) in [(bob, "auth bob b|"), (eve, "auth eve e|"), (ann, "auth ann a|")] {
        rig.client_sends(client, login);
    }
    let door = door(&mut rig);
    assert_eq!(rig.taken(door), BOB);
    rig.sends(door, "+OK|");
    assert_eq!((rig.taken(bob).as_str(), rig.taken(eve).as_str()), ("+OK|", ""));
    assert_eq!(rig.taken(door), "*3|$4|AUTH|$3|eve|$1|e|");
    rig.sends(door, WRONG);
    assert_eq!((rig.taken(eve).as_str(), rig.taken(ann).as_str()), (WRONG, ""));
    assert_eq!(rig.taken(door), "*3|$4|AUTH|$3|ann|$1|a|");
    // A login without a reply must not give its place to the reply of another login.
    let timeout = rig.proxy.core.cx.engine.limits.request_timeout;
    rig.pass(timeout / 2);
    rig.client_sends(bob, "auth bob b|");
    assert_eq!(rig.taken(door), "");
    rig.pass(timeout / 2);
    assert!(rig.taken(ann).contains("outcome unknown"));
    assert!(rig.taken(bob).starts_with("-TRYAGAIN shard 127.0.0.1:7000 unavailable: "));
    assert!(rig.is_closed(door));
}

#[test]
fn a_login_that_no_node_answers_is_an_error_and_changes_nothing() {
    let mut rig = open(1);
    let client = rig.client();
    rig.client_sends(client, "auth bob b|get k|");
    let door = door(&mut rig);
    rig.taken(door);
    rig.event(Event::Ended { conn: door });
    let lost = "-ERR node connection lost, outcome unknown (shard 127.0.0.1:7000)|";
    assert_eq!((rig.taken(client).as_str(), rig.node_got(0).as_str()), (lost, GET));
    rig.node_sends(0, "$1|0|");
    assert_eq!(rig.taken(client), "$1|0|");
    // A client that has gone meanwhile leaves nothing behind.
    rig.pass(Duration::from_millis(11));
    let door = rig.bring_up_greeted(0, HELLO, NO_AUTH_HELLO);
    rig.client_sends(client, "auth bob b|");
    assert_eq!(rig.taken(door), BOB);
    rig.event(Event::Closed { conn: client, reason: "reset" });
    rig.sends(door, "+OK|");
    assert_eq!(rig.proxy.core.cx.logins.passing.attempts.len(), 0);
    assert_eq!(rig.proxy.core.cx.profiles.identities.len(), 0);
}

#[test]
fn commands_about_clients_are_confined_to_the_same_user() {
    let mut rig = open(1);
    let [bob, twin, eve] = [rig.client(), rig.client(), rig.client()];
    let door = as_bob(&mut rig, bob);
    for (client, login) in [(twin, "auth bob b|"), (eve, "auth eve e|")] {
        rig.client_sends(client, login);
        rig.sends(door, "+OK|");
        rig.taken(client);
    }
    rig.client_sends(bob, "client list|");
    let lines = rig.taken(bob);
    let ids: Vec<&str> =
        lines.lines().filter_map(|line| line.split("id=").nth(1)?.split(' ').next()).collect();
    assert_eq!(ids, ["1", "2"], "{lines}");
    rig.client_sends(bob, "client kill user eve|client kill id 3|client kill 127.0.0.1:50002|");
    assert_eq!(rig.taken(bob), ":0|:0|-ERR No such client|");
    rig.client_sends(bob, "client kill type normal|client kill user bob|");
    assert_eq!(rig.taken(bob), ":1|:0|");
    assert_eq!((rig.is_closed(twin), rig.is_closed(eve)), (true, false));
    for command in ["monitor", "client pause 100", "client tracking on", "config resetstat", "acl log"] {
        rig.client_sends(bob, &format!("{command}|"));
        let reply = rig.taken(bob);
        assert!(reply.starts_with("-ERR command '") && reply.contains("--auth=nodes"), "{command}: {reply}");
    }
    rig.client_sends(bob, "multi|acl log|discard|");
    assert!(rig.taken(bob).contains("--auth=nodes"));
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn questions_about_users_go_to_the_nodes() {
    let mut rig = open(2);
    let client = rig.client();
    as_bob(&mut rig, client);
    rig.client_sends(client, "acl getuser bob|acl setuser eve on|acl deluser eve|");
    let one = bobs(&mut rig, 0);
    let other = bobs(&mut rig, 1);
    let all = "*4|$3|acl|$7|setuser|$3|eve|$2|on|*3|$3|acl|$7|deluser|$3|eve|";
    let asked = [rig.taken(one), rig.taken(other)];
    assert_eq!(asked.map(|asked| asked.replace(all, "")).concat(), "*3|$3|acl|$7|getuser|$3|bob|");
    let denied = "-NOPERM this user has no permissions to run the 'acl setuser' command|";
    rig.sends(one, &format!("*0|{denied}:0|"));
    rig.sends(other, &format!("{denied}:0|"));
    assert_eq!(rig.taken(client), format!("*0|{denied}:0|"));
    // The node also decides over reports.
    rig.client_sends(client, "info server|");
    let denied = "-NOPERM this user has no permissions to run the 'info' command|";
    rig.sends(one, denied);
    rig.sends(other, denied);
    assert_eq!(rig.taken(client), denied);
}

#[test]
fn denied_command_info_hides_no_command_from_others() {
    let mut rig = open(1);
    let [bob, anybody] = [rig.client(), rig.client()];
    as_bob(&mut rig, bob);
    rig.client_sends(bob, "json.get k|");
    let own = bobs(&mut rig, 0);
    let question = "*3|$7|COMMAND|$4|INFO|$8|json.get|";
    assert_eq!(rig.taken(own), question);
    let denied = "-NOPERM this user has no permissions to run the 'command info' command|";
    rig.sends(own, denied);
    assert_eq!(rig.taken(bob), denied);
    rig.pass(Duration::from_millis(1));
    rig.client_sends(anybody, "json.get k|");
    assert_eq!(rig.node_got(0), question);
}

/// The opinion of a node of a random world about a connection's user, by the bytes that came over it.
#[derive(Default)]
struct Line {
    connected: bool,
    /// The user of the AUTH with which the connection began.
    user: Option<String>,
    /// Whether a request came over the connection.
    is_greeted: bool,
    /// Whether the connection began as one for logins does.
    is_door: bool,
}

/// Whether `password` is that of the user `name`: its first letter.
fn is_right(name: &str, password: &str) -> bool {
    name.starts_with(password) && ["alice", "bob", "carol"].contains(&name)
}

struct World {
    rig: Rig,
    prng: Prng,
    lines: BTreeMap<ConnId, Line>,
    /// Requests by the user of their connection.
    carried: BTreeMap<String, usize>,
}

impl World {
    /// Connects nodes and lets them answer all requests, until nothing is left.
    fn serve(&mut self) {
        loop {
            self.rig.pass(Duration::ZERO);
            self.rig.proxy.handle_timeouts(self.rig.now);
            self.rig.perform();
            let mut is_quiet = true;
            for (_, conn) in self.rig.conns() {
                if !self.lines.entry(conn).or_default().connected {
                    self.lines.entry(conn).or_default().connected = true;
                    self.rig.event(Event::Connected { conn });
                }
                let bytes = self.rig.taken_bytes(conn);
                let answer = self.answer(conn, &bytes);
                is_quiet &= answer.is_empty();
                self.rig.sends(conn, &answer);
            }
            if is_quiet {
                return;
            }
        }
    }

    fn answer(&mut self, conn: ConnId, bytes: &[u8]) -> String {
        let (mut at, mut answers) = (0, String::new());
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let limits = RequestLimits::default();
        while at < bytes.len() {
            let scanned = Scanner::default().scan(&bytes[at..], &limits, &mut args, &mut inline);
            let Ok(Scanned::Request { len }) = scanned else { panic!("whole requests: {scanned:?}") };
            let request = resp::Request::new(&bytes[at..at + len], &args);
            let words: Vec<String> =
                request.args().map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
            at += len;
            answers += &self.answer_one(conn, &words);
        }
        answers
    }

    fn answer_one(&mut self, conn: ConnId, words: &[String]) -> String {
        let line = self.lines.entry(conn).or_default();
        let is_first = !std::mem::replace(&mut line.is_greeted, true);
        line.is_door |= is_first && words == ["HELLO"];
        match (words[0].to_ascii_lowercase().as_str(), words) {
            ("auth", [_, name, password]) => {
                assert!(is_first || line.is_door, "{words:?} over a connection of {:?}", line.user);
                line.user = Some(name.clone());
                if is_right(name, password) { "+OK|" } else { WRONG }.to_owned()
            }
            ("hello" | "select" | "ping" | "unwatch", _) if words[0] == words[0].to_ascii_uppercase() => {
                if words[0] == "PING" { "+PONG|" } else { "+OK|" }.to_owned()
            }
            ("client", _) => ":7|".to_owned(),
            (name, _) => {
                let user = line.user.as_deref().unwrap_or("default");
                assert!(!line.is_door, "{words:?} over the connection for logins");
                let keys = words.iter().filter(|word| word.contains(':'));
                for key in keys {
                    assert!(key.starts_with(&format!("{user}:")), "{words:?} over a connection of {user}");
                    *self.carried.entry(user.to_owned()).or_default() += 1;
                }
                match name {
                    "mget" => format!("*{}|{}", words.len() - 1, "$-1|".repeat(words.len() - 1)),
                    "multi" | "watch" => "+OK|".to_owned(),
                    "exec" => "*1|+OK|".to_owned(),
                    "blpop" => "*-1|".to_owned(),
                    "set" if words.len() == 4 => "+QUEUED|".to_owned(),
                    _ => "+OK|".to_owned(),
                }
            }
        }
    }

    /// The next request of a client that is logged in as `user`, and its user afterwards.
    fn draw(&mut self, user: &str) -> (String, String) {
        let number = self.prng.below(40);
        let key = |number: u64| format!("{user}:{number}");
        let (a, b) = (key(number), key(number + 1));
        let names = ["alice", "bob", "carol"];
        let name = names[self.prng.below(3) as usize];
        let stays = user.to_owned();
        match self.prng.below(16) {
            0 => (format!("auth {name} {}|", &name[..1]), name.to_owned()),
            1 => (format!("hello {} auth {name} {}|", 2 + self.prng.below(2), &name[..1]), name.to_owned()),
            2 => (format!("auth {name} x|"), stays),
            3 => ("reset|".to_owned(), "default".to_owned()),
            4 => (format!("select {}|", self.prng.below(3)), stays),
            5 => (format!("watch {a}|multi|set {a} 1 nx|exec|"), stays),
            6 => (format!("multi|set {a} 1 nx|exec|"), stays),
            7 => (format!("blpop {a} 1|"), stays),
            8 => (format!("mset {a} 1 {b} 2|"), stays),
            9 => (format!("eval return 1 {a}|"), stays),
            10 => (format!("mget {a} {b} {}|", key(number + 2)), stays),
            _ => (format!("get {a}|"), stays),
        }
    }
}

#[test]
fn no_request_goes_over_a_connection_of_another_user() {
    for seed in 0..40 {
        let rig = open(3);
        let (lines, carried) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World { rig, prng: Prng::new(seed), lines, carried };
        for (_, conn) in world.rig.conns() {
            world.lines.insert(conn, Line { connected: true, ..Line::default() });
        }
        let mut clients: Vec<(ConnId, String)> =
            (0..6).map(|_| (world.rig.client(), "default".to_owned())).collect();
        for _ in 0..200 {
            let chosen = world.prng.below(6) as usize;
            let mut text = String::new();
            for _ in 0..=world.prng.below(4) {
                let (sent, next) = world.draw(&clients[chosen].1.clone());
                text += &sent;
                clients[chosen].1 = next;
            }
            world.rig.client_sends(clients[chosen].0, &text);
            match world.prng.below(8) {
                0 | 1 => {}
                2 => {
                    for _ in 0..=world.prng.below(20) {
                        world.serve();
                        world.rig.pass(Duration::from_millis(500));
                    }
                }
                3 => {
                    world.serve();
                    let conns = world.rig.conns();
                    let (_, conn) = conns[world.prng.below(conns.len() as u64) as usize];
                    world.rig.event(Event::Ended { conn });
                    // Until the link is made again, a login is refused, and its client's user would be unknown.
                    world.rig.pass(Duration::from_millis(11));
                    world.serve();
                }
                4 => {
                    world.rig.event(Event::Closed { conn: clients[chosen].0, reason: "reset" });
                    clients[chosen] = (world.rig.client(), "default".to_owned());
                }
                _ => world.serve(),
            }
            // Otherwise the outcome of a login would be unknown.
            assert_eq!(world.rig.proxy.counters().timeouts, 0, "all are answered before time passes");
        }
        assert!(world.carried.len() >= 2, "seed {seed}: {:?}", world.carried);
    }
}
