//! What the links of a pool have in common, and the pools.

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
pub(crate) const NO_KIND: Profile =
    Profile { database: 0, resp3: false, who: Who::Client(Id { index: u32::MAX, generation: u32::MAX }) };

/// More databases cannot be had: the profiles of all must have a number.
pub(crate) const DATABASES_MAX: u16 = 16 * 1024;

/// HELLO 3, SELECT, READONLY and PING take less.
pub(crate) const BEHIND_LOGIN_BYTES_MAX: usize = 128;

/// What a connection for `kind` begins with, of whom `credentials` tell who it is. A node of a cluster `is_told` with it that what comes may be read though it is a replica.
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
pub(crate) struct ProfileLinks {
    pub generation: u16,
    pub kind: Profile,
    pub greeting: Greeting,
    /// By node: the link. Empty as long as there is none.
    pub links: Vec<Option<LinkIx>>,
    /// How many clients are in it.
    pub clients: usize,
    /// When the last of them went.
    pub left_at: Instant,
    /// Shards whose node has refused its connections, and has taken none since.
    pub refused_by: BTreeSet<ShardId>,
}

/// All profiles of a worker.
#[derive(Debug)]
pub(crate) struct Profiles {
    pub profiles: Vec<ProfileLinks>,
    pub by_kind: HashMap<Profile, ProfileId>,
    /// Places of profiles that are gone.
    pub free: Vec<u16>,
    /// By shard: the first profile's connection to its primary.
    pub primaries: Vec<Option<LinkIx>>,
    pub credentials: Credentials,
    /// Where the nodes decide who clients are, those that are in.
    pub identities: Identities,
    /// How connections end their greeting that are nobody's own.
    pub end: End,
    /// How many connections there are of all but the first.
    pub nodes: usize,
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
    pub(crate) fn greeting_for(&self, kind: Profile, is_told: bool) -> Option<Greeting> {
        Some(match kind.who {
            Who::Pool => greeting_of(kind, &self.credentials, self.end, is_told),
            Who::Nobody => greeting_of(kind, &Credentials::default(), End::HelloOfNobody, is_told),
            Who::Client(id) => greeting_of(kind, self.identities.credentials(id)?, End::Hello, is_told),
        })
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

    pub(crate) fn set_link(&mut self, profile: ProfileId, id: NodeId, ix: LinkIx) {
        let Some(place) = self.profile_mut(profile) else { return };
        let links = &mut place.links;
        if links.len() <= id.0 as usize {
            links.resize(id.0 as usize + 1, None);
        }
        links[id.0 as usize] = Some(ix);
        self.nodes += usize::from(profile != ProfileId::FIRST);
    }

    /// The primaries of all shards are reached over these connections of the first profile, as far as there are any.
    pub(crate) fn set_primaries(&mut self, nodes: impl Iterator<Item = Option<LinkIx>>) {
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

    pub(crate) fn enter(&mut self, profile: ProfileId) {
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
