//! Profiles: clients that have chosen another database, or RESP3, share links of their own.
//!
//! A profile has shared links, one to each shard, for one database, one protocol version and one user. The state that a
//! node remembers of a connection is the same for all its clients. Profile 0 (database 0, RESP2, our own user) always
//! exists. The links of other profiles are made by the first request that needs them. They are closed when the profile
//! had no client for a while.
//!
//! ```text
//!   session ─ profile 0 ──────────────────► link of the shard
//!           └ SELECT 3 ─► profile 5 ─ first request ─► greeting: SELECT 3, PING ─► another link
//! ```
//!
//! SELECT is answered here and costs no round trip. But later requests use other links than earlier ones. To keep the
//! client's order, they wait until all earlier requests are answered ([`Session::turn`]).
//!
//! - `HELLO` and `RESET` are answered here like `SELECT`, and cost no round trip either.
//! - The links of a profile are closed when it had no client for five seconds. A worker has at most 1,024 of them.
//!   Requests that need more are refused.
//! - Pinned and retired links, scans, scripts and requests to several shards keep to the profile of their request.
//! - Replies in RESP3 pass unchanged. Replies that are made or merged here use the protocol of the request.
//! - With `--auth=nodes`, a profile also has one user and one password (`passing.rs`, `identities.rs`): its links begin
//!   with that `AUTH`. A node checks a password over a link that carries nothing else. A profile without clients is
//!   forgotten, and the password with the last profile of a user. Its number then names no profile, so that no late
//!   request goes out as another user.
//! - A push on a link for replies closes the link. It might be meant as a reply, and then every client behind it would
//!   get the reply of another.

use crate::context::Context;
use crate::errors::{self, Lost};
use crate::event::Notice;
use crate::features::{Link, Session};
use crate::link::profile::{Profile, Who};
use crate::link::{LinkIx, ProfileId, Use};
use crate::login::attempts::is_denial;
use resp::integer::parse_i64;
use std::sync::Arc;
use stdx::Instant;
use topology::{NodeId, ShardId};

impl Context {
    /// The link to `shard` that the clients of `profile` share, if it takes a request now.
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

    /// Like [`Context::shared_link`], which handles the usual cases itself.
    #[inline(never)]
    fn link_of_profile(&mut self, profile: ProfileId, shard: ShardId) -> Result<LinkIx, Lost> {
        let id = self.primary_of(shard)?;
        let node = self.link_in(profile, id)?;
        self.admit_on(node).map(|()| node)
    }

    /// Notes that the node of `shard` has refused a connection of `profile` for this `reason`. The log reports it once.
    /// For the first profile, the log reports that the node is down.
    pub(crate) fn note_refused(&mut self, profile: ProfileId, shard: ShardId, reason: &str) {
        let Profile { database, resp3, who } = self.profiles.kind(profile);
        // Refusals of a client's own user are reported to that client only.
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

    /// The link to the node `id` that the clients of `profile` share. It is made if there is none.
    pub(crate) fn link_in(&mut self, profile: ProfileId, id: NodeId) -> Result<LinkIx, Lost> {
        match self.profiles.link(profile, id) {
            Some(node) => Ok(node),
            None => self.open_link(profile, id),
        }
    }

    /// Makes the link of `profile` to the node `id`.
    fn open_link(&mut self, profile: ProfileId, id: NodeId) -> Result<LinkIx, Lost> {
        let is_full = profile != ProfileId::FIRST && self.profiles.nodes >= self.limits.profile_nodes_max;
        let reason = match self.profiles.profile(profile).map(|profile| profile.kind.who) {
            None => Some(errors::NO_PROFILE),
            // These share one link. A client that cannot log in gets less information than one that can.
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

    /// Finds, or makes, the first profile's links to all primaries of the present topology.
    pub(crate) fn connect_primaries(&mut self) {
        let topology = Arc::clone(&self.engine.topology);
        let primaries = topology.shards().iter().map(|shard| {
            // The first profile's links have no limit.
            shard.primary.and_then(|id| self.link_in(ProfileId::FIRST, id).ok())
        });
        let primaries: Vec<_> = primaries.collect();
        self.profiles.set_primaries(primaries.into_iter());
    }

    /// Moves the session to the profile of `kind`. Later requests wait until all earlier ones are answered.
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

    /// A link of a profile that no client needs any more, without requests in flight.
    pub(crate) fn next_unused_link(&self, now: Instant) -> Option<LinkIx> {
        let is_quiet = |link: &Link| link.in_flight() == 0;
        self.profiles.unused(&self.limits, now).find(|&ix| is_quiet(&self.engine.links[ix]))
    }
}

/// The database with the number `index`.
pub(crate) fn database(cx: &Context, index: &[u8]) -> Result<u16, &'static str> {
    let index = parse_i64(index).ok_or(errors::NOT_AN_INTEGER)?;
    i32::try_from(index).map_err(|_| errors::NOT_AN_INT)?;
    let database = u16::try_from(index).ok().filter(|&database| database < cx.settings.databases);
    database.ok_or(errors::DB_OUT_OF_RANGE)
}
