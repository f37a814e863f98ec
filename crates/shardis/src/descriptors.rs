//! The client limit that the limit of file descriptors allows.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// Descriptors of no client: listeners, epoll, log, files.
const RESERVED_DESCRIPTORS: u64 = 64;
/// Files that are read again on SIGHUP, names that are looked up, connections to sentinels.
const FILES: u64 = 8;
/// Links of single clients take at most this part of all descriptors.
const OWN_PART: u64 = 8;

/// The descriptors that one service wants.
#[derive(Clone, Debug)]
pub(crate) struct ClientsMax {
    /// Where they come, for the log.
    pub at: String,
    /// As the operator wants it.
    pub wanted: usize,
    /// Descriptors for each client.
    pub sockets_each: u64,
    /// Connections to nodes that clients share.
    pub nodes: usize,
    /// Further descriptors of single clients, as far as most of all stay for clients.
    pub own: usize,
}

/// The descriptors of one service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    /// Clients.
    pub clients_max: usize,
    /// Descriptors from this number on are kept for links that clients share. The kernel gives the lowest free number, so that
    /// a number says how many are in use.
    pub kept_from: u64,
}

/// Raises the limit of descriptors as far as possible and returns the clients of each service that fit under it.
pub(crate) fn granted(services: &[ClientsMax]) -> Vec<Granted> {
    let (fit, limit) = fit(services);
    let maximum = getrlimit(Resource::Nofile).maximum;
    let kept_from = limit.map_or(u64::MAX, |limit| limit.saturating_sub(kept(services, maximum)));
    fit.into_iter().map(|clients_max| Granted { clients_max, kept_from }).collect()
}

/// Descriptors of this process that are open; `None` if unknown. Since Linux 6.2 the kernel says their number; an older one
/// lists them, which takes a millisecond for some thousands.
pub(crate) fn open() -> Option<u64> {
    const OPEN: &str = "/proc/self/fd";
    match std::fs::metadata(OPEN).ok()?.len() {
        0 => Some(std::fs::read_dir(OPEN).ok()?.count() as u64),
        count => Some(count),
    }
}

/// The limit of descriptors of this process; `None` if it has none.
pub(crate) fn max() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// The number of clients of each service that fit under the limit, and the limit if there is one.
fn fit(services: &[ClientsMax]) -> (Vec<usize>, Option<u64>) {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let reserved = reserved(services, maximum);
    let needed = reserved + services.iter().map(ClientsMax::sockets).sum::<u64>();
    let Some(now) = current.filter(|&now| now < needed) else {
        return (services.iter().map(|service| service.wanted).collect(), current);
    };
    let raised = maximum.map_or(needed, |maximum| maximum.min(needed));
    let granted = match setrlimit(Resource::Nofile, Rlimit { current: Some(raised), maximum }) {
        Ok(()) => raised,
        Err(_) => now,
    };
    let fit = shares(services, granted.saturating_sub(reserved));
    for (service, &fit) in services.iter().zip(&fit).filter(|(service, fit)| **fit < service.wanted) {
        let (maxclients, wanted, listener) = (fit, service.wanted, &service.at);
        warn!(
            maxclients,
            wanted,
            descriptors = granted,
            listener,
            reason = "limit of file descriptors (ulimit -n)",
            "client limit lowered"
        );
    }
    (fit, Some(granted))
}

/// Descriptors that are not for clients.
fn reserved(services: &[ClientsMax], maximum: Option<u64>) -> u64 {
    RESERVED_DESCRIPTORS + own(services, maximum) + nodes(services)
}

/// Descriptors that only shared links may use: one for each link, and some for files that are read again. Single clients keep
/// half of theirs.
fn kept(services: &[ClientsMax], maximum: Option<u64>) -> u64 {
    (nodes(services) + FILES).min(own(services, maximum) / 2)
}

fn nodes(services: &[ClientsMax]) -> u64 {
    services.iter().map(|service| service.nodes as u64).sum()
}

fn own(services: &[ClientsMax], maximum: Option<u64>) -> u64 {
    let own: u64 = services.iter().map(|service| service.own as u64).sum();
    maximum.map_or(own, |maximum| own.min(maximum / OWN_PART))
}

/// The number of clients of each service that fit into `descriptors`: all, or the same part of each, but one at least.
fn shares(services: &[ClientsMax], descriptors: u64) -> Vec<usize> {
    let wanted: u64 = services.iter().map(ClientsMax::sockets).sum();
    let share = |service: &ClientsMax| {
        let fit = u128::from(descriptors) * service.wanted as u128 / u128::from(wanted.max(1));
        (fit as usize).clamp(1, service.wanted.max(1))
    };
    services.iter().map(share).collect()
}

impl ClientsMax {
    fn sockets(&self) -> u64 {
        self.wanted as u64 * self.sockets_each
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_share_the_available_descriptors() {
        let at = String::new;
        let service = |wanted, sockets_each| ClientsMax { at: at(), wanted, sockets_each, nodes: 0, own: 0 };
        assert_eq!(shares(&[service(1000, 1)], 1000), [1000]);
        assert_eq!(shares(&[service(1000, 1)], 10), [10]);
        assert_eq!(shares(&[service(1000, 2)], 10), [5]);
        assert_eq!(shares(&[service(1000, 1), service(1000, 2)], 300), [100, 100]);
        assert_eq!(shares(&[service(1000, 1), service(1000, 2)], 9000), [1000, 1000]);
        assert_eq!(shares(&[service(1000, 1), service(1, 2)], 0), [1, 1]);
    }

    #[test]
    fn links_of_single_clients_leave_most_descriptors() {
        let services = [ClientsMax { at: String::new(), wanted: 1, sockets_each: 1, nodes: 10, own: 5000 }];
        assert_eq!(reserved(&services, None), 64 + 10 + 5000);
        assert_eq!(reserved(&services, Some(1024)), 64 + 10 + 128);
    }

    #[test]
    fn some_descriptors_are_kept_for_nodes() {
        let services =
            |nodes| [ClientsMax { at: String::new(), wanted: 1, sockets_each: 1, nodes, own: 5000 }];
        assert_eq!(kept(&services(10), Some(1024)), 18);
        assert_eq!(kept(&services(400), Some(1024)), 64, "half of those of single clients");
        assert_eq!(kept(&services(400), None), 408);
    }
}
