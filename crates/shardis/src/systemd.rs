//! Messages to systemd or another service manager: readiness, reloads, the end, and signs of life (sd_notify).
//!
//! Without `NOTIFY_SOCKET` in the environment nothing is sent. The control thread sends the signs of life, so a control thread that
//! hangs is seen. A worker that hangs is named in the log (`watch.rs`).

use sd_notify::NotifyState;
use std::time::{Duration, Instant};
use tracing::warn;

/// The service manager, as the environment names it.
#[derive(Debug)]
pub(crate) struct Systemd {
    /// The service in one line, as `systemctl status` shows it.
    status: String,
    watchdog: Option<Watchdog>,
    has_failed: bool,
    /// Whether another process is the service now, in an upgrade.
    is_silent: bool,
}

/// Times of the signs of life.
#[derive(Debug)]
struct Watchdog {
    every: Duration,
    next_at: Instant,
}

impl Systemd {
    /// The one that the environment names. `status` describes the service in one line.
    pub(crate) fn of_environment(status: String, now: Instant) -> Systemd {
        let watchdog = sd_notify::watchdog_enabled().map(|time_max| Watchdog::within(time_max, now));
        Systemd { status, watchdog, has_failed: false, is_silent: false }
    }

    /// Says nothing until [`Systemd::speak`]: another process is the service.
    pub(crate) fn be_silent(&mut self) {
        self.is_silent = true;
    }

    /// Speaks for the service from now on.
    pub(crate) fn speak(&mut self) {
        self.is_silent = false;
    }

    /// The process `pid` is the service from now on. The service manager believes this only of the present one.
    pub(crate) fn show_main(&mut self, pid: u32) {
        self.send(&[NotifyState::MainPid(pid)]);
    }

    /// Clients are served, also after a reload.
    pub(crate) fn show_ready(&mut self) {
        let status = std::mem::take(&mut self.status);
        self.send(&[NotifyState::Ready, NotifyState::Status(&status)]);
        self.status = status;
    }

    /// Files are read again until [`Systemd::show_ready`].
    pub(crate) fn show_reloading(&mut self) {
        match NotifyState::monotonic_usec_now() {
            Ok(now) => self.send(&[NotifyState::Reloading, now]),
            Err(_) => self.send(&[NotifyState::Reloading]),
        }
    }

    /// No client is accepted any more.
    pub(crate) fn show_stopping(&mut self) {
        self.send(&[NotifyState::Stopping, NotifyState::Status("draining")]);
    }

    /// Sends a sign of life if one is due.
    pub(crate) fn poll(&mut self, now: Instant) {
        if self.watchdog.as_mut().is_some_and(|watchdog| watchdog.is_due(now)) {
            self.send(&[NotifyState::Watchdog]);
        }
    }

    /// `wait`, or less if a sign of life is due before its end.
    pub(crate) fn within(&self, wait: Duration, now: Instant) -> Duration {
        self.watchdog
            .as_ref()
            .map_or(wait, |watchdog| wait.min(watchdog.next_at.saturating_duration_since(now)))
    }

    /// Tells the log of the first failure only.
    fn send(&mut self, states: &[NotifyState<'_>]) {
        if self.is_silent {
            return;
        }
        if let Err(error) = sd_notify::notify(states)
            && !std::mem::replace(&mut self.has_failed, true)
        {
            warn!(%error, hint = "see NOTIFY_SOCKET", "service manager unreachable");
        }
    }
}

impl Watchdog {
    /// Half of the time after which the service manager gives up, so that one late sign does no harm.
    fn within(time_max: Duration, now: Instant) -> Watchdog {
        let every = (time_max / 2).max(Duration::from_millis(1));
        Watchdog { every, next_at: now + every }
    }

    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.next_at <= now;
        if is_due {
            self.next_at = now + self.every;
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signs_of_life_are_due_at_half_of_the_time() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut watchdog = Watchdog::within(4 * second, start);
        assert!(!watchdog.is_due(start + second));
        assert!(watchdog.is_due(start + 2 * second) && !watchdog.is_due(start + 3 * second));
        assert!(watchdog.is_due(start + 4 * second));
    }

    #[test]
    fn a_wait_ends_when_a_sign_of_life_is_due() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let watchdog = Some(Watchdog::within(4 * second, start));
        let systemd = Systemd { status: String::new(), watchdog, has_failed: false, is_silent: false };
        assert_eq!(systemd.within(3 * second, start), 2 * second);
        assert_eq!(systemd.within(second, start), second);
        assert_eq!(systemd.within(second, start + 5 * second), Duration::ZERO);
        let without = Systemd { watchdog: None, ..systemd };
        assert_eq!(without.within(3 * second, start), 3 * second);
    }
}
