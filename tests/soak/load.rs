//! Requests of clients meanwhile, each kind with a check of its own.

use super::channels::Channels;
use super::pairs::Pairs;
use super::queues::Queues;
use crate::harness::World;
use crate::harness::ledger::Ledger;
use crate::harness::poll_until;
use crate::harness::stamp::StampedClients;
use std::fmt;
use std::ops::AddAssign;

/// Clients of all kinds.
pub(super) struct Load {
    pub(super) ledger: Ledger,
    stamped: StampedClients,
    pairs: Pairs,
    queues: Queues,
    channels: Channels,
}

impl Load {
    pub(super) fn start(world: &World) -> Load {
        Load {
            ledger: Ledger::start(world),
            stamped: StampedClients::start(world.proxy.port, 3, 16),
            pairs: Pairs::start(world.proxy.port),
            queues: Queues::start(world),
            channels: Channels::start(world.proxy.port),
        }
    }

    /// Waits until clients of each kind got on.
    pub(super) fn wait_for_more(&self) {
        let counters = [self.pairs.done(), self.queues.done(), self.channels.done()];
        let before = counters.each_ref().map(|counter| counter());
        let answered = self.stamped.tally.answered();
        self.ledger.wait_for_more(200);
        poll_until("stamped values", || (self.stamped.tally.answered() >= answered + 500).then_some(()));
        for (what, (counter, before)) in
            ["transactions", "elements popped", "messages"].iter().zip(counters.iter().zip(before))
        {
            poll_until(what, || (counter() >= before + 10).then_some(()));
        }
    }

    /// Ends all clients and judges their replies.
    pub(super) fn finish(self, world: &World) -> Totals {
        let writes = self.ledger.finish(world);
        let tally = self.stamped.finish();
        Totals {
            answered: tally.answered() + writes.acknowledged,
            not_sent: tally.refused() + writes.not_sent,
            unknown: tally.unknown() + writes.unknown,
            transactions: self.pairs.finish(),
            popped: self.queues.finish(world),
            messages: self.channels.finish(),
        }
    }
}

/// Replies to clients in all rounds.
#[derive(Default)]
pub(super) struct Totals {
    answered: u64,
    not_sent: u64,
    unknown: u64,
    transactions: u64,
    popped: u64,
    messages: u64,
}

impl AddAssign for Totals {
    fn add_assign(&mut self, other: Totals) {
        self.answered += other.answered;
        self.not_sent += other.not_sent;
        self.unknown += other.unknown;
        self.transactions += other.transactions;
        self.popped += other.popped;
        self.messages += other.messages;
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Totals { answered, not_sent, unknown, transactions, popped, messages } = self;
        write!(
            out,
            "answered={answered} not_sent={not_sent} unknown={unknown} transactions={transactions} popped={popped} \
             messages={messages}"
        )
    }
}
