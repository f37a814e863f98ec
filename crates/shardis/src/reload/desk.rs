//! The way by which other threads have the control thread reload the configuration.
//!
//! ```text
//!   admin listener ─► Desk::ask ──┐                                     ┌─► HTTP
//!                                 ├─► orders ─► control thread ─► answer ┤
//!   PROXY RELOAD ─► Desk::give ───┘                                     └─► mail to the worker
//! ```

use crate::routed::Entrances;
use admin::Configuration;
use mio::Waker;
use proxy::{ReloadOrder, ReloadOutcome};
use std::sync::{Arc, PoisonError, RwLock, mpsc};
use std::time::Duration;

/// Orders that wait for the control thread. Others are refused.
const ORDERS_MAX: usize = 16;
/// Time in which an order of the admin listener is answered. It is carried out all the same.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);

/// An order, and the way back of its outcome.
pub(crate) struct Order {
    pub(crate) order: ReloadOrder,
    pub(crate) answer: Answer,
}

/// The receiver of an outcome. It must not wait.
type Answer = Box<dyn FnOnce(ReloadOutcome) + Send>;

/// The place at which the control thread takes orders, and shows its configurations.
#[derive(Clone)]
pub(crate) struct Desk {
    orders: mpsc::SyncSender<Order>,
    waker: Arc<Waker>,
    configurations: Arc<RwLock<Vec<Configuration>>>,
    entrances: Entrances,
}

impl Desk {
    /// A desk at which nobody sits, and its orders. `waker` wakes the control thread.
    pub(crate) fn new(waker: &Arc<Waker>) -> (Desk, mpsc::Receiver<Order>) {
        let (sender, orders) = mpsc::sync_channel(ORDERS_MAX);
        let (waker, entrances) = (Arc::clone(waker), Entrances::default());
        (Desk { orders: sender, waker, configurations: Arc::default(), entrances }, orders)
    }

    /// The same with the ways into pools.
    pub(crate) fn with_entrances(self, entrances: Entrances) -> Desk {
        Desk { entrances, ..self }
    }

    /// The ways into pools, for routes of others.
    pub(crate) fn entrances(&self) -> &Entrances {
        &self.entrances
    }

    /// The waker of the control thread.
    pub(crate) fn waker(&self) -> &Arc<Waker> {
        &self.waker
    }

    /// Has an order carried out. If too many wait, `answer` gets that at once.
    pub(crate) fn give(&self, order: ReloadOrder, answer: impl FnOnce(ReloadOutcome) + Send + 'static) {
        use mpsc::TrySendError::{Disconnected, Full};
        match self.orders.try_send(Order { order, answer: Box::new(answer) }) {
            Ok(()) => {
                // Without a wake, the control thread looks at its orders ten times a second.
                let _ = self.waker.wake();
            }
            Err(Full(order) | Disconnected(order)) => (order.answer)(ReloadOutcome::Late),
        }
    }

    /// Has an order carried out, and waits for the outcome up to a limit.
    pub(crate) fn ask(&self, order: ReloadOrder) -> ReloadOutcome {
        let (sender, outcome) = mpsc::channel();
        self.give(order, move |outcome| {
            // Nobody may wait any more.
            let _ = sender.send(outcome);
        });
        outcome.recv_timeout(ANSWER_WITHIN).unwrap_or(ReloadOutcome::Late)
    }

    /// The configurations that were shown last.
    pub(crate) fn configurations(&self) -> Vec<Configuration> {
        self.configurations.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Shows these configurations from now on.
    pub(crate) fn show(&self, configurations: Vec<Configuration>) {
        *self.configurations.write().unwrap_or_else(PoisonError::into_inner) = configurations;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn desk() -> (Desk, mpsc::Receiver<Order>) {
        let poll = mio::Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), mio::Token(0)).expect("a waker");
        Desk::new(&Arc::new(waker))
    }

    #[test]
    fn orders_beyond_the_limit_are_answered_at_once() {
        let (desk, orders) = desk();
        let (sender, outcomes) = mpsc::channel();
        for _ in 0..=ORDERS_MAX {
            let sender = sender.clone();
            desk.give(ReloadOrder::Plan, move |outcome| sender.send(outcome).expect("it is awaited"));
        }
        assert_eq!(outcomes.try_iter().collect::<Vec<_>>(), [ReloadOutcome::Late]);
        assert_eq!(orders.try_iter().count(), ORDERS_MAX);
    }

    #[test]
    fn order_is_late_if_the_control_thread_has_ended() {
        let (desk, orders) = desk();
        drop(orders);
        assert_eq!(desk.ask(ReloadOrder::Follow), ReloadOutcome::Late);
    }
}
