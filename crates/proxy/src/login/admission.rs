//! The admission of clients: at most `maxclients`, and in protected mode none from another machine.

use crate::Authority;
use crate::context::Context;
use crate::errors;
use crate::event::Arrival;
use std::net::SocketAddr;

/// Why an arriving client is refused, in words for it. If `None`, the client has taken its seat.
pub(crate) fn refusal_of(cx: &mut Context, arrival: &Arrival<'_>, is_draining: bool) -> Option<&'static str> {
    // Any program that can connect can name any address in a PROXY header.
    let is_far = [arrival.peer, arrival.named_by].into_iter().any(is_of_another_machine);
    if is_far && is_protected(cx) {
        cx.stats.counters.clients_refused += 1;
        cx.stats.counters.clients_denied += 1;
        return Some(errors::PROTECTED);
    }
    if is_draining || !cx.board.take_seat(cx.limits.clients_max) {
        cx.stats.counters.clients_refused += 1;
        return Some(errors::CLIENTS_MAX);
    }
    None
}

/// Protected mode holds while the default user has no password. If the nodes decide about users (`--auth=nodes`), they
/// have a protected mode of their own.
fn is_protected(cx: &Context) -> bool {
    let settings = &cx.settings;
    settings.access.protected_mode
        && settings.authority == Authority::Proxy
        && cx.logins.users.default_user().is_open()
}

/// Whether `peer`, an address with a port, is of another machine. Unix sockets are not.
fn is_of_another_machine(peer: &str) -> bool {
    peer.parse::<SocketAddr>().is_ok_and(|addr| !addr.ip().to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Rig, registry};
    use crate::{Access, Board, Limits, Settings};
    use std::sync::Arc;

    /// The error for a client from `peer`; `""` if it is admitted.
    fn told(rig: &mut Rig, peer: &str) -> String {
        let refusal = rig.proxy.accept(&Arrival::of(peer), rig.now).err().unwrap_or_default();
        String::from_utf8_lossy(&refusal).into_owned()
    }

    #[test]
    fn workers_together_have_no_more_clients_than_may_be() {
        let board = Arc::new(Board::new(2));
        let limits = || Limits { clients_max: 5, ..Limits::default() };
        let settings = |worker| Settings { worker, workers: 2, ..Settings::default() };
        let rig = |worker| Rig::over("127.0.0.1:7000", limits(), settings(worker), &board);
        let [mut one, mut other] = [rig(0), rig(1)];
        let conn = one.proxy.accept(&Arrival::of("127.0.0.1:1"), one.now).expect("the first");
        (2..=3).for_each(|port| assert_eq!(told(&mut one, &format!("127.0.0.1:{port}")), ""));
        (4..=5).for_each(|port| assert_eq!(told(&mut other, &format!("127.0.0.1:{port}")), ""));
        for rig in [&mut one, &mut other] {
            assert_eq!(told(rig, "127.0.0.1:6"), "-ERR max number of clients reached\r\n");
            assert_eq!(rig.proxy.clients_left(), 0);
        }
        one.proxy.close_client(conn);
        assert_eq!(other.proxy.clients_left(), 1);
        let late = other.proxy.accept(&Arrival::of("127.0.0.1:6"), other.now).expect("the last");
        assert_eq!(told(&mut one, "127.0.0.1:7"), "-ERR max number of clients reached\r\n");
        one.proxy.close_client(late);
        other.proxy.handle_pending_clients(1);
        assert_eq!(one.proxy.clients_left(), 0, "who shakes hands elsewhere may become one");
        assert_eq!(told(&mut one, "127.0.0.1:7"), "", "but is none yet");
        assert_eq!(one.proxy.counters().clients_refused + other.proxy.counters().clients_refused, 3);
    }

    #[test]
    fn protected_mode_denies_others_until_there_is_a_password() {
        let rig = |protected_mode, users| {
            let settings = Settings {
                access: Access { protected_mode, ..Access::default() },
                registry: registry(users),
                ..Settings::default()
            };
            Rig::ready_as(1, Limits::default(), settings)
        };
        let (open, closed) = ("user default on nopass ~* &* +@all", "user default on >x ~* &* +@all");
        let mut protected = rig(true, open);
        assert!(
            told(&mut protected, "10.0.0.1:5").starts_with("-DENIED Redis is running in protected mode ")
        );
        assert_eq!(told(&mut protected, "127.0.0.1:5"), "");
        let counters = *protected.proxy.counters();
        assert_eq!((counters.clients_refused, counters.clients_denied, counters.clients), (1, 1, 1));
        for mut rig in [rig(true, closed), rig(true, "user default off"), rig(false, open)] {
            assert_eq!(told(&mut rig, "10.0.0.1:5"), "");
        }
    }

    #[test]
    fn protected_mode_ignores_claimed_local_addresses() {
        let mut rig = Rig::ready_as(
            1,
            Limits::default(),
            Settings { access: Access { protected_mode: true, ..Access::default() }, ..Settings::default() },
        );
        let mut is_denied = |peer, named_by| {
            let arrival = Arrival { named_by, ..Arrival::of(peer) };
            rig.proxy.accept(&arrival, rig.now).is_err_and(|told| told.starts_with(b"-DENIED "))
        };
        assert!(is_denied("127.0.0.1:5", "10.0.0.1:6"));
        assert!(is_denied("10.0.0.1:6", "127.0.0.1:5"));
        assert!(!is_denied("127.0.0.1:5", "[::1]:6"));
    }

    #[test]
    fn loopback_and_unix_sockets_are_of_this_machine() {
        for peer in ["127.0.0.1:5", "127.8.0.1:5", "[::1]:5", "[::ffff:127.0.0.1]:5", "/run/a.sock:0", ""] {
            assert!(!is_of_another_machine(peer), "{peer}");
        }
        for peer in ["10.0.0.1:5", "0.0.0.0:5", "[fe80::1]:5", "[::ffff:10.0.0.1]:5"] {
            assert!(is_of_another_machine(peer), "{peer}");
        }
    }
}
