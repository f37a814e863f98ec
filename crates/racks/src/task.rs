//! A request of a client on its way to copies, and the decision about its reply.

use crate::class::{Key, Work};
use crate::level::{Level, RackSet, quorum};
use crate::settings::Settings;
use resp::reply;
use stdx::{Id, Instant};

/// A copy's part in a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// None: the copy was not asked.
    Unasked,
    /// Its reply is awaited.
    Waiting,
    /// Its reply.
    Replied(Vec<u8>),
    /// Lost: the copy failed, or had missed too much to be asked.
    Failed,
}

/// Codes of errors by which a node says something about itself: another copy may carry out the request.
const OWN_FAULTS: [&[u8]; 8] =
    [b"-LOADING", b"-OOM", b"-READONLY", b"-MISCONF", b"-MASTERDOWN", b"-NOREPLICAS", b"-NOAUTH", b"-NOPERM"];

/// The place in a client's order that a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub client: Id,
    pub number: u64,
}

/// A request on its way.
#[derive(Debug)]
pub(crate) struct Request {
    pub work: Work,
    /// Where the reply goes; `None` once it went.
    pub place: Option<Place>,
    pub is_resp3: bool,
    pub level: Level,
    pub parts: Vec<Part>,
    /// The copies that were up when it began: only their replies count.
    pub counted: RackSet,
    /// The copies that have a hint of it in case they do not answer.
    pub insured: RackSet,
    /// When its level was met.
    pub met_at: Option<Instant>,
    /// The batch of the journal that has to be durable before the reply.
    pub batch: u64,
    /// Of an effect: the copy that carries it out, and the number of keys that each other copy lacks.
    pub effect: Option<Effect>,
}

/// An effect that is copied.
#[derive(Debug)]
pub(crate) struct Effect {
    pub source: usize,
    pub keys_left: Vec<usize>,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// More replies are needed.
    Pending,
    /// The level is met by this reply.
    Met(Vec<u8>),
    /// The level cannot be met any more.
    Missed,
}

impl Request {
    pub(crate) fn new(work: Work, place: Place, is_resp3: bool, level: Level, racks: usize) -> Request {
        Request {
            work,
            place: Some(place),
            is_resp3,
            level,
            parts: vec![Part::Unasked; racks],
            counted: RackSet::default(),
            insured: RackSet::default(),
            met_at: None,
            batch: 0,
            effect: None,
        }
    }

    /// The copies whose replies are awaited.
    pub(crate) fn waiting(&self) -> RackSet {
        (0..self.parts.len()).filter(|&rack| self.parts[rack] == Part::Waiting).collect()
    }

    /// The reply of the copy in `rack`, if it counts. An error about the node alone counts if no copy has done better, and none
    /// will.
    fn reply(&self, rack: usize) -> Option<&[u8]> {
        match &self.parts[rack] {
            Part::Replied(reply) if self.counted.contains(rack) => {
                (!self.is_own_fault(reply) || self.all_fail()).then_some(reply)
            }
            _ => None,
        }
    }

    fn is_own_fault(&self, replies: &[u8]) -> bool {
        let is_fault = |reply: &[u8]| OWN_FAULTS.iter().any(|code| reply.starts_with(code));
        match self.work.replies {
            1 => is_fault(replies),
            count => reply::elements_left(replies, count as usize).any(is_fault),
        }
    }

    /// Whether each copy that counts has answered with an error about itself, or is lost.
    fn all_fail(&self) -> bool {
        self.counted.iter().all(|rack| match &self.parts[rack] {
            Part::Waiting => false,
            Part::Replied(reply) => self.is_own_fault(reply),
            Part::Unasked | Part::Failed => true,
        })
    }

    /// The copies that did not carry out a write, for a reason of their own, while another copy did.
    pub(crate) fn faulty(&self) -> RackSet {
        let has_fault = |rack: &usize| match &self.parts[*rack] {
            Part::Replied(reply) => self.is_own_fault(reply),
            _ => false,
        };
        let is_good = |part: &Part| matches!(part, Part::Replied(reply) if !self.is_own_fault(reply));
        match self.work.writes() && self.parts.iter().any(is_good) {
            true => (0..self.parts.len()).filter(has_fault).collect(),
            false => RackSet::default(),
        }
    }

    /// Decides, by the replies that are there.
    pub(crate) fn judge(&self, settings: &Settings) -> Verdict {
        if self.level == Level::One {
            return self.judge_one(settings);
        }
        let mut met = Vec::new();
        for centre in settings.centres(self.level) {
            match self.judge_centre(centre, settings) {
                Verdict::Met(reply) => met.push(reply),
                other => return other,
            }
        }
        // The local data centre is the first.
        met.into_iter().next().map_or(Verdict::Missed, Verdict::Met)
    }

    /// The first copy by preference that is not lost decides.
    fn judge_one(&self, settings: &Settings) -> Verdict {
        for rack in settings.preference() {
            match &self.parts[rack] {
                Part::Waiting if self.counted.contains(rack) => return Verdict::Pending,
                _ => {
                    if let Some(reply) = self.reply(rack) {
                        return Verdict::Met(reply.to_vec());
                    }
                }
            }
        }
        Verdict::Missed
    }

    fn judge_centre(&self, centre: RackSet, settings: &Settings) -> Verdict {
        let needed = quorum(centre.len());
        let order: Vec<usize> =
            settings.preference().into_iter().filter(|&rack| centre.contains(rack)).collect();
        let replies: Vec<&[u8]> = order.iter().filter_map(|&rack| self.reply(rack)).collect();
        let waiting = order
            .iter()
            .filter(|&&rack| self.counted.contains(rack) && self.parts[rack] == Part::Waiting)
            .count();
        let compare = self.work.compare;
        // Of equal groups, the one with the copy that is preferred.
        let mut best: (usize, &[u8]) = (0, &[]);
        for &reply in &replies {
            let alike = replies.iter().filter(|other| compare.are_same(reply, other)).count();
            if alike > best.0 {
                best = (alike, reply);
            }
        }
        let have = if self.level.is_safe() { best.0 } else { replies.len() };
        match () {
            () if have >= needed => Verdict::Met(best.1.to_vec()),
            () if have + waiting < needed => Verdict::Missed,
            () => Verdict::Pending,
        }
    }

    /// Whether all replies of copies that were up say the same.
    pub(crate) fn is_unanimous(&self) -> bool {
        let mut replies = (0..self.parts.len()).filter_map(|rack| self.reply(rack));
        let Some(first) = replies.next() else { return true };
        replies.all(|reply| self.work.compare.are_same(first, reply))
    }
}

/// Whether the copies `up` can meet `level`.
pub(crate) fn can_meet(level: Level, up: RackSet, settings: &Settings) -> bool {
    let in_centre = |centre: RackSet| up.iter().filter(|&rack| centre.contains(rack)).count();
    match level {
        Level::One => !up.is_empty(),
        _ => settings.centres(level).into_iter().all(|centre| in_centre(centre) >= quorum(centre.len())),
    }
}

/// The value that a copy has of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    /// As DUMP writes it; `None` if the key does not exist.
    pub dump: Option<Vec<u8>>,
    /// Milliseconds until it expires.
    pub ttl_ms: Option<u64>,
}

/// A copy's part in a look at a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LookPart {
    /// None, or none any more.
    Done,
    /// Its value is awaited.
    Reading,
    /// Its value.
    Read(Value),
    /// To be written without a look at its own value.
    Blind,
    /// The value was sent.
    Writing,
}

/// The reason of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The task with this number had an effect on the key.
    Effect(u64),
    /// A rack has missed the key.
    CatchUp,
    /// A stale rack is repaired, by the repair with this number.
    Repair(usize, u64),
    /// The background comparison, or replies that differ: the first look only notes a difference.
    Compare { is_second: bool },
}

/// A key that is read from copies, compared, and written to those that have another value.
#[derive(Debug)]
pub(crate) struct Look {
    pub key: Key,
    /// The write since which copies lack it, for their hints.
    pub since: u64,
    pub purpose: Purpose,
    /// The copy whose value counts; without it, most copies decide.
    pub truth: Option<usize>,
    pub parts: Vec<LookPart>,
}

/// Keys that are read by SCAN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scan {
    pub rack: usize,
    /// The stale rack that is repaired, and the number of the repair; the background comparison without it.
    pub repairs: Option<(usize, u64)>,
}

/// Everything that waits for replies of copies.
#[derive(Debug)]
pub(crate) enum Task {
    Request(Box<Request>),
    Look(Box<Look>),
    Scan(Scan),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Class;
    use crate::testing::settings;
    use command::Compare;

    fn request(level: Level, replies: &[&str]) -> Request {
        let work = Work { compare: Compare::Exact, class: Class::Write, ..Work::multi() };
        let place = Place { client: Id { index: 0, generation: 0 }, number: 0 };
        let mut request = Request::new(work, place, false, level, replies.len());
        request.counted = (0..replies.len()).collect();
        for (part, reply) in request.parts.iter_mut().zip(replies) {
            *part = match *reply {
                "?" => Part::Waiting,
                "x" => Part::Failed,
                reply => Part::Replied(format!("+{reply}\r\n").into_bytes()),
            };
        }
        request
    }

    fn judged(level: Level, racks: &str, replies: &[&str]) -> String {
        match request(level, replies).judge(&settings(racks)) {
            Verdict::Pending => "pending".to_owned(),
            Verdict::Missed => "missed".to_owned(),
            Verdict::Met(reply) => String::from_utf8_lossy(&reply[1..reply.len() - 2]).into_owned(),
        }
    }

    #[test]
    fn one_copy_answers_and_the_local_one_before_others() {
        let judged = |replies| judged(Level::One, "a/1 a/2 b/1", replies);
        assert_eq!(judged(&["?", "2", "3"]), "pending");
        assert_eq!(judged(&["1", "2", "?"]), "1");
        assert_eq!(judged(&["x", "2", "3"]), "2");
        assert_eq!(judged(&["x", "x", "x"]), "missed");
    }

    #[test]
    fn an_error_about_a_node_counts_if_all_have_one() {
        let mut mixed = request(Level::One, &["?", "OK"]);
        mixed.parts[0] = Part::Replied(b"-OOM full\r\n".to_vec());
        assert_eq!(mixed.judge(&settings("a/1 a/2")), Verdict::Met(b"+OK\r\n".to_vec()));
        assert_eq!(mixed.faulty().iter().collect::<Vec<_>>(), [0]);
        mixed.parts[1] = Part::Replied(b"-OOM full\r\n".to_vec());
        assert_eq!(mixed.judge(&settings("a/1 a/2")), Verdict::Met(b"-OOM full\r\n".to_vec()));
        assert!(mixed.faulty().is_empty());
    }

    #[test]
    fn a_quorum_is_of_the_local_data_centre() {
        let judged = |replies| judged(Level::Quorum, "a/1 a/2 a/3 b/1", replies);
        assert_eq!(judged(&["1", "?", "?", "1"]), "pending");
        assert_eq!(judged(&["1", "x", "1", "x"]), "1");
        assert_eq!(judged(&["x", "1", "2", "x"]), "1");
        assert_eq!(judged(&["1", "2", "2", "x"]), "2");
        assert_eq!(judged(&["x", "x", "?", "1"]), "missed");
    }

    #[test]
    fn a_safe_quorum_says_the_same() {
        let judged = |replies| judged(Level::SafeQuorum, "a/1 a/2 a/3", replies);
        assert_eq!(judged(&["1", "2", "?"]), "pending");
        assert_eq!(judged(&["1", "2", "2"]), "2");
        assert_eq!(judged(&["1", "2", "3"]), "missed");
        assert_eq!(judged(&["1", "2", "x"]), "missed");
    }

    #[test]
    fn each_data_centre_has_its_quorum() {
        let judged = |replies| judged(Level::EachSafeQuorum, "a/1 a/2 b/1 b/2", replies);
        assert_eq!(judged(&["1", "1", "1", "?"]), "pending");
        assert_eq!(judged(&["1", "1", "1", "1"]), "1");
        assert_eq!(judged(&["1", "1", "1", "x"]), "missed");
        let settings = settings("a/1 a/2 b/1");
        assert!(can_meet(Level::EachSafeQuorum, [0, 1, 2].into_iter().collect(), &settings));
        assert!(!can_meet(Level::EachSafeQuorum, [0, 1].into_iter().collect(), &settings));
        assert!(can_meet(Level::Quorum, [0, 1].into_iter().collect(), &settings));
        assert!(!can_meet(Level::Quorum, [0, 2].into_iter().collect(), &settings));
    }
}
