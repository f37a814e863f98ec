//! Requests of clients whose listener has other names for commands (`--rename`). Nodes and all other code see Redis's names.

use crate::core::Core;
use crate::features::Session;
use crate::outcome::Step;
use crate::policy::Named;
use crate::requests::route::Keys;
use crate::rewritten::Rewritten;
use command::Resolved;
use resp::Request;

impl Core {
    /// Runs a request whose name means something else at the client's listener than to Redis. `None` if it means the same.
    #[cold]
    pub(crate) fn carry_out_renamed(
        &mut self,
        session: &mut Session,
        request: &Request<'_>,
        keys: &mut Keys,
        reply: &mut Vec<u8>,
    ) -> Option<Step> {
        if !session.features.login.is_renaming || session.features.login.is_missing() {
            return None;
        }
        let policies = self.cx.settings.access.policies.clone();
        let named = policies.of(session.features.login.listener)?.names.meaning(request.arg(0));
        let name = match named {
            Named::AsWritten => return None,
            Named::As(name) => name,
            Named::Nothing => {
                return Some(self.cx.refuse_unresolved(session, Resolved::Unknown, request, reply));
            }
        };
        let words = std::iter::once(name).chain(request.args().skip(1));
        let rewritten = Rewritten::of(words, request.len());
        let request = rewritten.request();
        let (resolved, number) = command::resolve_numbered(&request);
        self.cx.stats.tally.take_back_call(self.cx.engine.asking);
        self.cx.stats.tally.count_call(number);
        self.cx.engine.asking = number;
        session.features.last = number;
        let Resolved::Command(command) = resolved else {
            return Some(self.cx.refuse_unresolved(session, resolved, &request, reply));
        };
        Some(self.carry_out_checked(session, command, &request, keys, reply))
    }
}
