//! The addresses of nodes of a listener of mode tcp. Host names are resolved at the start, and again while clients
//! come. No client waits for that: the known addresses hold meanwhile.

use crate::resolver::{Question, look_up};
use driver::Target;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use topology::{Address, NodeSpec};

/// Age from which the next connection resolves a name again.
const LOOKED_UP_EVERY: Duration = Duration::from_secs(5);

/// All nodes, in their order. Shared by all workers.
#[derive(Clone)]
pub(crate) struct Targets(Arc<[Place]>);

enum Place {
    Fixed(Target),
    Name { host: String, port: u16, known: Arc<Mutex<Known>> },
}

/// The addresses of a name.
struct Known {
    addrs: Vec<SocketAddr>,
    looked_up_at: Instant,
}

/// Where to connect to.
pub(super) enum Addresses {
    /// There.
    One(Target),
    /// The target at the first of these addresses that answers.
    Any(String, Vec<SocketAddr>),
}

impl Targets {
    /// The targets for `nodes`, whose names are looked up.
    pub(super) fn of(nodes: &[NodeSpec]) -> Result<Targets, String> {
        let places = nodes.iter().map(|node| Place::of(&node.address)).collect::<Result<Vec<_>, _>>()?;
        Ok(Targets(places.into()))
    }

    /// The place of `node`. From time to time, `resolver` is asked anew.
    pub(super) fn addresses(&self, node: usize, resolver: &Sender<Question>) -> Addresses {
        let (host, port, known) = match &self.0[node] {
            Place::Fixed(target) => return Addresses::One(target.clone()),
            Place::Name { host, port, known } => (host, *port, known),
        };
        let mut present = lock(known);
        let asked_at = Instant::now();
        if asked_at.duration_since(present.looked_up_at) >= LOOKED_UP_EVERY {
            present.looked_up_at = asked_at;
            let known = Arc::clone(known);
            let answer = Box::new(move |addrs: Result<Vec<SocketAddr>, String>| {
                if let Ok(addrs) = addrs {
                    lock(&known).addrs = addrs;
                }
            });
            // The resolver lives as long as any worker does.
            let _ = resolver.send(Question { host: host.clone(), port, answer, asked_at });
        }
        Addresses::Any(host.clone(), present.addrs.clone())
    }
}

impl Place {
    fn of(address: &Address) -> Result<Place, String> {
        match address {
            Address::Tcp { host, port } => match host.parse() {
                Ok(ip) => Ok(Place::Fixed(Target::Tcp(SocketAddr::new(ip, *port)))),
                Err(_) => {
                    let addrs = look_up(host, *port)
                        .map_err(|why| format!("--nodes {address}: {host} has no address: {why}"))?;
                    let known = Arc::new(Mutex::new(Known { addrs, looked_up_at: Instant::now() }));
                    Ok(Place::Name { host: host.clone(), port: *port, known })
                }
            },
            Address::Unix(path) => Ok(Place::Fixed(Target::Unix(path.clone()))),
            Address::Embedded(_) | Address::Route { .. } => {
                Err("--nodes: a part of this process cannot be named".to_owned())
            }
        }
    }
}

/// Nothing that is done under this lock can panic.
fn lock(known: &Mutex<Known>) -> std::sync::MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
