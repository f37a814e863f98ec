//! Routes from one pool to another of this process.
//!
//! ```text
//!   clients ─► pool with routes ─► a pair of sockets ─► pool a ─► its nodes
//!                              └─► another pair      ─► pool b ─► its nodes
//! ```
//!
//! The pool with routes is a service like any other. Its shards are other pools: the longest prefix of a key decides (crate
//! `topology`, `routes.rs`). A link of it leads to a worker of the other pool, which takes the link for a client.
//!
//! One core over the nodes of all pools would save that step. But nearly all that a pool is belongs to one core and not to a
//! shard:
//!
//! - discovery (a cluster, sentinels or a list), credentials, TLS and databases at the nodes;
//! - timeouts, ejection, reads from replicas, limits of memory.
//!
//! And where a prefix is cut, the name of a key on the nodes no longer tells its pool. A redirect, an emulated command and a merge of
//! two pools' keys need that. As services, pools keep all that they can do, clusters included.
//!
//! - **Order**: a worker has one link to each pool, and a link keeps order, as with nodes. Between several pools there is no more order
//!   than between several nodes. All routes to one pool share the link.
//! - **Errors** of the other pool pass unchanged, since errors of nodes do. The link ends only with the process.
//! - **Memory**: each pool has its limit and counts what it holds. At the limit it reads no more from the link, as from any client.
//! - **Users and policies** are those of the pool with routes. The other pool trusts the link (`login.rs` of `proxy`).
//! - **Cost**: two workers read and write each request. Listeners without routes pay nothing.
//!
//! A pair of sockets has no address, so no other process can connect to it.

use mio::Waker;
use proxy::ROUTES_FROM;
use std::io;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

/// Links that wait for one pool to take them. More than that fail, and are made again a moment later.
const WAITING_MAX: usize = 1024;

/// The way to a pool: its place among all, and the number of this way among those that lead there.
pub(crate) type Target = (usize, usize);

/// A link of another pool, as a client of this one.
pub(crate) struct RoutedClient {
    pub(crate) stream: UnixStream,
    /// The name of the other pool.
    pub(crate) peer: Arc<str>,
    /// The listener that stands for the other pool.
    pub(crate) listener: u16,
}

/// The ways into all pools.
#[derive(Clone, Default)]
pub(crate) struct Entrances(Arc<[Entrance]>);

/// The way into one pool.
struct Entrance {
    pool: Option<String>,
    sender: mpsc::SyncSender<RoutedClient>,
    inbox: Mutex<Option<mpsc::Receiver<RoutedClient>>>,
    /// The ways of this pool to others.
    targets: Vec<Target>,
}

impl Entrances {
    /// The ways into pools with these names, and the ways of each to others.
    pub(crate) fn of(pools: impl Iterator<Item = (Option<String>, Vec<Target>)>) -> Entrances {
        let entrance = |(pool, targets): (Option<String>, Vec<Target>)| {
            let (sender, inbox) = mpsc::sync_channel(WAITING_MAX);
            Entrance { pool, sender, inbox: Mutex::new(Some(inbox)), targets }
        };
        Entrances(pools.map(entrance).collect())
    }

    /// The links that come into the pool `name`. Only its service takes them, once.
    pub(crate) fn inbox(&self, name: Option<&str>) -> Option<mpsc::Receiver<RoutedClient>> {
        self.entrance(name)?.inbox.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// The ways of the pool `name` to others. `waker` wakes the control thread, which gives links to workers.
    pub(crate) fn exits(&self, name: Option<&str>, waker: &Arc<Waker>) -> Exits {
        let exit = |&(pool, number): &Target| {
            let listener = ROUTES_FROM.saturating_add(u16::try_from(number).unwrap_or(u16::MAX));
            Some(Exit { sender: self.0.get(pool)?.sender.clone(), listener })
        };
        let exits = self.entrance(name).into_iter().flat_map(|own| &own.targets).filter_map(exit).collect();
        Exits { exits, peer: format!("pool:{}", name.unwrap_or_default()).into(), waker: Arc::clone(waker) }
    }

    fn entrance(&self, name: Option<&str>) -> Option<&Entrance> {
        self.0.iter().find(|entrance| entrance.pool.as_deref() == name)
    }
}

/// The ways of one pool to others.
#[derive(Clone)]
pub(crate) struct Exits {
    exits: Vec<Exit>,
    peer: Arc<str>,
    waker: Arc<Waker>,
}

/// The way to one pool.
#[derive(Clone)]
struct Exit {
    sender: mpsc::SyncSender<RoutedClient>,
    listener: u16,
}

impl Exits {
    /// A new connection to the pool of this number.
    pub(crate) fn connect(&self, number: u32) -> io::Result<UnixStream> {
        let exit = self.exits.get(number as usize).ok_or_else(|| io::Error::other("no route leads there"))?;
        let (ours, theirs) = UnixStream::pair()?;
        let client = RoutedClient { stream: theirs, peer: Arc::clone(&self.peer), listener: exit.listener };
        exit.sender.try_send(client).map_err(|_| io::Error::other("the pool takes no more routes now"))?;
        // Without a wake, the control thread looks ten times a second.
        let _ = self.waker.wake();
        Ok(ours)
    }
}
