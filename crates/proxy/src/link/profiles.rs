//! Profiles: clients that have chosen another database, or RESP3, share connections of their own.
//!
//! A profile is the shared connections, one to each shard, for one database, one version of the protocol and one user: what a
//! node remembers of a connection is the same for all who use it. Profile 0 (database 0, RESP2, ourselves) is there from the
//! start. The connections of any other are made when the first request needs them, and closed when no client has been in
//! the profile for a while.
//!
//! ```text
//!   session ─ profile 0 ──────────────────► link of the shard
//!           └ SELECT 3 ─► profile 5 ─ first request ─► greeting: SELECT 3, PING ─► a link more
//! ```
//!
//! SELECT costs no round trip: it is answered here. But what follows it takes another connection than what went before,
//! so it is held back until all of that was answered ([`Session::turn`]): nothing of one client overtakes.
//!
//! - `HELLO` and `RESET` are answered here as `SELECT` is, and cost no round trip either.
//! - The links of a profile are closed when no client was in it for five seconds. A worker has 1,024 of them at most; requests that
//!   would need more are refused.
//! - Pinned and retired links, scans, scripts and what goes to several shards keep to the profile of their request.
//! - Replies of RESP3 pass as they are. What is answered or merged here is written in the protocol in which the request came.
//! - With `--auth=nodes` a profile is also of one user and one password (`passing.rs`, `identities.rs`): its links begin with that
//!   `AUTH`. A node says over a link that carries nothing else whether it is right. A profile that no client is in is forgotten, and the
//!   password with the last profile of a user. Its number then names no profile, so that nothing late goes out as another user.
//! - A push on a link for replies ends that link. The push might be meant as a reply, and then every client behind it would get the
//!   reply of another.

use crate::core::Core;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::features::{Link, Session};
use crate::limits::{Authority, Limits};
use crate::link::greeting::{End, Greeting};
use crate::link::{LinkIx, ProfileId, Use};
use crate::login::credentials::Credentials;
use crate::login::identities::Identities;
use crate::login::passing;
use command::Naming;
use resp::{Request, encode};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use stdx::{Id, Instant};
use topology::{NodeId, ShardId};
use zeroize::Zeroizing;

/// What all who use a connection have chosen alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Profile {
    /// Below [`DATABASES_MAX`].
    pub database: u16,
    /// Replies are of RESP3.
    pub resp3: bool,
    /// Whose requests the nodes take them for.
    pub who: Who,
}

/// For whom nodes take a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// For us: the user that the pool's credentials name. If there are none, for their default user, as which clients
    /// that have not said who they are may use it too.
    #[default]
    Pool,
    /// For nobody, or for whoever has logged in last: only AUTH goes over it.
    Nobody,
    /// For the client that has said so: see [`Identities`].
    Client(Id),
}

impl Profile {
    /// The same for database 0 and RESP2.
    pub(crate) fn plain(self) -> Profile {
        Profile { who: self.who, ..Profile::default() }
    }
}

/// That of [`ProfileId::NONE`]. Nobody ever has this number.
const NO_KIND: Profile =
    Profile { database: 0, resp3: false, who: Who::Client(Id { index: u32::MAX, generation: u32::MAX }) };

/// More databases cannot be had: the profiles of all must have a number.
pub(crate) const DATABASES_MAX: u16 = 16 * 1024;

/// HELLO 3, SELECT, READONLY and PING take less.
const BEHIND_LOGIN_BYTES_MAX: usize = 128;

/// What a connection for `kind` begins with, of whom `credentials` tell who it is. A node of a cluster `is_told` with it that what comes may be read though it is a replica.
fn greeting_of(kind: Profile, credentials: &Credentials, end: End, is_told: bool) -> Greeting {
    let database = itoa::Buffer::new().format(kind.database).to_owned();
    let mut requests: Vec<&[&[u8]]> = Vec::new();
    let select: &[&[u8]] = &[b"SELECT", database.as_bytes()];
    if kind.resp3 {
        requests.push(&[b"HELLO", b"3"]);
    }
    if kind.database > 0 {
        requests.push(select);
    }
    if is_told {
        requests.push(&[b"READONLY"]);
    }
    requests.push(match end {
        End::Ping | End::PingOfAnybody => &[b"PING"],
        End::Hello | End::HelloOfNobody | End::Never => &[b"HELLO"],
    });
    // Before all others: nodes answer nothing else until they know who asks.
    let login = credentials.request().unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(login.len() + BEHIND_LOGIN_BYTES_MAX));
    bytes.extend_from_slice(login);
    requests.iter().for_each(|request| encode::request(&mut bytes, request));
    let requests = requests.len() + usize::from(credentials.request().is_some());
    Greeting::new(bytes, requests, end)
}

/// That of our own connections without a password.
#[cfg(test)]
pub(crate) fn greeting_of_pool() -> Greeting {
    greeting_of(Profile::default(), &Credentials::default(), End::Ping, false)
}

/// One profile.
#[derive(Debug)]
struct ProfileLinks {
    generation: u16,
    kind: Profile,
    greeting: Greeting,
    /// By node: the link. Empty as long as there is none.
    links: Vec<Option<LinkIx>>,
    /// How many clients are in it.
    clients: usize,
    /// When the last of them went.
    left_at: Instant,
    /// Shards whose node has refused its connections, and has taken none since.
    refused_by: BTreeSet<ShardId>,
}

/// All profiles of a worker.
#[derive(Debug)]
pub(crate) struct Profiles {
    profiles: Vec<ProfileLinks>,
    by_kind: HashMap<Profile, ProfileId>,
    /// Places of profiles that are gone.
    free: Vec<u16>,
    /// By shard: the first profile's connection to its primary.
    primaries: Vec<Option<LinkIx>>,
    credentials: Credentials,
    /// Where the nodes decide who clients are, those that are in.
    pub identities: Identities,
    /// How connections end their greeting that are nobody's own.
    end: End,
    /// How many connections there are of all but the first.
    nodes: usize,
}

impl Profiles {
    /// The first one alone.
    pub(crate) fn new(credentials: Credentials, authority: Authority) -> Profiles {
        let (profiles, by_kind, free, primaries) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        let end = match authority {
            Authority::Nodes if credentials.request().is_none() => End::PingOfAnybody,
            Authority::Nodes | Authority::Proxy => End::Ping,
        };
        let identities = Identities::default();
        let mut profiles =
            Profiles { profiles, by_kind, free, primaries, credentials, identities, end, nodes: 0 };
        profiles.of_kind(Profile::default(), Instant::ZERO);
        profiles
    }

    /// The profile of `kind`; [`ProfileId::NONE`] if there can be none.
    pub(crate) fn of_kind(&mut self, kind: Profile, now: Instant) -> ProfileId {
        if let Some(&profile) = self.by_kind.get(&kind) {
            return profile;
        }
        let Some(greeting) = self.greeting_for(kind, false) else { return ProfileId::NONE };
        let (links, refused_by) = (Vec::new(), BTreeSet::new());
        let profile =
            ProfileLinks { generation: 0, kind, greeting, links, clients: 0, left_at: now, refused_by };
        let id = match self.free.pop() {
            Some(index) => {
                let place = &mut self.profiles[usize::from(index)];
                *place = ProfileLinks { generation: place.generation, ..profile };
                ProfileId { index, generation: place.generation }
            }
            None if self.profiles.len() < usize::from(ProfileId::NONE.index) => {
                self.profiles.push(profile);
                ProfileId { index: self.profiles.len() as u16 - 1, generation: 0 }
            }
            None => return ProfileId::NONE,
        };
        if let Who::Client(identity) = kind.who {
            self.identities.add_profile(identity);
        }
        self.by_kind.insert(kind, id);
        id
    }

    /// What connections for `kind` begin with; `None` if nobody is called so any more.
    fn greeting_for(&self, kind: Profile, is_told: bool) -> Option<Greeting> {
        Some(match kind.who {
            Who::Pool => greeting_of(kind, &self.credentials, self.end, is_told),
            Who::Nobody => greeting_of(kind, &Credentials::default(), End::HelloOfNobody, is_told),
            Who::Client(id) => greeting_of(kind, self.identities.credentials(id)?, End::Hello, is_told),
        })
    }

    #[inline]
    fn profile(&self, profile: ProfileId) -> Option<&ProfileLinks> {
        self.profiles.get(usize::from(profile.index)).filter(|place| place.generation == profile.generation)
    }

    #[inline]
    fn profile_mut(&mut self, profile: ProfileId) -> Option<&mut ProfileLinks> {
        self.profiles
            .get_mut(usize::from(profile.index))
            .filter(|place| place.generation == profile.generation)
    }

    /// What its clients have chosen.
    pub(crate) fn kind(&self, profile: ProfileId) -> Profile {
        self.profile(profile).map_or(NO_KIND, |profile| profile.kind)
    }

    /// What its connections begin with.
    pub(crate) fn greeting(&self, profile: ProfileId) -> Greeting {
        self.profile(profile).map_or_else(Greeting::never, |profile| profile.greeting.clone())
    }

    /// What its connections to replicas of a cluster begin with.
    pub(crate) fn greeting_of_replica(&self, profile: ProfileId) -> Greeting {
        self.greeting_for(self.kind(profile), true).unwrap_or_else(Greeting::never)
    }

    /// The first profile's connection to the primary of `shard`, if it has one.
    #[inline]
    pub(crate) fn primary(&self, shard: ShardId) -> Option<LinkIx> {
        self.primaries[shard.0 as usize]
    }

    /// The connection of `profile` to the node `id`, if there is one.
    pub(crate) fn link(&self, profile: ProfileId, id: NodeId) -> Option<LinkIx> {
        *self.profile(profile)?.links.get(id.0 as usize)?
    }

    fn set_link(&mut self, profile: ProfileId, id: NodeId, ix: LinkIx) {
        let Some(place) = self.profile_mut(profile) else { return };
        let links = &mut place.links;
        if links.len() <= id.0 as usize {
            links.resize(id.0 as usize + 1, None);
        }
        links[id.0 as usize] = Some(ix);
        self.nodes += usize::from(profile != ProfileId::FIRST);
    }

    /// The primaries of all shards are reached over these connections of the first profile, as far as there are any.
    fn set_primaries(&mut self, nodes: impl Iterator<Item = Option<LinkIx>>) {
        self.primaries.clear();
        self.primaries.extend(nodes);
    }

    /// The connection `ix` of `profile` to the node `id` is gone, if it was one of these.
    pub(crate) fn forget(&mut self, profile: ProfileId, id: NodeId, ix: LinkIx) {
        if self.link(profile, id) == Some(ix)
            && let Some(place) = self.profile_mut(profile)
        {
            place.links[id.0 as usize] = None;
            self.nodes -= usize::from(profile != ProfileId::FIRST);
        }
    }

    /// The node of `shard` has taken a connection of `profile`.
    pub(crate) fn note_taken(&mut self, profile: ProfileId, shard: ShardId) {
        if let Some(profile) = self.profile_mut(profile) {
            profile.refused_by.remove(&shard);
        }
    }

    /// A client of `profile` is not in it any more.
    pub(crate) fn leave(&mut self, profile: ProfileId, now: Instant) {
        if profile != ProfileId::FIRST
            && let Some(profile) = self.profile_mut(profile)
        {
            profile.clients -= 1;
            profile.left_at = now;
        }
    }

    /// The connections of `profile`, in which no client is, are of use now.
    pub(crate) fn touch(&mut self, profile: ProfileId, now: Instant) {
        if let Some(profile) = self.profile_mut(profile) {
            profile.left_at = now;
        }
    }

    fn enter(&mut self, profile: ProfileId) {
        if profile != ProfileId::FIRST
            && let Some(profile) = self.profile_mut(profile)
        {
            profile.clients += 1;
        }
    }

    /// Clients' own profiles that nobody was in for `profile_idle`.
    pub(crate) fn deserted(&self, limits: &Limits, now: Instant) -> Vec<ProfileId> {
        let is_deserted = |profile: &ProfileLinks| {
            let is_own = matches!(profile.kind.who, Who::Client(_));
            is_own && profile.clients == 0 && now.since(profile.left_at) >= limits.profile_idle
        };
        let profiles = (0..).zip(&self.profiles).filter(|(_, profile)| is_deserted(profile));
        profiles.map(|(index, profile)| ProfileId { index, generation: profile.generation }).collect()
    }

    /// A client's own profile, without connections, is not there any more; and who it was is forgotten with its last one.
    pub(crate) fn remove(&mut self, profile: ProfileId) {
        let Some(place) = self.profile_mut(profile) else { return };
        place.generation = place.generation.wrapping_add(1);
        place.greeting = Greeting::never();
        let kind = std::mem::take(&mut place.kind);
        self.by_kind.remove(&kind);
        self.free.push(profile.index);
        if let Who::Client(identity) = kind.who {
            self.identities.remove_profile(identity);
        }
    }

    /// Connections of profiles that no client was in for `profile_idle`.
    fn unused<'a>(&'a self, limits: &'a Limits, now: Instant) -> impl Iterator<Item = LinkIx> + 'a {
        let empty = move |profile: &&ProfileLinks| {
            profile.clients == 0 && now.since(profile.left_at) >= limits.profile_idle
        };
        let nodes = self.profiles.iter().skip(1).filter(empty).flat_map(|profile| &profile.links);
        nodes.copied().flatten()
    }
}

impl Core {
    /// The connection to `shard` that the clients of `profile` share, if it takes a request now.
    #[inline(always)]
    pub(crate) fn shared_link(&mut self, profile: ProfileId, shard: ShardId) -> Result<LinkIx, Lost> {
        if profile == ProfileId::FIRST
            && let Some(ix) = self.profiles.primary(shard)
            && self.engine.links[ix].admit(&self.engine.limits).is_ok()
        {
            return Ok(ix);
        }
        self.link_of_profile(profile, shard)
    }

    /// As [`Core::shared_link`], which does by itself what is usual.
    #[inline(never)]
    fn link_of_profile(&mut self, profile: ProfileId, shard: ShardId) -> Result<LinkIx, Lost> {
        let id = self.primary_of(shard)?;
        let node = self.link_in(profile, id)?;
        self.admit_on(node).map(|()| node)
    }

    /// The node of `shard` has refused a connection of `profile`, for this `reason`: the log is told once. Of the first profile it
    /// is told otherwise: if that is refused, the node is down.
    pub(crate) fn note_refused(&mut self, profile: ProfileId, shard: ShardId, reason: &str) {
        let Profile { database, resp3, who } = self.profiles.kind(profile);
        // Of a client's own it is told, and nobody else is.
        let is_own = matches!(who, Who::Client(_)) && passing::is_denial(reason);
        let is_known =
            self.profiles.profile_mut(profile).is_none_or(|profile| !profile.refused_by.insert(shard));
        if profile == ProfileId::FIRST || is_own || is_known {
            return;
        }
        let (shard, reason) = (self.engine.shard_name(shard).to_owned(), reason.to_owned());
        self.notice(Notice::KindRefused { shard, database, protocol: if resp3 { 3 } else { 2 }, reason });
    }

    /// The primary of `shard`.
    #[cold]
    pub(crate) fn primary_of(&self, shard: ShardId) -> Result<NodeId, Lost> {
        let primary = self.engine.topology.shard(shard).primary;
        primary.ok_or_else(|| self.engine.not_sent(shard, errors::NO_PRIMARY))
    }

    /// The connection to the node `id` that the clients of `profile` share; it is made if there is none.
    pub(crate) fn link_in(&mut self, profile: ProfileId, id: NodeId) -> Result<LinkIx, Lost> {
        match self.profiles.link(profile, id) {
            Some(node) => Ok(node),
            None => self.open_link(profile, id),
        }
    }

    /// Makes the connection of `profile` to the node `id`.
    fn open_link(&mut self, profile: ProfileId, id: NodeId) -> Result<LinkIx, Lost> {
        let is_full = profile != ProfileId::FIRST && self.profiles.nodes >= self.limits.profile_nodes_max;
        let reason = match self.profiles.profile(profile).map(|profile| profile.kind.who) {
            None => Some(errors::NO_PROFILE),
            // It is one connection, and whoever cannot log in is told less than who can.
            Some(Who::Nobody) => None,
            Some(Who::Client(_)) => is_full.then_some(errors::USER_NODES_MAX),
            Some(Who::Pool) => is_full.then_some(errors::PROFILE_NODES_MAX),
        };
        if let Some(reason) = reason {
            return Err(self.engine.not_sent(self.shard_of_node(id), reason));
        }
        let ix = self.unused_link(profile, id);
        self.engine.links[ix].used_by = if self.is_replica(id) { Use::Replica } else { Use::Shared };
        self.profiles.set_link(profile, id, ix);
        Ok(ix)
    }

    /// Finds, or makes, the first profile's connections to all primaries of the present topology.
    pub(crate) fn connect_primaries(&mut self) {
        let topology = Arc::clone(&self.engine.topology);
        let primaries = topology.shards().iter().map(|shard| {
            // The first profile's connections have no limit.
            shard.primary.and_then(|id| self.link_in(ProfileId::FIRST, id).ok())
        });
        let primaries: Vec<_> = primaries.collect();
        self.profiles.set_primaries(primaries.into_iter());
    }

    /// From now on the session's requests go over the profile of `kind`, once all before them were answered.
    pub(crate) fn change_profile(&mut self, session: &mut Session, kind: Profile) {
        let profile = self.profiles.of_kind(kind, self.engine.now);
        if profile == session.profile {
            return;
        }
        self.profiles.leave(session.profile, self.engine.now);
        self.profiles.enter(profile);
        (session.profile, session.resp3) = (profile, kind.resp3);
        session.turn();
    }

    /// Whether `request` names a database that clients may not choose. Its node may have more of them; what is not even
    /// a number for a database, it refuses itself.
    pub(crate) fn lacks_database(&self, naming: Naming, request: &Request<'_>) -> bool {
        let databases = i64::from(self.settings.databases);
        let is_missing = |&database: &i64| database >= databases && i32::try_from(database).is_ok();
        naming.databases(request).iter().any(is_missing)
    }

    /// A connection of a profile that no client needs any more, and on which nothing is in flight.
    pub(crate) fn next_unused_link(&self, now: Instant) -> Option<LinkIx> {
        let is_quiet = |link: &Link| link.in_flight() == 0;
        self.profiles.unused(&self.limits, now).find(|&ix| is_quiet(&self.engine.links[ix]))
    }
}
