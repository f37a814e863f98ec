//! Memory that a client holds is counted as long as it is held. (Each step of all transcripts checks the accounts.)

use crate::EngineLimits;
use crate::Limits;
use crate::testing::Rig;

/// EVAL on one shard, whose node is busy, and behind it a GET on another shard. The client does not want the GET's
/// reply.
fn muted_behind_busy(rig: &mut Rig, mute: &str) -> String {
    let (busy, quick) = (rig.key(0), rig.key(1));
    format!("eval x 1 {busy}|client reply {mute}|get {quick}|")
}

#[test]
fn a_muted_reply_that_comes_early_is_not_held() {
    for mute in ["skip", "off"] {
        let mut rig = Rig::ready_with(
            2,
            Limits {
                engine: EngineLimits { pending_bytes_max: 64 << 10, ..EngineLimits::default() },
                ..Limits::default()
            },
        );
        let client = rig.client();
        let requests = muted_behind_busy(&mut rig, mute);
        let value = "x".repeat(50_000);
        for _ in 0..20 {
            rig.client_sends(client, &requests);
            rig.node_sends(1, &format!("$50000|{value}|"));
            rig.node_sends(0, "+busy|");
        }
        assert!(!rig.is_paused(client), "it has nothing to take, and is read from");
        rig.client_sends(client, "client reply on|ping|");
        assert!(rig.taken(client).ends_with("+OK|+PONG|"), "after {mute}");
        rig.pass(std::time::Duration::from_secs(1));
        assert_eq!(rig.proxy.held_bytes(), 0);
    }
}
