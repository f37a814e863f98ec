//! Settings that change while clients are served.
//!
//! A request that is in flight keeps the deadline that it has. All later requests follow the new settings.

use crate::limits::{Access, CrossShard, Limits, Slowlog};
use crate::link::{State, Use};
use crate::local::gathered::Gathered;
use crate::local::inquiry;
use crate::login;
use crate::login::credentials::Credentials;
use crate::login::job::{ControlJob, ReloadOrder, ReloadOutcome};
use crate::peers::Peer;
use crate::proxy::Proxy;
use crate::slow::SlowWatch;
use crate::transaction;
use stdx::Instant;

/// The settings that may change. The memory limits in `limits` must be those of the start, since buffers were sized by them.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Timeouts, and the limit of clients.
    pub limits: Limits,
    /// See [`crate::Settings::allow_admin`].
    pub allow_admin: bool,
    /// See [`crate::Settings::cross_shard`].
    pub cross_shard: CrossShard,
    /// See [`crate::Settings::slowlog`].
    pub slowlog: Slowlog,
    /// See [`crate::Settings::credentials`]. Connections that are open stay. There are some exactly if there were before.
    pub credentials: Credentials,
    /// See [`Access`]. Clients that are connected stay, and policies hold for them as well.
    pub access: Access,
}

/// Whether a shared link is being made at `now`, on which requests may wait that were never sent. A node that could not be
/// connected to has no such requests.
pub fn is_connecting(proxy: &Proxy, now: Instant) -> bool {
    proxy.core.cx.engine.links.iter().filter(|link| link.used_by == Use::Shared).any(|link| {
        match link.state {
            State::Waiting { until } => until <= now,
            State::Connecting { .. } | State::Probing { .. } => true,
            _ => false,
        }
    })
}

/// Makes `proxy` follow the settings `reloaded` from now on.
pub fn adopt_settings(proxy: &mut Proxy, reloaded: &Reloaded, now: Instant) {
    let core = &mut proxy.core;
    core.begin(now);
    let cx = &mut core.cx;
    cx.engine.limits = reloaded.limits.engine.clone();
    cx.limits = reloaded.limits.clone();
    cx.settings.allow_admin = reloaded.allow_admin;
    cx.settings.cross_shard = reloaded.cross_shard;
    if cx.settings.slowlog != reloaded.slowlog {
        cx.settings.slowlog = reloaded.slowlog;
        cx.engine.keeps_to_show = reloaded.slowlog.is_on();
        cx.slow = SlowWatch::new(reloaded.slowlog);
    }
    if core.cx.settings.credentials != reloaded.credentials {
        core.cx.settings.credentials = reloaded.credentials.clone();
        core.cx.profiles.renew(reloaded.credentials.clone());
    }
    core.cx.engine.check_at = now;
    let before = std::mem::replace(&mut core.cx.settings.access, reloaded.access.clone());
    if before.policies != reloaded.access.policies {
        apply_policies(proxy);
    }
    proxy.follow_up();
}

/// Ends an order of a client about the configuration.
pub fn end_reload(
    proxy: &mut Proxy,
    job: ControlJob,
    order: ReloadOrder,
    outcome: &ReloadOutcome,
    now: Instant,
) {
    proxy.core.begin(now);
    let mut reply = Vec::new();
    outcome.write(order, &mut reply);
    inquiry::replace_gathered(&mut proxy.core.cx, job.inquiry, Gathered::Written(reply));
    proxy.conclude(job.inquiry);
    proxy.follow_up();
}

/// Has the clients' requests to come checked by the present policies. A transaction that was begun is spoiled: its commands
/// were checked by the policies before.
fn apply_policies(proxy: &mut Proxy) {
    let Proxy { core, peers, .. } = proxy;
    for index in 0..peers.places() {
        let Some(conn) = peers.id_at(index) else { continue };
        let Some(Peer::Client(session)) = peers.get_mut(conn) else { continue };
        let login = session.features.login.clone();
        login::set_login(&core.cx, session, login);
        transaction::spoil_transaction(&mut core.cx, session);
    }
}
