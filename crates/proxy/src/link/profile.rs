//! Connection profiles, and the links of each.

use crate::limits::{Authority, Limits};
use crate::link::greeting::{End, Greeting};
use crate::link::{LinkIx, ProfileId};
use crate::login::credentials::Credentials;
use crate::login::identities::Identities;
use resp::encode;
use std::collections::{BTreeSet, HashMap};
use stdx::{Id, Instant};
use topology::{NodeId, ShardId};
use zeroize::Zeroizing;

/// The state that a node remembers of a connection and that all its users share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Profile {
    /// The database, below [`DATABASES_MAX`].
    pub database: u16,
    /// Whether replies are in RESP3.
    pub resp3: bool,
    /// The user for whom the nodes take the requests.
    pub who: Who,
}

/// The user of a connection at the nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Who {
    /// The user in the pool's credentials. Without credentials, the nodes' default user, which clients that have not
    /// logged in may use too.
    #[default]
    Pool,
    /// Nobody, or the user of the last login: the connection carries only AUTH.
    Nobody,
    /// A client's own user: see [`Identities`].
    Client(Id),
}

impl Profile {
    /// The same for database 0 and RESP2.
    pub(crate) fn plain(self) -> Profile {
        Profile { who: self.who, ..Profile::default() }
    }
}

/// The profile of [`ProfileId::NONE`]. No client ever has this number.
pub(crate) const NO_KIND: Profile =
    Profile { database: 0, resp3: false, who: Who::Client(Id { index: u32::MAX, generation: u32::MAX }) };

/// The limit of databases: each needs a profile number.
pub(crate) const DATABASES_MAX: u16 = 16 * 1024;

/// HELLO 3, SELECT, READONLY and PING take less.
pub(crate) const BEHIND_LOGIN_BYTES_MAX: usize = 128;

/// The greeting of a connection for `kind`, with the login of `credentials`. If `is_told`, the greeting tells a replica
/// of a cluster that reads are allowed.
pub(crate) fn greeting_of(kind: Profile, credentials: &Credentials, end: End, is_told: bool) -> Greeting {
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
    // The login comes first: nodes answer no other request before it.
    let login = credentials.request().unwrap_or_default();
    let mut bytes = Zeroizing::new(Vec::with_capacity(login.len() + BEHIND_LOGIN_BYTES_MAX));
    bytes.extend_from_slice(login);
    requests.iter().for_each(|request| encode::request(&mut bytes, request));
    let requests = requests.len() + usize::from(credentials.request().is_some());
    Greeting::new(bytes, requests, end)
}

/// The greeting of our own connections without a password.
#[cfg(test)]
pub(crate) fn greeting_of_pool() -> Greeting {
    greeting_of(Profile::default(), &Credentials::default(), End::Ping, false)
}

/// One profile.
#[derive(Debug)]
pub(crate) struct ProfileLinks {
    pub generation: u16,
    pub kind: Profile,
    pub greeting: Greeting,
    /// Links by node. Empty as long as there is none.
    pub links: Vec<Option<LinkIx>>,
    /// Number of its clients.
    pub clients: usize,
    /// The instant at which the last client left.
    pub left_at: Instant,
    /// Shards whose node has refused its connections and has accepted none since.
    pub refused_by: BTreeSet<ShardId>,
}

/// All profiles of a worker.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub profiles: Vec<ProfileLinks>,
    pub by_kind: HashMap<Profile, ProfileId>,
    /// Free indexes.
    pub free: Vec<u16>,
    /// By shard, the first profile's link to the primary.
    pub primaries: Vec<Option<LinkIx>>,
    pub credentials: Credentials,
    /// Whether the credentials have changed. Then each connection begins with the present greeting.
    pub is_renewed: bool,
    /// The identities of clients, if the nodes decide about them.
    pub identities: Identities,
    /// The end of the greeting on our own connections.
    pub end: End,
    /// Number of links of all profiles but the first.
    pub nodes: usize,
}

impl Profiles {
    /// Only the first profile.
    pub(crate) fn new(credentials: Credentials, authority: Authority) -> Profiles {
        let (profiles, by_kind, free, primaries) = (Vec::new(), HashMap::new(), Vec::new(), Vec::new());
        let end = match authority {
            Authority::Nodes if credentials.request().is_none() => End::PingOfAnybody,
            Authority::Nodes | Authority::Proxy => End::Ping,
        };
        let identities = Identities::default();
        let (is_renewed, nodes) = (false, 0);
        let mut profiles =
            Profiles { profiles, by_kind, free, primaries, credentials, is_renewed, identities, end, nodes };
        profiles.of_kind(Profile::default(), Instant::ZERO);
        profiles
    }

    /// The profile of `kind`; [`ProfileId::NONE`] if there cannot be one.
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

    /// The greeting of connections for `kind`; `None` if its identity no longer exists.
    pub(crate) fn greeting_for(&self, kind: Profile, is_told: bool) -> Option<Greeting> {
        Some(match kind.who {
            Who::Pool => greeting_of(kind, &self.credentials, self.end, is_told),
            Who::Nobody => greeting_of(kind, &Credentials::default(), End::HelloOfNobody, is_told),
            Who::Client(id) => greeting_of(kind, self.identities.credentials(id)?, End::Hello, is_told),
        })
    }

    /// Has the connections to come begin with `credentials`. There are some exactly if there were before.
    pub(crate) fn renew(&mut self, credentials: Credentials) {
        (self.credentials, self.is_renewed) = (credentials, true);
        let of_pool = self.by_kind.iter().filter(|(kind, _)| kind.who == Who::Pool);
        let ids: Vec<(Profile, ProfileId)> = of_pool.map(|(kind, id)| (*kind, *id)).collect();
        for (kind, id) in ids {
            let greeting = self.greeting_for(kind, false);
            if let (Some(greeting), Some(profile)) = (greeting, self.profile_mut(id)) {
                profile.greeting = greeting;
            }
        }
    }

    #[inline]
    pub(crate) fn profile(&self, profile: ProfileId) -> Option<&ProfileLinks> {
        self.profiles.get(usize::from(profile.index)).filter(|place| place.generation == profile.generation)
    }

    #[inline]
    pub(crate) fn profile_mut(&mut self, profile: ProfileId) -> Option<&mut ProfileLinks> {
        self.profiles
            .get_mut(usize::from(profile.index))
            .filter(|place| place.generation == profile.generation)
    }

    /// The database, protocol and user of the profile.
    pub(crate) fn kind(&self, profile: ProfileId) -> Profile {
        self.profile(profile).map_or(NO_KIND, |profile| profile.kind)
    }

    /// The greeting of its connections.
    pub(crate) fn greeting(&self, profile: ProfileId) -> Greeting {
        self.profile(profile).map_or_else(Greeting::never, |profile| profile.greeting.clone())
    }

    /// The greeting of its connections to replicas of a cluster.
    pub(crate) fn greeting_of_replica(&self, profile: ProfileId) -> Greeting {
        self.greeting_for(self.kind(profile), true).unwrap_or_else(Greeting::never)
    }

    /// The first profile's link to the primary of `shard`, if it has one.
    #[inline]
    pub(crate) fn primary(&self, shard: ShardId) -> Option<LinkIx> {
        self.primaries[shard.0 as usize]
    }

    /// The link of `profile` to the node `id`, if there is one.
    pub(crate) fn link(&self, profile: ProfileId, id: NodeId) -> Option<LinkIx> {
        *self.profile(profile)?.links.get(id.0 as usize)?
    }

    pub(crate) fn set_link(&mut self, profile: ProfileId, id: NodeId, ix: LinkIx) {
        let Some(place) = self.profile_mut(profile) else { return };
        let links = &mut place.links;
        if links.len() <= id.0 as usize {
            links.resize(id.0 as usize + 1, None);
        }
        links[id.0 as usize] = Some(ix);
        self.nodes += usize::from(profile != ProfileId::FIRST);
    }

    /// Sets the first profile's links to the primaries of all shards, as far as they exist.
    pub(crate) fn set_primaries(&mut self, nodes: impl Iterator<Item = Option<LinkIx>>) {
        self.primaries.clear();
        self.primaries.extend(nodes);
    }

    /// Forgets link `ix` of `profile` to the node `id`, if it is one of these.
    pub(crate) fn forget(&mut self, profile: ProfileId, id: NodeId, ix: LinkIx) {
        if self.link(profile, id) == Some(ix)
            && let Some(place) = self.profile_mut(profile)
        {
            place.links[id.0 as usize] = None;
            self.nodes -= usize::from(profile != ProfileId::FIRST);
        }
    }

    /// Notes that the node of `shard` has accepted a connection of `profile`.
    pub(crate) fn note_taken(&mut self, profile: ProfileId, shard: ShardId) {
        if let Some(profile) = self.profile_mut(profile) {
            profile.refused_by.remove(&shard);
        }
    }

    /// Removes a client from `profile`.
    pub(crate) fn leave(&mut self, profile: ProfileId, now: Instant) {
        if profile != ProfileId::FIRST
            && let Some(profile) = self.profile_mut(profile)
        {
            profile.clients -= 1;
            profile.left_at = now;
        }
    }

    /// Notes that the links of `profile`, which has no client, were used.
    pub(crate) fn touch(&mut self, profile: ProfileId, now: Instant) {
        if let Some(profile) = self.profile_mut(profile) {
            profile.left_at = now;
        }
    }

    pub(crate) fn enter(&mut self, profile: ProfileId) {
        if profile != ProfileId::FIRST
            && let Some(profile) = self.profile_mut(profile)
        {
            profile.clients += 1;
        }
    }

    /// Clients' own profiles that had no client for `profile_idle`.
    pub(crate) fn deserted(&self, limits: &Limits, now: Instant) -> Vec<ProfileId> {
        let is_deserted = |profile: &ProfileLinks| {
            let is_own = matches!(profile.kind.who, Who::Client(_));
            is_own && profile.clients == 0 && now.since(profile.left_at) >= limits.profile_idle
        };
        let profiles = (0..).zip(&self.profiles).filter(|(_, profile)| is_deserted(profile));
        profiles.map(|(index, profile)| ProfileId { index, generation: profile.generation }).collect()
    }

    /// Removes a client's own profile, which has no links. Its identity is forgotten with its last profile.
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

    /// Links of profiles that had no client for `profile_idle`.
    pub(crate) fn unused<'a>(
        &'a self,
        limits: &'a Limits,
        now: Instant,
    ) -> impl Iterator<Item = LinkIx> + 'a {
        let empty = move |profile: &&ProfileLinks| {
            profile.clients == 0 && now.since(profile.left_at) >= limits.profile_idle
        };
        let nodes = self.profiles.iter().skip(1).filter(empty).flat_map(|profile| &profile.links);
        nodes.copied().flatten()
    }
}
