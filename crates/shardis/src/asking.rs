//! Conversations with nodes at the same time: the sockets of `shardis doctor` and of `shardis ring --scan`.

use crate::args::ProxyArgs;
use crate::resolver::look_up;
use crate::transport::NodeTls;
use crate::worker::{Clock, reason};
use anyhow::{Result, anyhow};
use driver::{Driver, Event, Target};
use proxy::Credentials;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use stdx::{Id, Instant};
use topology::Address;

/// A node that sends nothing for so long has failed.
const SILENCE_MAX: Duration = Duration::from_secs(3);

/// Questions to one node, which follow from its answers.
pub(crate) trait Conversation {
    /// The first requests on a connection that was just made; `auth` logs in.
    fn begin(&mut self, auth: Option<&[u8]>, now: Instant) -> Vec<u8>;
    /// Takes bytes of the node. Returns the next requests.
    fn handle_bytes(&mut self, bytes: &[u8], now: Instant) -> Vec<u8>;
    /// The connection is lost, was refused, or took too long.
    fn fail(&mut self, reason: &str);
    /// Whether nothing is to be asked any more.
    fn is_done(&self) -> bool;
    /// Whether another address of the node may be tried.
    fn may_begin_again(&self) -> bool;
    /// Whether a sentinel is asked, which has credentials and TLS of its own.
    fn is_with_sentinel(&self) -> bool {
        false
    }
}

/// The conversations with all nodes, at the same time.
pub(crate) struct Round<C> {
    driver: Driver,
    clock: Clock,
    tls: Option<NodeTls>,
    credentials: Credentials,
    sentinel_credentials: Credentials,
    /// Whether sentinels speak TLS as nodes do.
    is_sentinel_tls: bool,
    talks: Vec<Talk<C>>,
}

/// One of them.
struct Talk<C> {
    address: Address,
    /// Addresses that were not tried.
    addrs: Vec<SocketAddr>,
    conversation: C,
    /// Whether the members that it names were asked for.
    is_read: bool,
    unsent: Vec<u8>,
    heard_at: Instant,
}

impl<C: Conversation> Round<C> {
    /// The nodes at these addresses, and the conversation with each. The flags give credentials and TLS.
    pub(crate) fn new(args: &ProxyArgs, talks: Vec<(Address, C)>) -> Result<Round<C>> {
        let certificates = args.transport.load().map_err(|error| anyhow!(error))?;
        Ok(Round {
            driver: Driver::new()?,
            clock: Clock::start(),
            tls: args.transport.node_tls(&certificates),
            credentials: args.credentials().map_err(|error| anyhow!(error))?,
            sentinel_credentials: args.discovery.sentinel_credentials().map_err(|error| anyhow!(error))?,
            is_sentinel_tls: args.discovery.sentinel_tls,
            talks: talks.into_iter().map(Talk::new).collect(),
        })
    }

    /// Asks all nodes, and those that `named` finds in a conversation that is done. A node that needs more than `time_max` has
    /// failed. Returns the conversations, which are done.
    pub(crate) fn ask_all(
        mut self,
        time_max: Option<Duration>,
        mut named: impl FnMut(&C) -> Vec<(Address, C)>,
    ) -> Result<Vec<C>> {
        for at in 0..self.talks.len() {
            self.begin(at);
        }
        let end = time_max.map(|time_max| self.clock.now() + time_max);
        while self.talks.iter().any(|talk| !talk.conversation.is_done()) {
            self.driver.wait(SILENCE_MAX / 10)?;
            self.handle_events();
            let now = self.clock.now();
            for talk in &mut self.talks {
                if end.is_some_and(|end| now >= end) || now.since(talk.heard_at) > SILENCE_MAX {
                    talk.conversation.fail("no answer in time");
                }
            }
            self.ask_newcomers(&mut named);
        }
        Ok(self.talks.into_iter().map(|talk| talk.conversation).collect())
    }

    fn ask_newcomers(&mut self, named: &mut impl FnMut(&C) -> Vec<(Address, C)>) {
        let mut newcomers = Vec::new();
        for talk in self.talks.iter_mut().filter(|talk| talk.conversation.is_done() && !talk.is_read) {
            talk.is_read = true;
            newcomers.extend(named(&talk.conversation));
        }
        for newcomer in newcomers {
            self.talks.push(Talk::new(newcomer));
            self.begin(self.talks.len() - 1);
        }
    }

    fn handle_events(&mut self) {
        let mut writable = Vec::new();
        let mut failed = Vec::new();
        while let Some(event) = self.driver.next_event() {
            let now = self.clock.now();
            match event {
                Event::Connected(id) => {
                    let talk = &mut self.talks[id.index as usize];
                    talk.heard_at = now;
                    let credentials = match talk.conversation.is_with_sentinel() {
                        true => &self.sentinel_credentials,
                        false => &self.credentials,
                    };
                    talk.unsent = talk.conversation.begin(credentials.request(), now);
                    writable.push(id);
                }
                Event::Received(id, bytes) => {
                    let talk = &mut self.talks[id.index as usize];
                    talk.heard_at = now;
                    let requests = talk.conversation.handle_bytes(bytes, now);
                    talk.unsent.extend(requests);
                    writable.push(id);
                }
                Event::Writable(id) => writable.push(id),
                Event::Ended(id) => failed.push((id, "connection closed by the node".to_owned())),
                Event::Closed(id, error) => failed.push((id, reason(&error))),
            }
        }
        for id in writable {
            self.send(id);
        }
        for (id, reason) in failed {
            self.lose(id.index as usize, &reason);
        }
    }

    fn send(&mut self, id: Id) {
        let talk = &mut self.talks[id.index as usize];
        match self.driver.send(id, &talk.unsent) {
            Ok(sent) => drop(talk.unsent.drain(..sent)),
            Err(error) => talk.conversation.fail(&reason(&error)),
        }
    }

    /// Looks the name up, and connects to its first address.
    fn begin(&mut self, at: usize) {
        let talk = &mut self.talks[at];
        talk.heard_at = self.clock.now();
        match &talk.address {
            Address::Tcp { host, port } => match look_up(host, *port) {
                Ok(addrs) => {
                    talk.addrs = addrs.into_iter().rev().collect();
                    self.connect_next(at, "no address");
                }
                Err(error) => talk.conversation.fail(&error),
            },
            Address::Unix(path) => {
                let begun = self.driver.connect(id_of(at), &Target::Unix(path.clone()));
                self.check_begun(at, begun);
            }
            Address::Embedded(_) => talk.conversation.fail("a store of this process is no node to ask"),
            Address::Route { .. } => {
                talk.conversation.fail("a route is no node to ask; ask the pool with --pool")
            }
        }
    }

    /// Connects to the next address of the node, if there is one. Else the node has failed for `reason`.
    fn connect_next(&mut self, at: usize, reason: &str) {
        let talk = &mut self.talks[at];
        let Some(addr) = talk.addrs.pop() else { return talk.conversation.fail(reason) };
        let is_tls = self.is_sentinel_tls || !talk.conversation.is_with_sentinel();
        let begun = match (self.tls.as_ref().filter(|_| is_tls), &talk.address) {
            (Some(tls), Address::Tcp { host, .. }) => {
                self.driver.connect_tls(id_of(at), addr, &tls.connector(), tls.name_of(host))
            }
            _ => self.driver.connect(id_of(at), &Target::Tcp(addr)),
        };
        self.check_begun(at, begun);
    }

    fn check_begun(&mut self, at: usize, begun: io::Result<()>) {
        if let Err(error) = begun {
            self.lose(at, &reason(&error));
        }
    }

    /// The connection is gone, or was not made.
    fn lose(&mut self, at: usize, reason: &str) {
        self.driver.close(id_of(at));
        let talk = &mut self.talks[at];
        match talk.conversation.may_begin_again() {
            true if !talk.conversation.is_done() => self.connect_next(at, reason),
            _ => talk.conversation.fail(reason),
        }
    }
}

impl<C> Talk<C> {
    fn new((address, conversation): (Address, C)) -> Talk<C> {
        Talk {
            address,
            addrs: Vec::new(),
            conversation,
            is_read: false,
            unsent: Vec::new(),
            heard_at: Instant::ZERO,
        }
    }
}

fn id_of(at: usize) -> Id {
    Id { index: at as u32, generation: 0 }
}
