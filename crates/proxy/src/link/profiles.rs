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

use crate::context::Context;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::features::{Link, Session};
use crate::link::profile::{Profile, Who};
use crate::link::{LinkIx, ProfileId, Use};
use crate::login::attempts::is_denial;
use command::Naming;
use resp::Request;
use resp::integer::parse_i64;
use std::sync::Arc;
use stdx::Instant;
use topology::{NodeId, ShardId};

impl Context {
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

    /// As [`Context::shared_link`], which does by itself what is usual.
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
        let is_own = matches!(who, Who::Client(_)) && is_denial(reason);
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

/// The database that clients call `index`.
pub(crate) fn database(cx: &Context, index: &[u8]) -> Result<u16, &'static str> {
    let index = parse_i64(index).ok_or(errors::NOT_AN_INTEGER)?;
    i32::try_from(index).map_err(|_| errors::NOT_AN_INT)?;
    let database = u16::try_from(index).ok().filter(|&database| database < cx.settings.databases);
    database.ok_or(errors::DB_OUT_OF_RANGE)
}
