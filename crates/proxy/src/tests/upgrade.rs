//! Clients that another process takes over: which may leave, and with which state.

use crate::testing::{Rig, registry};
use crate::upgrade::{STATE_BYTES_MAX, StateError};
use crate::{
    Arrival, ClientState, ConnId, Event, Limits, NotTaken, Readiness, Settings, give_up_client, readiness,
    take_over_client,
};

const USERS: &str = "user default on nopass ~* &* +@all\nuser ann on >a ~a:* &* +@all";
const ARRIVAL: Arrival<'_> =
    Arrival { peer: "127.0.0.1:50000", named_by: "", local: "127.0.0.1:6379", descriptor: 9, listener: 0 };

fn rig_with_users() -> Rig {
    let settings = Settings { registry: registry(USERS), databases: 16, ..Settings::default() };
    Rig::ready_as(1, Limits::default(), settings)
}

/// Moves a client to another process by the form of its state.
fn hand_over(from: &mut Rig, conn: ConnId, to: &mut Rig) -> ConnId {
    let state = give_up_client(&mut from.proxy, conn).expect("nothing is in flight");
    let bytes = state.encode();
    assert!(bytes.len() <= STATE_BYTES_MAX);
    let state = ClientState::decode(&bytes).expect("it was just written");
    from.perform();
    assert_eq!(from.proxy.counters().clients, 0);
    let arrival = Arrival { peer: &state.peer, local: &state.local, ..ARRIVAL };
    let conn = take_over_client(&mut to.proxy, &state, &arrival, to.now).expect("there is room");
    to.event(Event::Received { conn, bytes: &state.unread });
    conn
}

fn line(rig: &mut Rig, conn: ConnId) -> String {
    rig.client_sends(conn, "client info|");
    rig.taken(conn)
}

#[test]
fn a_client_keeps_its_state_in_another_process() {
    let (mut old, mut new) = (rig_with_users(), rig_with_users());
    new.proxy.core.cx.board.begin_numbers_at(7);
    let first = old.client();
    let conn = old.client();
    old.proxy.close_client(first);
    old.client_sends(conn, "hello 3 auth ann a setname web|select 3|readonly|client no-evict on|");
    assert!(old.taken(conn).ends_with("+OK|+OK|+OK|"));
    let before = line(&mut old, conn);
    assert!(before.contains("id=2 ") && before.contains("name=web ") && before.contains("db=3 "), "{before}");
    assert!(before.contains("user=ann ") && before.contains("resp=3"), "{before}");
    let conn = hand_over(&mut old, conn, &mut new);
    assert_eq!(line(&mut new, conn), before);
    new.client_sends(conn, "get b:1|");
    assert!(new.taken(conn).starts_with("-NOPERM"), "the rights are those of the user");
    let other = new.client();
    assert!(line(&mut new, other).contains("id=9 "), "numbers go on behind those of the old process");
}

#[test]
fn half_a_request_goes_with_its_client() {
    let (mut old, mut new) = (Rig::ready(1), Rig::ready(1));
    let conn = old.client();
    old.client_sends(conn, "ping|*3|$3|set|$1|k|$5|va");
    assert_eq!(old.taken(conn), "+PONG|");
    let conn = hand_over(&mut old, conn, &mut new);
    assert_eq!((old.node_got(0), new.node_got(0)), (String::new(), String::new()));
    new.client_sends(conn, "lue|ping|");
    assert_eq!(new.node_got(0), "*3|$3|set|$1|k|$5|value|");
    new.node_sends(0, "+OK|");
    assert_eq!(new.taken(conn), "+OK|+PONG|");
}

#[test]
fn a_client_without_replies_stays_without_them() {
    let (mut old, mut new) = (Rig::ready(1), Rig::ready(1));
    let conn = old.client();
    old.client_sends(conn, "client reply off|ping|");
    let conn = hand_over(&mut old, conn, &mut new);
    new.client_sends(conn, "ping|client reply on|client reply skip|");
    assert_eq!(new.taken(conn), "+OK|");
    let conn = hand_over(&mut new, conn, &mut old);
    old.client_sends(conn, "echo a|echo b|");
    assert_eq!(old.taken(conn), "$1|b|");
}

#[test]
fn a_client_may_leave_once_its_replies_were_taken() {
    let mut rig = Rig::ready(1);
    let conn = rig.client();
    rig.client_sends(conn, "get k|");
    assert_eq!(readiness(&rig.proxy, conn), Readiness::Busy);
    assert_eq!(give_up_client(&mut rig.proxy, conn), None);
    rig.stick(conn);
    rig.node_sends(0, "$-1|");
    assert_eq!(readiness(&rig.proxy, conn), Readiness::Busy, "the reply was not taken");
    rig.unstick(conn);
    assert_eq!((rig.taken(conn).as_str(), readiness(&rig.proxy, conn)), ("$-1|", Readiness::Ready));
}

#[test]
fn clients_with_state_that_cannot_leave_stay() {
    let stays = [
        "subscribe c|",
        "psubscribe c*|",
        "ssubscribe c|",
        "multi|",
        "watch k|",
        "monitor|",
        "blpop k 0|",
        "client pause 1000|",
    ];
    for text in stays {
        let mut rig = Rig::ready_for_admin(1);
        let conn = rig.client();
        rig.client_sends(conn, text);
        assert_eq!(readiness(&rig.proxy, conn), Readiness::Stays, "{text}");
        assert_eq!(give_up_client(&mut rig.proxy, conn), None, "{text}");
    }
    let mut rig = Rig::ready(1);
    let conn = rig.client();
    rig.client_sends(conn, "multi|discard|");
    assert_eq!(readiness(&rig.proxy, conn), Readiness::Ready, "the transaction is over");
    rig.client_sends(conn, &format!("*2|$4|echo|$90000|{}", "x".repeat(80_000)));
    assert_eq!(readiness(&rig.proxy, conn), Readiness::Stays, "too much of a request is there");
    assert_eq!(readiness(&rig.proxy, ConnId { index: 99, generation: 0 }), Readiness::Stays);
}

#[test]
fn a_client_without_a_place_there_is_not_taken_over() {
    let state = |user: &str, database: &str| {
        let mut bytes = Vec::new();
        let args = ["CLIENT", "1", "user", user, "db", database].map(str::as_bytes);
        resp::encode::request(&mut bytes, &args);
        ClientState::decode(&bytes).expect("valid")
    };
    let mut rig = rig_with_users();
    let now = rig.now;
    let mut taken = |state: &ClientState| take_over_client(&mut rig.proxy, state, &ARRIVAL, now).map(|_| ());
    assert_eq!(taken(&state("bob", "0")), Err(NotTaken::NoUser));
    assert_eq!(taken(&state("ann", "16")), Err(NotTaken::NoDatabase));
    assert_eq!(taken(&state("ann", "15")), Ok(()));
    let mut full = Rig::ready_with(1, Limits { clients_max: 1, ..Limits::default() });
    full.client();
    let refused = take_over_client(&mut full.proxy, &state("default", "0"), &ARRIVAL, full.now);
    assert_eq!(refused, Err(NotTaken::NotAdmitted));
}

#[test]
fn a_state_that_is_not_understood_is_refused() {
    let decoded = |args: &[&str]| {
        let mut bytes = Vec::new();
        let args: Vec<&[u8]> = args.iter().map(|arg| arg.as_bytes()).collect();
        resp::encode::request(&mut bytes, &args);
        ClientState::decode(&bytes)
    };
    assert_eq!(decoded(&["CLIENT", "1"]), Ok(ClientState::default()));
    for version in ["0", "2", "-1", "one"] {
        assert_eq!(decoded(&["CLIENT", version]), Err(StateError::Version(version.to_owned())));
    }
    let unknown = |key: &str| Err(StateError::Unknown(key.to_owned()));
    for (key, value) in
        [("colour", "red"), ("db", "x"), ("id", "-1"), ("reply", "no"), ("resp3", "yes"), ("name", "a b")]
    {
        assert_eq!(decoded(&["CLIENT", "1", key, value]), unknown(key));
    }
    assert_eq!(decoded(&["CLIENT", "1", "id"]), Err(StateError::Malformed));
    let mut whole = ClientState::default();
    whole.unread = vec![b'\r'; 100];
    let whole = whole.encode();
    for end in 0..whole.len() {
        assert_eq!(ClientState::decode(&whole[..end]), Err(StateError::Malformed), "{end}");
    }
    let longer = [&whole[..], b"x"].concat();
    assert_eq!(ClientState::decode(&longer), Err(StateError::Malformed));
}

#[test]
fn altered_states_are_read_or_refused() {
    let mut whole = ClientState::default();
    (whole.client, whole.unread) = (77, b"*1\r\n$4\r\nPI".to_vec());
    "127.0.0.1:5".clone_into(&mut whole.peer);
    "[::1]:6".clone_into(&mut whole.local);
    let whole = whole.encode();
    for at in 0..whole.len() {
        for byte in 0..=u8::MAX {
            let mut altered = whole.clone();
            altered[at] = byte;
            if let Ok(state) = ClientState::decode(&altered) {
                assert_eq!(ClientState::decode(&state.encode()), Ok(state), "{at} {byte}");
            }
        }
    }
}
