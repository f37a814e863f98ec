//! Time of the next question: after a partly random pause, so that many proxies do not ask at the same time. It is earlier if
//! there is a wish to know.

use std::time::Duration;
use stdx::Instant;
use stdx::prng::Prng;

/// Time of the next question.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    /// When the last was begun.
    asked_at: Instant,
    /// Pause from then on.
    pause: Duration,
    is_wished: bool,
}

/// Length of a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    /// Pause while a chosen replica has not obeyed yet: writes that the old primary accepts in the meantime are lost.
    Quick,
    /// Pause while a primary is down, or is being replaced, or an answer is late.
    Short,
    /// While something is wrong that does not seem to end.
    Long,
    /// While all is well: about this long.
    Usual(Duration),
}

/// The shortest pause between two looks that only wishes ask for. Redirects arrive by the thousand while slots move, and each
/// was followed already.
const WISH_PAUSE: Duration = Duration::from_millis(100);
/// The pause between two looks while a primary is down; half of it is random. It is short against the 250 ms within which
/// requests must flow again after a promotion. Twenty questions a second are no load for a node.
const SHORT_PAUSE: Duration = Duration::from_millis(50);
/// The pause between two looks at a chosen replica; half of it is random. The time of such looks is limited for a replica that
/// is frozen or gone.
const QUICK_PAUSE: Duration = Duration::from_millis(5);
/// Time from the beginning of a failover: the vote takes a second or two, and then the order follows within some tenths of one.
const QUICK_FOR: Duration = Duration::from_secs(5);
/// Time after which a failover is over or will not come: the usual patience of nodes is 15 seconds, and few have a minute.
const SHORT_FOR: Duration = Duration::from_secs(120);
/// The pause after that.
pub(super) const LONG_PAUSE: Duration = Duration::from_millis(500);

impl Rest {
    /// The pause while a replica that was chosen in a failover from `since` on does not obey.
    pub(super) fn in_failover(since: Instant, now: Instant) -> Rest {
        if now.since(since) < QUICK_FOR {
            return Rest::Quick;
        }
        Rest::in_trouble(Some(since), now).unwrap_or(Rest::Short)
    }

    /// The pause while there is a fault since `since`, if any.
    pub(super) fn in_trouble(since: Option<Instant>, now: Instant) -> Option<Rest> {
        let is_lasting = now.since(since?) >= SHORT_FOR;
        Some(if is_lasting { Rest::Long } else { Rest::Short })
    }
}

impl Schedule {
    /// A look before the pause is over would be good.
    pub(super) fn wish(&mut self) {
        self.is_wished = true;
    }

    /// Notes that a question was begun, which ends the wish.
    pub(super) fn begin(&mut self, now: Instant) {
        (self.asked_at, self.is_wished) = (now, false);
    }

    /// When the last question was begun.
    pub(super) fn asked_at(&self) -> Instant {
        self.asked_at
    }

    /// Time of the next question.
    pub(super) fn due(&self) -> Instant {
        let pause = if self.is_wished { self.pause.min(WISH_PAUSE) } else { self.pause };
        self.asked_at + pause
    }

    /// Decides how long to wait after the last question.
    pub(super) fn rest(&mut self, rest: Rest, prng: &mut Prng) {
        let (least, chance) = match rest {
            Rest::Quick => (QUICK_PAUSE, QUICK_PAUSE),
            Rest::Short => (SHORT_PAUSE, SHORT_PAUSE),
            Rest::Long => (LONG_PAUSE, LONG_PAUSE),
            Rest::Usual(period) => (period - period / 10, period / 5),
        };
        self.pause = least + Duration::from_nanos(prng.below(chance.as_nanos() as u64));
    }
}
