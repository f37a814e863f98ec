//! Checks the accounts of bytes and the counts of things: each is summed up anew from its owners. The checks change
//! nothing.

use crate::core::Core;
use crate::features::Session;
use crate::peers::sessions;
use crate::proxy::Proxy;
use crate::session::Reason;

/// An account that is wrong: its name, its value, and the sum of its owners.
type Mismatch = (&'static str, usize, usize);

/// Sums up all accounts anew. The error names the first that is wrong.
pub(super) fn check(proxy: &Proxy) -> Result<(), String> {
    accounts(proxy)
        .into_iter()
        .find(|(_, counted, held)| counted != held)
        .map_or(Ok(()), |(account, counted, held)| {
            Err(format!("account of {account}: counted {counted}, held {held}"))
        })
}

fn accounts(proxy: &Proxy) -> Vec<Mismatch> {
    let core = &proxy.core;
    let mut accounts = Vec::new();
    sessions(&proxy.peers).for_each(|session| accounts.extend(accounts_of_client(session)));
    accounts.extend(core.accounts_of_owners());
    accounts.extend(totals(proxy));
    accounts.extend(counts(proxy));
    accounts
}

/// The accounts of the worker, each with the sum of its owners' counts.
fn totals(proxy: &Proxy) -> [Mismatch; 4] {
    let core = &proxy.core;
    let of_clients: usize = sessions(&proxy.peers).map(|session| session.counted.bytes).sum();
    let unread: usize = sessions(&proxy.peers).map(counted_as_unread).sum();
    let left: usize = sessions(&proxy.peers).map(|session| session.features.left_bytes()).sum();
    let (counted, counted_unread) = core.cx.engine.memory.counted();
    [
        ("bytes in all", counted, of_clients + core.counted_bytes_of_owners()),
        ("unread bytes in all", counted_unread, unread),
        ("bytes left behind in all", core.cx.engine.memory.left_bytes(), left + core.left_bytes_of_all()),
        core.account_of_gathered(),
    ]
}

/// Counts that are kept, each with the number of things that exist.
fn counts(proxy: &Proxy) -> [Mismatch; 7] {
    let core = &proxy.core;
    let count = |is: &dyn Fn(&Session) -> bool| sessions(&proxy.peers).filter(|session| is(session)).count();
    let access = &core.cx.settings.access;
    let passes_rules_over = |session: &Session| {
        let has_rules = session.features.namespace.as_ref().is_some_and(|named| named.namespace.renames())
            || access.policies.of(session.features.login.listener).is_some();
        has_rules && !session.features.login.is_checked()
    };
    let blocked = |session: &Session| session.wait.is_seen || session.hold.has(Reason::Pause);
    [
        ("clients", core.cx.stats.counters.clients as usize, count(&|_| true)),
        (
            "clients that wait for replies",
            core.cx.engine.clients_waiting,
            count(&|session| session.replies.is_pending()),
        ),
        ("clients whose policy or namespace is passed over", 0, count(&passes_rules_over)),
        ("clients that are blocked", core.cx.stats.counters.clients_blocked as usize, count(&blocked)),
        (
            "clients with topics",
            core.cx.stats.counters.subscribers as usize,
            count(&|session| session.features.has_topics()),
        ),
        ("connections that clients hold", core.cx.holders.conns, core.cx.engine.held_conns()),
        ("permits", core.cx.pins.granted(), count(&|session| session.pinning.has_permit())),
    ]
}

fn counted_as_unread(session: &Session) -> usize {
    let kept = session.features.transaction.as_ref().map_or(0, |transaction| transaction.counted_bytes());
    session.counted.unread_bytes + kept
}

fn accounts_of_client(session: &Session) -> [Mismatch; 5] {
    let (counted, held) = session
        .features
        .transaction
        .as_ref()
        .map_or((0, 0), |kept| (kept.counted_bytes(), kept.held_bytes()));
    let (_, parked_bytes) = session.replies.parked();
    [
        ("a client's replies that wait for others", parked_bytes, session.replies.add_up_parked()),
        ("what waits for a client", session.counted.bytes, session.replies.held_bytes()),
        ("a client's requests", session.counted.unread_bytes, session.input.bytes.len()),
        ("a client's transaction", counted, held),
        ("what a client leaves behind", session.features.left_bytes(), session.features.add_up_left()),
    ]
}

impl Core {
    /// The sum of all owners' counts except those of clients.
    fn counted_bytes_of_owners(&self) -> usize {
        let links: usize = self.cx.engine.links.iter().map(|link| link.counted_bytes).sum();
        let merges: usize = self.cx.merges.iter().map(|(_, merge)| merge.counted_bytes).sum();
        let emulations: usize = self.emulations.slab.iter().map(|(_, emulation)| emulation.account().0).sum();
        let fans: usize = self.fans.slab.iter().map(|(_, fan)| fan.account().0).sum();
        let replays: usize = self.execs.replays.iter().map(|(_, replay)| replay.account().0).sum();
        let executions: usize =
            self.execs.executions.iter().map(|(_, execution)| execution.account().0).sum();
        let mixtures: usize = self.execs.mixtures.iter().map(|(_, mixture)| mixture.account().0).sum();
        links + merges + emulations + fans + replays + executions + mixtures + self.cx.retry_queue.account().0
    }

    /// Bytes that clients leave behind, except those that belong to one client.
    fn left_bytes_of_all(&self) -> usize {
        let scans: usize = self.scans.slab.iter().map(|(_, scan)| scan.account().0).sum();
        let tables = [
            self.subscriptions.topics.account(),
            self.invalidations.readers.account(),
            self.cx.pins.account(),
        ];
        let begun = self.invalidations.accounts_of_waiting().chain(self.cx.inquiries.accounts_of_redirects());
        scans + tables.into_iter().chain(begun).map(|(counted, _)| counted).sum::<usize>()
    }

    /// Answers that are gathered, and mail. Mail that its receiver has not taken yet cannot be checked here.
    fn account_of_gathered(&self) -> Mismatch {
        let lines: usize = self.cx.inquiries.accounts_of_lines().map(|(counted, _)| counted).sum();
        let mail: usize = self.cx.outside.mail.iter().map(|(_, mail)| mail.counted_bytes()).sum();
        let (counted, held) = (self.cx.engine.memory.gathered_bytes(), lines + mail);
        let counted_here = if self.cx.settings.workers > 1 { counted.min(held) } else { counted };
        ("answers that are gathered, and mail", counted_here, held)
    }

    fn accounts_of_owners(&self) -> Vec<Mismatch> {
        let named = |name: &'static str, (counted, held): (usize, usize)| (name, counted, held);
        let mut accounts = Vec::new();
        for link in &self.cx.engine.links {
            accounts.push(("a connection to a node", link.counted_bytes, link.held_bytes()));
            accounts.push(named("a connection's requests", link.account_of_outbox()));
        }
        let links = &self.cx.engine.links;
        for gone in links.indexes().filter(|&ix| links.is_vacant(ix)) {
            accounts.push(("a connection that is gone", links[gone].held_bytes(), 0));
        }
        for (_, merge) in self.cx.merges.iter() {
            accounts.push(("replies to be merged", merge.counted_bytes, merge.held_bytes()));
            accounts.push(named("values of an MGET", merge.account_of_values()));
        }
        let emulations = self.emulations.slab.iter().map(|(_, emulation)| emulation.account());
        accounts.extend(emulations.map(|account| named("a command over several shards", account)));
        let fans = self.fans.slab.iter().map(|(_, fan)| fan.account());
        accounts.extend(fans.map(|account| named("a wait on several shards", account)));
        let replays = self.execs.replays.iter().map(|(_, replay)| replay.account());
        accounts.extend(replays.map(|account| named("a transaction in flight", account)));
        let executions = self.execs.executions.iter().map(|(_, execution)| execution.account());
        accounts.extend(executions.map(|account| named("a transaction over several shards", account)));
        let mixtures = self.execs.mixtures.iter().map(|(_, mixture)| mixture.account());
        accounts.extend(mixtures.map(|account| named("an EXEC that is answered in part here", account)));
        accounts.extend(self.scans.slab.iter().map(|(_, scan)| named("a SCAN", scan.account())));
        let begun = self.invalidations.accounts_of_waiting().chain(self.cx.inquiries.accounts_of_redirects());
        accounts.extend(begun.map(|account| named("what a client is about to track", account)));
        let lines = self.cx.inquiries.accounts_of_lines();
        accounts.extend(lines.map(|account| named("lines of clients", account)));
        accounts.push(named("users and their rules", self.cx.logins.users.account()));
        accounts.push(named("reads that are asked again", self.cx.pins.account()));
        accounts.push(named("scripts", self.cx.board.scripts.account()));
        accounts.push(named("requests that were declined", self.cx.retry_queue.account()));
        accounts.push(named("spare values", self.cx.spare_values.account()));
        accounts.push(named("subscriptions", self.subscriptions.topics.account()));
        accounts.push(named("keys that were read", self.invalidations.readers.account()));
        accounts
    }
}
