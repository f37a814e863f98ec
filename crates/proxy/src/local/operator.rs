//! PROXY: what an operator asks of shardis itself. Only users with the ACL category `@admin` may ask.

pub(crate) mod explain;
mod explained;
pub(crate) mod overview;
pub(crate) mod reloading;

use crate::core::Core;
use crate::errors;
use crate::features::Session;
use crate::hot::report::{self, HotKind, SHOWN_BY_DEFAULT};
use crate::local::operator::explain::Rules;
use crate::login;
use crate::login::job::Task;
use command::ProxyQuestion;
use resp::integer::parse_i64;
use resp::request::Span;
use resp::{Request, encode};

impl Core {
    /// Answers `question`.
    pub(crate) fn answer_operator(
        &mut self,
        session: &mut Session,
        question: ProxyQuestion,
        request: &Request<'_>,
        reply: &mut Vec<u8>,
    ) {
        match question {
            ProxyQuestion::Explain => {
                let args: Vec<Span> = (2..request.len()).map(|index| request.span(index)).collect();
                let rules = Rules::of(&self.cx, session.features.login.listener);
                explain::explain(&rules, &Request::new(request.bytes, &args)).write(session.resp3, reply);
            }
            ProxyQuestion::Topology => {
                overview::write_topology(&self.cx.engine.topology, session.resp3, reply)
            }
            ProxyQuestion::Info => {
                encode::verbatim(reply, overview::info(&self.cx).as_bytes(), session.resp3);
            }
            ProxyQuestion::Slowlog => {
                if !self.cx.board.slow.answer(request, session.resp3, reply) {
                    errors::write(reply, errors::PROXY_SLOWLOG);
                }
            }
            ProxyQuestion::HotKeys => self.answer_hot(session, HotKind::Keys, request, reply),
            ProxyQuestion::BigKeys => self.answer_hot(session, HotKind::Sizes, request, reply),
            ProxyQuestion::HotSlots => self.answer_hot(session, HotKind::Slots, request, reply),
            ProxyQuestion::UpdateSlotMap if self.cx.engine.topology.is_discovered() => {
                self.cx.wish(None);
                encode::simple(reply, b"OK");
            }
            ProxyQuestion::UpdateSlotMap => errors::write(reply, errors::NOT_DISCOVERED),
            ProxyQuestion::Reload => match reloading::order_of(request) {
                Some(order) => login::send_job(&mut self.cx, session, Task::Reload(order)),
                None => errors::write(reply, errors::PROXY_RELOAD),
            },
        }
    }

    /// Answers HOTKEYS and its relatives.
    fn answer_hot(&self, session: &Session, kind: HotKind, request: &Request<'_>, reply: &mut Vec<u8>) {
        let count = request.get(2).map_or(Some(SHOWN_BY_DEFAULT as i64), parse_i64);
        let Some(count) = count.filter(|_| request.len() <= 3) else {
            return errors::write(reply, errors::PROXY_COUNT);
        };
        let topology = &self.cx.engine.topology;
        let shard_of = |key: &[u8]| match kind {
            HotKind::Slots => {
                parse_i64(key).map_or(topology.keyless(), |slot| topology.shard_at(slot as u16))
            }
            HotKind::Keys | HotKind::Sizes => topology.shard_of(key),
        };
        let list = self.cx.board.hot.top(kind, usize::try_from(count).unwrap_or(usize::MAX));
        report::write(&list, kind, |key| topology.shard(shard_of(key)).name.clone(), session.resp3, reply);
    }
}
