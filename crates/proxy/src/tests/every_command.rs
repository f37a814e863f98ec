//! Every command and subcommand of the table, in each state of a client: its reply, and the absence of forbidden
//! requests to a node. For transactions see `inlays.rs`. `|` stands for CR LF.

use crate::link::profile::Profile;
use crate::testing::Rig;
use crate::{ConnId, Event};
use command::{Carry, Command, Flags, Local};

/// All lines that resolve to a command, each with as few arguments as it takes.
pub(super) fn lines() -> impl Iterator<Item = (&'static Command, String)> {
    let all = command::all().flat_map(|command| std::iter::once(command).chain(command.subcommands.iter()));
    all.filter(|command| command.carry != Carry::Container).map(|command| {
        let mut words: Vec<&str> = command.name.split('|').collect();
        words.resize(command.arity.unsigned_abs() as usize, "1");
        (command, words.join(" "))
    })
}

/// The replies to `line` of a new client after `prepare`. Then the client leaves.
fn told(rig: &mut Rig, line: &str, prepare: impl Fn(&mut Rig, ConnId)) -> String {
    let client = rig.client();
    prepare(rig, client);
    rig.taken(client);
    rig.client_sends(client, &format!("{line}|"));
    let reply = rig.taken(client);
    rig.event(Event::Closed { conn: client, reason: "done" });
    reply
}

#[test]
fn every_command_without_password_is_noauth() {
    let mut rig = Rig::ready_with_users(1, "user default on >secret ~* &* +@all");
    let mut refused = 0;
    for (command, line) in lines() {
        let reply = told(&mut rig, &line, |_, _| {});
        if command.flags.contains(Flags::NO_AUTH) {
            assert!(["auth", "hello", "quit", "reset"].contains(&&*command.name), "{line}");
        } else if command.is_hidden() {
            assert!(
                reply.starts_with("-ERR unknown command") || reply.starts_with("-NOAUTH "),
                "{line}: {reply}"
            );
        } else {
            assert_eq!(reply, "-NOAUTH Authentication required.|", "{line}");
            refused += 1;
        }
    }
    assert!(refused > 330, "{refused}");
    assert_eq!((rig.node_got(0).as_str(), rig.last_pinned()), ("", None));
}

#[test]
fn subscribed_resp2_clients_may_do_little_else() {
    let mut rig = Rig::ready(1);
    // The first client stays, so that the node need not be asked again.
    let first = rig.client();
    rig.client_sends(first, "subscribe c|");
    let source = rig.pinned_now();
    assert_eq!(rig.taken(source), "*2|$9|subscribe|$1|c|");
    rig.sends(source, "*3|$9|subscribe|$1|c|:1|");
    let mut refused = 0;
    for (command, line) in lines() {
        let may = matches!(
            command.carry,
            Carry::Here(
                Local::Subscribe(_) | Local::Unsubscribe(_) | Local::Ping | Local::Quit | Local::Reset
            )
        );
        let reply = told(&mut rig, &line, |rig, client| {
            rig.client_sends(client, "subscribe c|");
            assert_eq!(rig.taken(client), "*3|$9|subscribe|$1|c|:1|");
        });
        let full_name = command.name.split('|').next().unwrap_or_default();
        let context =
            "only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context";
        let refusal = format!("-ERR Can't execute '{full_name}': {context}|");
        if command.is_hidden() {
            assert!(reply.starts_with("-ERR "), "{line}: {reply}");
        } else if !may {
            assert!(
                reply == refusal || reply == refusal.replace(full_name, &command.name),
                "{line}: {reply}"
            );
            refused += 1;
        } else {
            assert_ne!(reply, refusal, "{line}");
        }
    }
    assert!(refused > 330, "{refused}");
    assert_eq!(rig.node_got(0), "");
}

#[test]
fn own_profile_never_uses_links_of_others() {
    // Commands about the nodes themselves and not about a database: INFO, and numbers of receivers.
    let is_of_no_profile = |command: &Command| {
        matches!(command.carry, Carry::Here(Local::Info | Local::Select | Local::Reset | Local::Hello))
    };
    for kind in [Profile { database: 3, ..Profile::default() }, Profile { resp3: true, ..Profile::default() }]
    {
        let mut rig = Rig::ready_for_admin(2);
        let mut seen = 0;
        for (command, line) in lines().filter(|(command, _)| !is_of_no_profile(command)) {
            told(&mut rig, &line, |rig, client| rig.change_profile(client, kind));
            let got = [0, 1].map(|shard| rig.node_got(shard));
            assert_eq!(got, ["", ""], "{line} in {kind:?}, {}", command.name);
            seen += 1;
        }
        assert!(seen > 340, "{seen}");
    }
}
