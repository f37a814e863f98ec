//! Settings that change while clients are served.
//!
//! A request that is in flight keeps the deadline that it has. All later requests follow the new settings.

use crate::limits::{CrossShard, Limits, Slowlog};
use crate::link::{State, Use};
use crate::proxy::Proxy;
use crate::slow::SlowWatch;
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
    /// See [`crate::Settings::protected_mode`]. Clients that are connected stay.
    pub protected_mode: bool,
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
    cx.settings.protected_mode = reloaded.protected_mode;
    if cx.settings.slowlog != reloaded.slowlog {
        cx.settings.slowlog = reloaded.slowlog;
        cx.engine.keeps_to_show = reloaded.slowlog.is_on();
        cx.slow = SlowWatch::new(reloaded.slowlog);
    }
    core.cx.engine.check_at = now;
    proxy.follow_up();
}
