//! Worlds with users: each client is one. It may read the keys of some others, and its permissions change while it runs. All
//! users share the links to nodes.
//!
//! ```text
//!   GET of another's key ─ sent ─────── answered
//!        rights:  ───────────┴ changed ──┴─────►   the value if it was allowed at some time in between,
//!                                                  NOPERM if it was forbidden at some time
//! ```

use crate::ledger::writer_of;
use crate::program::{Expect, Program, Sent, words};
use resp::request::{RequestLimits, Scanned, Scanner};
use resp::{Request, reply};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use stdx::{Instant, Prng};
use users::{Registry, Users};

/// The user of a client.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    name: String,
    password: String,
    /// A connection without it may do nothing.
    is_needed: bool,
    /// Whether AUTH was sent on this connection.
    is_in: bool,
}

/// The password of the default user, where one is needed.
const DEFAULT_PASSWORD: &str = "sesame";
const NO_AUTH: &[u8] = b"-NOAUTH Authentication required.\r\n";
const NO_PERMISSION: &[u8] =
    b"-NOPERM this user has no permissions to access one of the keys used as arguments\r\n";
const WRONG_PASSWORD: &[u8] = b"-WRONGPASS invalid username-password pair or user is disabled.\r\n";

/// Permissions to read, with their times.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    /// The default user has a password.
    pub is_closed: bool,
    clients: usize,
    /// By client and owner of keys: whether reading is permitted, with the time of each change.
    history: BTreeMap<(usize, usize), Vec<(Instant, bool)>>,
    /// Clients whose rights have changed.
    changed: BTreeSet<usize>,
}

impl Rights {
    /// Rights of as many clients, all of them users.
    pub(crate) fn draw(clients: usize, prng: &mut Prng) -> Rights {
        let pairs = (0..clients).flat_map(|client| (0..clients).map(move |owner| (client, owner)));
        let history = pairs.map(|(client, owner)| {
            ((client, owner), vec![(Instant::ZERO, client == owner || prng.one_in(2))])
        });
        let history = history.collect();
        Rights { is_closed: prng.one_in(2), clients, history, changed: BTreeSet::new() }
    }

    /// Whether there are users at all.
    pub(crate) fn is_there(&self) -> bool {
        self.clients > 0
    }

    /// The users as an operator would write them.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        let secret = if self.is_closed { format!(">{DEFAULT_PASSWORD}") } else { "nopass".to_owned() };
        let mut text = format!("user default on {secret} ~* &* +@all\n");
        for client in 0..self.clients {
            let rules = self.rules(client).join(" ");
            text += &format!("user tenant{client} on >word{client} {rules} &* +@all\n");
        }
        let users = Users::parse("users of a world", text.as_bytes()).expect("rules as they should be");
        Arc::new(Registry::new(users, [7; 32], true))
    }

    /// Which keys `client` may use.
    fn rules(&self, client: usize) -> Vec<String> {
        let mut rules: Vec<String> =
            vec![format!("~stamped{client}k*"), format!("~?{{f{client}.*"), format!("~?<f{client}.*")];
        rules.extend(["~lasting*", "~queue*", "~shared*"].map(str::to_owned));
        for owner in (0..self.clients).filter(|owner| *owner != client && self.may_read(client, *owner)) {
            rules.push(format!("%R~stamped{owner}k*"));
        }
        rules
    }

    fn may_read(&self, client: usize, owner: usize) -> bool {
        let last = self.history.get(&(client, owner)).and_then(|history| history.last());
        last.is_none_or(|(_, may)| *may)
    }

    /// Somebody gets a right, or loses it.
    pub(crate) fn change(&mut self, registry: &Registry, now: Instant, prng: &mut Prng) -> Arc<Users> {
        let (client, owner) =
            (prng.below(self.clients as u64) as usize, prng.below(self.clients as u64) as usize);
        if client != owner {
            let may = !self.may_read(client, owner);
            self.history.entry((client, owner)).or_default().push((now, may));
            self.changed.insert(client);
        }
        let rules: Vec<String> = ["resetkeys".to_owned()].into_iter().chain(self.rules(client)).collect();
        let rules: Vec<&[u8]> = rules.iter().map(String::as_bytes).collect();
        let name = format!("tenant{client}");
        registry.set_user(name.as_bytes(), &rules, usize::MAX).expect("rules as they should be")
    }

    /// Whether a transaction of `client` may have been aborted because its permissions changed.
    pub(crate) fn have_changed(&self, client: usize) -> bool {
        self.changed.contains(&client)
    }

    /// Checks a reply about keys of `owners`: whether `client` was refused. The request was sent at `sent_at`. The error says
    /// why it must, or must not, have been refused.
    pub(crate) fn check(
        &self,
        client: usize,
        guard: &Guard,
        reply: &[u8],
        now: Instant,
    ) -> Result<bool, String> {
        let Guard { owners, sent_at, .. } = guard;
        let is_refused = reply == NO_PERMISSION;
        let states = owners.iter().map(|owner| self.states(client, *owner, *sent_at, now));
        let may_be_refused = states.clone().any(|states| states.contains(&false));
        let may_be_answered = states.clone().all(|states| states.contains(&true));
        match is_refused {
            true if !may_be_refused => {
                Err(format!("client {client} may read keys of {owners:?}, and was refused"))
            }
            false if !may_be_answered => Err(format!(
                "client {client} may not read keys of {owners:?}, and got {:?}",
                crate::ledger::text(reply)
            )),
            _ => Ok(is_refused),
        }
    }

    /// The states of the permission between two times.
    fn states(&self, client: usize, owner: usize, from: Instant, to: Instant) -> BTreeSet<bool> {
        let mut states = BTreeSet::new();
        let history = self.history.get(&(client, owner)).map_or(&[][..], Vec::as_slice);
        for (number, (since, may)) in history.iter().enumerate() {
            let until = history.get(number + 1).map_or(Instant::NEVER, |(next, _)| *next);
            if *since <= to && until >= from {
                states.insert(*may);
            }
        }
        states
    }
}

/// The conditions of a request for keys of others.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    owners: Vec<usize>,
    sent_at: Instant,
    /// The expected reply if it is permitted.
    pub expect: Box<Expect>,
}

impl Account {
    /// The account of a client, where there are users.
    pub(crate) fn draw(client: usize, rights: &Rights, prng: &mut Prng) -> Option<Account> {
        if !rights.is_there() {
            return None;
        }
        let is_needed = rights.is_closed;
        let (name, password) = match prng.one_in(5) {
            true if is_needed => ("default".to_owned(), DEFAULT_PASSWORD.to_owned()),
            true => return None,
            false => (format!("tenant{client}"), format!("word{client}")),
        };
        Some(Account { name, password, is_needed, is_in: false })
    }

    /// AUTH of the default user, which has all permissions.
    pub(crate) fn request_of_default(rights: &Rights) -> Option<Vec<u8>> {
        rights.is_closed.then(|| words(&[b"AUTH", DEFAULT_PASSWORD.as_bytes()]))
    }

    /// Its connection is gone, or as if it had just begun.
    pub(crate) fn reset(&mut self) {
        self.is_in = false;
    }
}

impl Program {
    /// The first request of a client.
    pub(crate) fn log_in(&mut self, prng: &mut Prng) -> Option<Sent> {
        let key = self.foreign_key(prng);
        let account = self.account.as_mut().filter(|account| !account.is_in)?;
        let (name, password) = (account.name.as_bytes(), account.password.as_bytes());
        let (bytes, reply) = match prng.below(6) {
            0 if account.is_needed => (words(&[b"GET", &key]), NO_AUTH),
            1 => (words(&[b"AUTH", name, b"wrong"]), WRONG_PASSWORD),
            _ => {
                account.is_in = true;
                (words(&[b"AUTH", name, password]), &b"+OK\r\n"[..])
            }
        };
        Some(Sent { bytes, expect: Some(Expect::Exactly(reply.to_vec())) })
    }

    /// A request for others' keys needs permission to read them.
    pub(crate) fn guard(&self, sent: Sent, now: Instant) -> Sent {
        let is_tenant =
            self.account.as_ref().is_some_and(|account| account.is_in && account.name != "default");
        if !is_tenant {
            return sent;
        }
        let mut owners: Vec<usize> = owners(&sent.bytes);
        owners.retain(|owner| *owner != self.client);
        match owners.is_empty() {
            true => sent,
            false => Sent { expect: sent.expect.map(|expect| guarded(expect, &owners, now)), ..sent },
        }
    }
}

/// `expect`, or the one part of it that brings values.
fn guarded(expect: Expect, owners: &[usize], sent_at: Instant) -> Expect {
    use crate::trackers::Expected;
    match expect {
        Expect::Each(all) => {
            Expect::Each(all.into_iter().map(|expect| guarded(expect, owners, sent_at)).collect())
        }
        Expect::Value { .. }
        | Expect::Values { .. }
        | Expect::Between(..)
        | Expect::Reply(_)
        | Expect::Tracking(Expected::Read { .. }) => {
            Expect::Guarded(Guard { owners: owners.to_vec(), sent_at, expect: Box::new(expect) })
        }
        expect => expect,
    }
}

/// Whose keys the requests in `bytes` name.
fn owners(bytes: &[u8]) -> Vec<usize> {
    let (mut scanner, mut args, mut inline) = (Scanner::default(), Vec::new(), Vec::new());
    let (mut owners, mut at) = (BTreeSet::new(), 0);
    loop {
        let rest = &bytes[at..];
        let (request, len) = match scanner.scan(rest, &RequestLimits::default(), &mut args, &mut inline) {
            Ok(Scanned::Request { len }) => (Request::new(&rest[..len], &args), len),
            Ok(Scanned::Inline { len }) => (Request::new(&inline, &args), len),
            Ok(Scanned::Nothing { len }) => {
                at += len;
                continue;
            }
            _ => return owners.into_iter().collect(),
        };
        owners.extend(request.args().skip(1).filter_map(writer_of));
        at += len;
    }
}

/// Whether `reply` says that a transaction was aborted because users have changed.
pub(crate) fn is_given_up(reply: &[u8]) -> bool {
    reply::is_error(reply)
        && reply.starts_with(b"-EXECABORT Transaction discarded because of previous errors.")
}
