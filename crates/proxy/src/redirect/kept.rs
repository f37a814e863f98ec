//! Facts about a kept request that is sent again ([`crate::redirect`]): the slot or shard of its keys, and the time
//! that it may still wait.

use crate::context::Context;
use crate::redirect::declined::{Aim, Effect};
use crate::requests::learn::Lookup;
use crate::scripts::known::Named;
use command::{Carry, Command, Resolved};
use resp::Request;
use resp::request::{Scanned, Scanner};
use std::borrow::Cow;
use stdx::Instant;
use topology::ShardId;

impl Context {
    /// The slot or shard of `request`. Without keys, the request belongs to all of `shard`.
    pub(crate) fn aim_of(&self, request: &[u8], shard: ShardId) -> Aim {
        let first = self.look_into(request, |request, command| {
            let mut positions = Vec::new();
            // A request whose keys cannot be found has none. Any node of a cluster takes PUBLISH.
            let first = command.keys(request, &mut positions).ok().and_then(|()| positions.first().copied());
            first.map(|at| self.aim_at(request.arg(at)))
        });
        first.flatten().unwrap_or(Aim::Shard(shard))
    }

    /// The effect of `request` on its keys.
    pub(crate) fn effect_of(&self, request: &[u8]) -> Effect {
        let effect = self.look_into(request, |_, command| match command.may_write() {
            true => Effect::Writes,
            false => Effect::Reads,
        });
        effect.unwrap_or(Effect::Unknown)
    }

    /// `request` with the rest of its time to wait; it is late from `deadline` on. A learned command keeps its full
    /// time: the place of its timeout is unknown.
    pub(crate) fn shortened<'r>(&self, request: &'r [u8], deadline: Instant) -> Cow<'r, [u8]> {
        if deadline == Instant::NEVER {
            return request.into();
        }
        // The deadline is later than the end of the wait by the request timeout.
        let left = (deadline - self.engine.limits.request_timeout).since(self.engine.now);
        let shorter = self.look_into(request, |request, command| match command.carry {
            Carry::Blocking(wait) => {
                let mut bytes = Vec::new();
                wait.shorten(request, left, &mut bytes);
                Some(bytes)
            }
            _ => None,
        });
        shorter.flatten().map_or(request.into(), Cow::Owned)
    }

    /// The script or function that `request` runs without bringing its text.
    pub(crate) fn named_in(&self, request: &[u8]) -> Option<Named> {
        let named = self.look_into(request, |request, command| match command.carry {
            Carry::Script(script) => Named::in_request(script, request),
            _ => None,
        });
        named.flatten()
    }

    /// Applies `look` to the request and its command. `None` if the command is unknown.
    fn look_into<T>(&self, bytes: &[u8], look: impl FnOnce(&Request<'_>, &Command) -> T) -> Option<T> {
        let (mut args, mut inline) = (Vec::new(), Vec::new());
        let scanned = Scanner::default().scan(bytes, &self.engine.limits.request, &mut args, &mut inline);
        let Ok(Scanned::Request { .. }) = scanned else { return None };
        let request = Request::new(bytes, &args);
        match command::resolve(&request) {
            Resolved::Command(command) => Some(look(&request, command)),
            Resolved::Unknown => match self.parsing.learner.look_up(request.arg(0), self.engine.now) {
                Lookup::Known(learned) => match learned.resolve(&request) {
                    Resolved::Command(command) => Some(look(&request, command)),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}
