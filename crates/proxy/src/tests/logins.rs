//! Transcripts of users and their permissions. `|` stands for CR LF.

use crate::testing::{Rig, deliver_mail};
use crate::{Credentials, Event, Notice, Reloaded, Task, adopt_settings};
use users::Context;

const NO_AUTH: &str = "-NOAUTH Authentication required.|";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.|";
const NO_KEYS: &str = "-NOPERM this user has no permissions to access one of the keys used as arguments|";

/// A default user with a password, who may do everything, and two users with fewer permissions.
const USERS: &str = "user default on >secret ~* &* +@all
user reader on >r ~* +@read +acl|whoami
user bob on >b ~k* resetchannels -@all +get +set +mget +mset +eval +sort +client +auth";

#[test]
fn nothing_runs_before_the_login() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let client = rig.client();
    rig.client_sends(client, "get k|config get x|ping|json.get k|client list|");
    assert_eq!(rig.taken(client), NO_AUTH.repeat(5));
    assert_eq!(rig.node_got(0), "", "not even the question what a command is");
    rig.client_sends(client, "get|nosuch|");
    assert_eq!(
        rig.taken(client),
        format!("-ERR wrong number of arguments for 'get' command|{NO_AUTH}"),
        "what no node was asked about is not called unknown"
    );
    rig.client_sends(client, "auth wrong|auth default secret x|auth secret|get k|");
    assert_eq!(rig.taken(client), format!("{WRONG}-ERR syntax error|+OK|"));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|k|");
    rig.node_sends(0, "$-1|");
    rig.client_sends(client, "reset|get k|quit|");
    assert_eq!(rig.taken(client), format!("$-1|+RESET|{NO_AUTH}+OK|"));
    assert!(rig.is_closed(client));
}

#[test]
fn hello_can_log_in_too() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let client = rig.client();
    rig.client_sends(client, "hello 2|hello 2 auth bob x|hello 2 setname me|client getname|");
    let first = "-NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> \
                 <pass> option can be used to authenticate the client and select the RESP protocol version at the same \
                 time|";
    assert_eq!(rig.taken(client), format!("{first}{WRONG}{first}{NO_AUTH}"));
    rig.client_sends(client, "hello 2 auth bob b setname me|client getname|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("*14|$6|server|") && reply.ends_with("|$2|me|"), "{reply}");
}

#[test]
fn refused_logins_are_counted_by_their_command() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let client = rig.client();
    rig.client_sends(client, "auth wrong|AUTH bob x|hello 2 auth bob x|Hello 2|auth secret|");
    let counters = rig.proxy.counters();
    assert_eq!((counters.logins_refused_auth, counters.logins_refused_hello), (2, 1));
}

#[test]
fn the_rules_of_a_user_decide_over_its_requests() {
    let mut rig = Rig::ready_with_users(2, USERS);
    let client = rig.client();
    let (a, b) = (rig.key(0), rig.key(1));
    rig.client_sends(client, &format!("auth bob b|set {a} 1|set x 1|del {a}|config get x|acl whoami|"));
    assert_eq!(rig.node_got(0), format!("*3|$3|set|$2|{a}|$1|1|"));
    rig.node_sends(0, "+OK|");
    let no_command = |name| format!("-NOPERM this user has no permissions to run the '{name}' command|");
    let names = ["del", "config|get", "acl|whoami"].map(no_command).concat();
    assert_eq!(rig.taken(client), format!("+OK|+OK|{NO_KEYS}{names}"));
    // No part is sent if one key is not permitted.
    rig.client_sends(client, &format!("mget {a} x {b}|mset {a} 1 {b} 2 x 3|"));
    assert_eq!(rig.taken(client), NO_KEYS.repeat(2));
    assert_eq!((rig.node_got(0).as_str(), rig.node_got(1).as_str()), ("", ""));
    rig.client_sends(client, &format!("mget {a} {b}|"));
    assert!(rig.node_got(0).starts_with("*2|$4|mget|"));
    assert!(rig.node_got(1).starts_with("*2|$4|mget|"));
}

#[test]
fn sort_by_keys_that_are_not_known_needs_the_right_to_read_all() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let [bob, reader] = [rig.client(), rig.client()];
    rig.client_sends(bob, "auth bob b|sort k by w_*|sort k get x*|sort k by nosort|");
    let denied = "-ERR BY option of SORT denied due to insufficient ACL permissions.|";
    let denied_get = "-ERR GET option of SORT denied due to insufficient ACL permissions.|";
    assert_eq!(rig.taken(bob), format!("+OK|{denied}{denied_get}"));
    assert_eq!(rig.node_got(0), "*4|$4|sort|$1|k|$2|by|$6|nosort|");
    rig.client_sends(reader, "auth reader r|sort_ro k by w_*|");
    assert_eq!(rig.node_got(0), "*4|$7|sort_ro|$1|k|$2|by|$3|w_*|");
}

#[test]
fn requests_before_a_login_must_be_small() {
    for (bytes, reply) in [
        ("*11|", "-ERR Protocol error: unauthenticated multibulk length|"),
        ("*2|$4|AUTH|$16385|", "-ERR Protocol error: unauthenticated bulk length|"),
        ("*1048577|", "-ERR Protocol error: invalid multibulk length|"),
        ("*1|$-5|", "-ERR Protocol error: invalid bulk length|"),
        ("*1|:1|", "-ERR Protocol error: expected '$', got ':'|"),
    ] {
        let mut rig = Rig::ready_with_users(1, USERS);
        let client = rig.client();
        rig.client_sends(client, bytes);
        assert_eq!(rig.taken(client), reply, "{bytes}");
    }
    // After a login, the same is permitted, also in one write with the password.
    let mut rig = Rig::ready_with_users(1, USERS);
    let client = rig.client();
    let value = "x".repeat(20_000);
    rig.client_sends(client, &format!("auth secret|*3|$3|set|$1|k|$20000|{value}|"));
    assert_eq!(rig.taken(client), "+OK|");
    assert_eq!(rig.node_got(0), format!("*3|$3|set|$1|k|$20000|{value}|"));
}

#[test]
fn large_requests_are_denied_as_small_ones() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let client = rig.client();
    let value = "x".repeat(200_000);
    rig.client_sends(client, "auth bob b|*3|$3|set|$1|x|$200000|");
    let (start, end) = value.split_at(100_000);
    rig.client_sends(client, start);
    assert!(rig.last_pinned().is_none(), "nothing is passed on that may have to be denied");
    rig.client_sends(client, &format!("{end}|"));
    assert_eq!(rig.taken(client), format!("+OK|{NO_KEYS}"));
    assert_eq!(rig.node_got(0), "");
    rig.client_sends(client, "*3|$3|set|$1|k|$200000|");
    rig.client_sends(client, start);
    let node = rig.bring_up_pinned(0);
    assert!(
        rig.taken(node).starts_with("*3|$3|set|$1|k|$200000|xxx"),
        "what is allowed is passed on as it comes"
    );
}

#[test]
fn a_default_user_that_is_off_requires_a_login() {
    let mut rig = Rig::ready_with_users(1, "user default off nopass ~* +@all\nuser bob on nopass ~* +get");
    let client = rig.client();
    rig.client_sends(client, "get k|auth x|auth default x|auth bob anything|get k|");
    let no_password = "-ERR AUTH <password> called without any password configured for the default user. Are you sure \
                       your configuration is correct?|";
    assert_eq!(rig.taken(client), format!("{NO_AUTH}{no_password}{WRONG}+OK|"));
    assert_eq!(rig.node_got(0), "*2|$3|get|$1|k|");
}

#[test]
fn acl_lists_users_and_their_rules() {
    let mut rig = Rig::ready_with_users(1, "user default on nopass ~* &* +@all\nuser bob off ~a +get");
    let client = rig.client();
    rig.client_sends(client, "acl users|acl list|acl whoami|");
    let list = "*2|$48|user bob off ~a resetchannels -@all +get|";
    let list = list.replace("$48", "$40");
    assert_eq!(
        rig.taken(client),
        format!("*2|$3|bob|$7|default|{list}$36|user default on nopass ~* &* +@all|$7|default|")
            .replace("$36", "$34")
    );
    rig.client_sends(client, "acl getuser bob|acl getuser eve|");
    assert_eq!(
        rig.taken(client),
        "*12|$5|flags|*1|$3|off|$9|passwords|*0|$8|commands|$10|-@all +get|$4|keys|$2|~a|$8|channels|$0||$9|selectors|*0|\
         $-1|"
    );
    rig.client_sends(
        client,
        "acl dryrun bob get a|acl dryrun bob get b|acl dryrun bob set a 1|acl dryrun bob get|",
    );
    assert_eq!(
        rig.taken(client),
        "+OK|$50|This user has no permissions to access the 'b' key|$53|This user has no permissions to run the 'set' \
         command|-ERR wrong number of arguments for 'get' command|"
    );
    rig.client_sends(client, "acl dryrun eve get a|acl dryrun bob nosuch|acl dryrun bob config nosuch|");
    assert_eq!(
        rig.taken(client),
        "-ERR User 'eve' not found|-ERR Command 'nosuch' not found|-ERR Command 'config' not found|"
    );
}

#[test]
fn in_resp3_users_are_maps() {
    let mut rig =
        Rig::ready_with_users(1, "user default on nopass ~* &* +@all\nuser bob off ~a +get (+set ~b)");
    let client = rig.client();
    rig.client_sends(client, "hello 3|");
    rig.taken(client);
    rig.client_sends(client, "acl getuser bob|acl getuser eve|auth bob x|acl log|");
    let reply = rig.taken(client);
    let user = "%6|$5|flags|~1|$3|off|$9|passwords|*0|$8|commands|$10|-@all +get|$4|keys|$2|~a|$8|channels|$0||\
                $9|selectors|*1|%3|$8|commands|$10|-@all +set|$4|keys|$2|~b|$8|channels|$0||_|";
    assert!(reply.starts_with(&format!("{user}{WRONG}*1|%7|$5|count|:1|")), "{reply}");
    assert!(reply.contains("|$11|age-seconds|,0|$11|client-info|"), "{reply}");
}

#[test]
fn denied_requests_are_in_the_acl_log() {
    let (mut rigs, _) = Rig::workers_with_users(2, USERS);
    let clients = [0, 1].map(|worker| rigs[worker].client());
    for (rig, client) in rigs.iter_mut().zip(clients) {
        rig.client_sends(client, "auth bob b|auth eve x|del k|get x|get x|auth secret|");
    }
    let client = clients[1];
    rigs[1].taken(client);
    rigs[1].client_sends(client, "acl log 1|");
    let reply = rigs[1].taken(client);
    let entry = "*1|*14|$5|count|:4|$6|reason|$3|key|$7|context|$8|toplevel|$6|object|$1|x|$8|username|$3|bob|\
                 $11|age-seconds|$1|0|$11|client-info|";
    assert!(reply.starts_with(entry), "both workers count together: {reply}");
    assert!(reply.contains(" cmd=get user=bob "), "{reply}");
    rigs[1].client_sends(client, "acl log|");
    let reply = rigs[1].taken(client);
    let objects = ["$6|object|$1|x|", "$6|object|$3|del|", "$6|object|$4|auth|$8|username|$3|eve|"];
    assert!(reply.starts_with("*3|") && objects.iter().all(|object| reply.contains(object)), "{reply}");
    rigs[1].client_sends(client, "acl log reset|acl log|acl log x|");
    assert_eq!(rigs[1].taken(client), "+OK|*0|-ERR value is not an integer or out of range|");
}

#[test]
fn answered_setuser_holds_on_all_workers() {
    let (mut rigs, _) = Rig::workers_with_users(2, "user bob on nopass ~k +get");
    let [admin, bob] = [rigs[0].client(), rigs[1].client()];
    rigs[1].client_sends(bob, "auth bob x|get x|");
    assert_eq!(rigs[1].taken(bob), format!("+OK|{NO_KEYS}"));
    rigs[0].client_sends(admin, "acl setuser bob ~x|");
    assert_eq!(rigs[0].taken(admin), "", "another worker has not heard of it");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[0].taken(admin), "+OK|");
    rigs[1].client_sends(bob, "get x|");
    assert_eq!(rigs[1].node_got(0), "*2|$3|get|$1|x|");
    rigs[1].node_sends(0, "$-1|");
    rigs[0].client_sends(admin, "acl setuser bob +nosuch|acl deluser default|acl deluser bob eve|");
    deliver_mail(&mut rigs);
    assert_eq!(
        rigs[0].taken(admin),
        "-ERR Error in ACL SETUSER modifier '+nosuch': Unknown command or category name in ACL|\
         -ERR The 'default' user cannot be removed|:1|"
    );
    assert!(rigs[1].is_closed(bob), "as in Redis, the clients of a deleted user are closed");
}

#[test]
fn setuser_affects_the_rest_of_its_pipeline() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "acl setuser bob on >b ~k +get +@slow|auth bob b|acl whoami|get x|");
    assert_eq!(rig.taken(client), format!("+OK|+OK|$3|bob|{NO_KEYS}"));
}

#[test]
fn transaction_begun_under_other_rules_is_aborted() {
    let (mut rigs, registry) = Rig::workers_with_users(1, "user bob on nopass ~k +get +multi +exec +set");
    let rig = &mut rigs[0];
    let bob = rig.client();
    rig.client_sends(bob, "auth bob x|multi|set k 1|get x|exec|");
    let abort = "-EXECABORT Transaction discarded because of previous errors.|";
    assert_eq!(rig.taken(bob), format!("+OK|+OK|+QUEUED|{NO_KEYS}{abort}"));
    rig.client_sends(bob, "acl log|multi|set k 1|");
    let denied = "-NOPERM this user has no permissions to run the 'acl|log' command|";
    assert_eq!(rig.taken(bob), format!("{denied}+OK|+QUEUED|"));
    assert_eq!(registry.denials().newest(2).last().map(|denial| denial.context), Some(Context::Multi));
    let users = registry.set_user(b"bob", &[b"-set"], usize::MAX).expect("valid");
    rig.proxy.handle_users(&users, rig.now);
    rig.client_sends(bob, "exec|");
    assert_eq!(rig.taken(bob), abort);
    assert_eq!(rig.node_got(0), "");
    // A change of another user does not matter to bob.
    rig.client_sends(bob, "multi|get k|");
    let users = registry.set_user(b"eve", &[b"on"], usize::MAX).expect("valid");
    rig.proxy.handle_users(&users, rig.now);
    rig.client_sends(bob, "exec|");
    assert_eq!(rig.taken(bob), "+OK|+QUEUED|");
    assert_eq!(rig.node_got(0), "*1|$5|MULTI|*2|$3|get|$1|k|*1|$4|EXEC|");
}

#[test]
fn losing_a_channel_permission_closes_a_subscriber() {
    let rules = "user default on nopass ~* &* +@all\nuser bob on nopass &news* +@pubsub +client";
    let (mut rigs, registry) = Rig::workers_with_users(1, rules);
    let rig = &mut rigs[0];
    let [channel, pattern, free] = [rig.client(), rig.client(), rig.client()];
    let no_channels = "-NOPERM this user has no permissions to access one of the channels used as arguments|";
    rig.client_sends(channel, "auth bob x|subscribe other|publish other x|psubscribe news1|");
    assert_eq!(rig.taken(channel), format!("+OK|{}", no_channels.repeat(3)));
    for (client, line) in
        [(channel, "subscribe news1|"), (pattern, "psubscribe news*|"), (free, "subscribe other|")]
    {
        if client != free {
            rig.client_sends(client, "auth bob x|");
        }
        rig.client_sends(client, line);
    }
    // The user keeps the permission for the first channel, and loses that for all.
    let users = registry.set_user(b"bob", &[b"resetchannels", b"&news1"], usize::MAX).expect("valid");
    rig.proxy.handle_users(&users, rig.now);
    rig.perform();
    let closed = [channel, pattern, free].map(|client| rig.is_closed(client));
    assert_eq!(closed, [false, true, false]);
    let users = registry.set_user(b"bob", &[b"resetchannels"], usize::MAX).expect("valid");
    rig.proxy.handle_users(&users, rig.now);
    rig.perform();
    assert!(rig.is_closed(channel) && !rig.is_closed(free));
}

#[test]
fn config_set_requirepass_affects_clients_not_nodes() {
    let mut rig = Rig::ready_for_admin(1);
    let [admin, later] = [rig.client(), rig.client()];
    rig.client_sends(admin, "config set requirepass secret|config set requirepass x port 1|ping|");
    let refusal =
        "-ERR CONFIG SET requirepass is not allowed through shardis: it would cut the nodes off from it|";
    assert_eq!(rig.taken(admin), format!("+OK|{refusal}+PONG|"));
    rig.client_sends(later, "reset|ping|auth secret|config set requirepass \"\"|reset|ping|");
    assert_eq!(rig.taken(later), format!("+RESET|{NO_AUTH}+OK|+OK|+RESET|+PONG|"));
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn monitors_do_not_see_denied_requests() {
    let mut rig = Rig::ready_with_users(1, USERS);
    let [monitor, bob] = [rig.client(), rig.client()];
    rig.client_sends(monitor, "auth secret|monitor|");
    assert_eq!(rig.taken(monitor), "+OK|+OK|");
    rig.client_sends(bob, "get a|auth bob b|del k|get x|get k1|");
    let seen = rig.taken(monitor);
    let lines: Vec<&str> = seen.split('|').filter_map(|line| Some(line.split_once("] ")?.1)).collect();
    assert_eq!(lines, [r#""auth" "(redacted)" "(redacted)""#, r#""get" "k1""#], "{seen}");
}

#[test]
fn a_user_that_deletes_itself_gets_its_reply() {
    let (mut rigs, _) = Rig::workers_with_users(1, "user bob on nopass +acl");
    let bob = rigs[0].client();
    rigs[0].client_sends(bob, "auth bob x|acl deluser bob|acl whoami|");
    assert_eq!(rigs[0].taken(bob), "+OK|:1|");
    assert!(rigs[0].is_closed(bob));
}

#[test]
fn reloaded_users_close_no_clients() {
    let (mut rigs, registry) = Rig::workers_with_users(1, USERS);
    let rig = &mut rigs[0];
    let [bob, reader, stranger] = [rig.client(), rig.client(), rig.client()];
    rig.client_sends(bob, "auth bob b|get k|");
    rig.client_sends(reader, "auth reader r|");
    rig.taken(reader);
    let users = users::Users::parse(
        "users.acl",
        b"user default on nopass ~* +@all\nuser bob on >other -@all +get ~z",
    );
    let users = registry.replace(users.expect("valid"));
    rig.proxy.handle_users(&users, rig.now);
    rig.perform();
    assert!(rig.is_closed(reader) && !rig.is_closed(bob));
    // Requests that ran before are still answered. Later ones follow the new rules.
    rig.node_sends(0, "$1|1|");
    rig.client_sends(bob, "get k|set z 1|");
    let denied = "-NOPERM this user has no permissions to run the 'set' command|";
    assert_eq!(rig.taken(bob), format!("+OK|$1|1|{NO_KEYS}{denied}"));
    rig.client_sends(stranger, "ping|");
    assert_eq!(rig.taken(stranger), "+PONG|", "no password is needed any more");
}

#[test]
fn acl_load_is_answered_when_all_workers_know() {
    let (mut rigs, registry) = Rig::workers_with_users(2, USERS);
    let client = rigs[0].client();
    rigs[0].client_sends(client, "auth secret|acl load|acl load|");
    let (first, second) =
        (rigs[0].proxy.poll_job().expect("a wish"), rigs[0].proxy.poll_job().expect("another"));
    let users = registry.replace(users::Users::default());
    let now = rigs[0].now;
    rigs[0].proxy.handle_loaded(first, Ok(users), now);
    rigs[0].proxy.handle_loaded(second, Err("ERR users.acl:3: Syntax error".to_owned()), now);
    rigs[0].perform();
    assert_eq!(rigs[0].taken(client), "+OK|", "one worker does not know yet");
    deliver_mail(&mut rigs);
    assert_eq!(rigs[0].taken(client), "+OK|-ERR users.acl:3: Syntax error|");
    let stranger = rigs[1].client();
    rigs[1].client_sends(stranger, "acl list|");
    assert_eq!(rigs[1].taken(stranger), "*1|$34|user default on nopass ~* &* +@all|");
}

#[test]
fn acl_save_is_answered_with_its_outcome() {
    let (mut rigs, _) = Rig::workers_with_users(1, USERS);
    let rig = &mut rigs[0];
    let client = rig.client();
    rig.client_sends(client, "auth secret|acl save|acl save|acl save|ping|");
    let jobs: Vec<_> = std::iter::from_fn(|| rig.proxy.poll_job()).collect();
    assert!(jobs.iter().all(|job| job.task == Task::SaveUsers));
    for (job, is_saved) in jobs.into_iter().zip([true, false]) {
        rig.proxy.handle_saved(job, is_saved, rig.now);
    }
    rig.perform();
    let failed =
        "-ERR There was an error trying to save the ACLs. Please check the server logs for more information|";
    assert_eq!(rig.taken(client), format!("+OK|+OK|{failed}"));
    rig.pass(std::time::Duration::from_secs(1));
    assert_eq!(rig.taken(client), "-ERR the ACL file was not written in time, outcome unknown|+PONG|");
}

#[test]
fn without_an_acl_file_there_is_nothing_to_load() {
    let mut rig = Rig::ready(1);
    let client = rig.client();
    rig.client_sends(client, "acl load|acl whoami|auth x|auth default x|auth bob x|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("-ERR This Redis instance is not configured to use an ACL file."), "{reply}");
    let rest = format!(
        "|$7|default|-ERR AUTH <password> called without any password configured for the default user. Are you sure your \
         configuration is correct?|+OK|{WRONG}"
    );
    assert!(reply.ends_with(&rest), "{reply}");
    rig.client_sends(client, "acl save|");
    assert!(rig.taken(client).starts_with("-ERR This Redis instance is not configured to use an ACL file."));
}

#[test]
fn client_list_and_kill_know_users() {
    let (mut rigs, _) = Rig::workers_with_users(1, USERS);
    let rig = &mut rigs[0];
    let [admin, bob] = [rig.client(), rig.client()];
    rig.client_sends(bob, "auth bob b|client info|");
    assert!(rig.taken(bob).contains(" user=bob "));
    rig.client_sends(admin, "auth secret|client kill user eve|client kill user bob|");
    assert_eq!(rig.taken(admin), "+OK|-ERR No such user 'eve'|:1|");
    assert!(rig.is_closed(bob) && !rig.is_closed(admin));
}

#[test]
fn links_begin_with_the_credentials_of_the_proxy() {
    for (user, greeting) in [
        (None, "*2|$4|AUTH|$6|secret|*1|$4|PING|"),
        (Some(&b"proxy"[..]), "*3|$4|AUTH|$5|proxy|$6|secret|*1|$4|PING|"),
    ] {
        let mut rig = Rig::connecting_as(Credentials::new(user, b"secret"));
        let conn = rig.node(0);
        rig.event(Event::Connected { conn });
        assert_eq!(rig.taken(conn), greeting);
        rig.node_sends(0, "+OK|+PONG|");
        let client = rig.client();
        rig.client_sends(client, "get k|");
        assert_eq!(rig.node_got(0), "*2|$3|get|$1|k|");
    }
}

#[test]
fn other_credentials_hold_for_later_connections() {
    let mut rig = Rig::connecting_as(Credentials::new(None, b"first"));
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), "*2|$4|AUTH|$5|first|*1|$4|PING|");
    let settings = &rig.proxy.core.cx.settings;
    let reloaded = Reloaded {
        limits: rig.proxy.core.cx.limits.clone(),
        allow_admin: settings.allow_admin,
        cross_shard: settings.cross_shard,
        slowlog: settings.slowlog,
        credentials: Credentials::new(None, b"other"),
        access: settings.access.clone(),
    };
    let now = rig.now;
    adopt_settings(&mut rig.proxy, &reloaded, now);
    // The handshake that has begun goes on.
    rig.node_sends(0, "+OK|+PONG|");
    assert!(rig.is_up(0));
    assert_eq!(rig.taken(conn), "");
    rig.event(Event::Closed { conn, reason: "reset" });
    while !rig.is_connecting(0) {
        rig.pass(std::time::Duration::from_secs(1));
    }
    let conn = rig.node(0);
    rig.event(Event::Connected { conn });
    assert_eq!(rig.taken(conn), "*2|$4|AUTH|$5|other|*1|$4|PING|");
}

#[test]
fn node_rejecting_our_password_is_down_and_logged_once() {
    let credentials = Credentials::new(None, b"secret");
    assert!(!format!("{credentials:?}").contains("secret"));
    let mut rig = Rig::connecting_as(credentials);
    let refusal =
        "-WRONGPASS invalid username-password pair or user is disabled.|-NOAUTH Authentication required.|";
    for _ in 0..3 {
        let conn = rig.node(0);
        rig.event(Event::Connected { conn });
        rig.node_sends(0, refusal);
        rig.pass(std::time::Duration::from_secs(1));
    }
    let reason = "WRONGPASS invalid username-password pair or user is disabled.".to_owned();
    let notices = rig.notices();
    let [Notice::NodeDown { reason: told, .. }] = &*notices else { panic!("one notice: {notices:?}") };
    assert!(told.contains(&reason), "{told}");
    let client = rig.client();
    rig.client_sends(client, "get k|");
    let reply = rig.taken(client);
    assert!(reply.starts_with("-TRYAGAIN shard ") && reply.contains(&reason), "{reply}");
}
