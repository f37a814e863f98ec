//! Recent denials: ACL LOG.

use std::collections::VecDeque;
use stdx::Instant;

/// Entries that are kept; the oldest goes first. Redis's `acllog-max-len`.
const ENTRIES_MAX: usize = 128;
/// Newest denials that a new one is compared with; an equal one is counted there.
const COMPARED_MAX: usize = 10;
/// Bytes of a name or key that are kept, with the number of the others, as in Redis's SLOWLOG.
const TEXT_BYTES_MAX: usize = 128;
/// But not if that is longer ago.
const GROUPED_SECONDS_MAX: u64 = 60;

/// Why something was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The user may not use the command.
    Command,
    /// The user may not use the key.
    Key,
    /// The user may not use the channel.
    Channel,
    /// The password was wrong, or the user off or unknown.
    Auth,
}

impl Reason {
    /// Redis's word.
    pub fn word(self) -> &'static str {
        match self {
            Reason::Command => "command",
            Reason::Key => "key",
            Reason::Channel => "channel",
            Reason::Auth => "auth",
        }
    }
}

/// Where something was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Context {
    /// By itself.
    Toplevel,
    /// In a transaction.
    Multi,
}

impl Context {
    /// Redis's word.
    pub fn word(self) -> &'static str {
        match self {
            Context::Toplevel => "toplevel",
            Context::Multi => "multi",
        }
    }
}

/// Something that was denied, once or several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denial {
    /// Number of repetitions.
    pub count: u64,
    /// Why.
    pub reason: Reason,
    /// Where.
    pub context: Context,
    /// The command, key or channel.
    pub object: Vec<u8>,
    /// The user, or the name of a failed login.
    pub user: Vec<u8>,
    /// The last time.
    pub at: Instant,
    /// The last client with this denial, as a line of CLIENT LIST.
    pub client: String,
}

impl Denial {
    fn is_like(&self, other: &Denial) -> bool {
        self.reason == other.reason
            && self.context == other.context
            && other.at.since(self.at).as_secs() <= GROUPED_SECONDS_MAX
            && self.object == other.object
            && self.user == other.user
    }
}

/// The log, the newest entry first.
#[derive(Debug, Default)]
pub struct Denials(VecDeque<Denial>);

impl Denials {
    /// Records a denial, by itself or as a repetition.
    pub fn note(&mut self, mut denial: Denial) {
        cut(&mut denial.object);
        cut(&mut denial.user);
        let like = self.0.iter().take(COMPARED_MAX).position(|known| known.is_like(&denial));
        let count = like.and_then(|at| self.0.remove(at)).map_or(0, |known| known.count);
        self.0.push_front(Denial { count: count + denial.count, ..denial });
        self.0.truncate(ENTRIES_MAX);
    }

    /// The newest `count`.
    pub fn newest(&self, count: usize) -> impl ExactSizeIterator<Item = &Denial> {
        self.0.iter().take(count)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

/// Leaves the beginning of a long `text`.
fn cut(text: &mut Vec<u8>) {
    if let Some(more) = text.len().checked_sub(TEXT_BYTES_MAX).filter(|more| *more > 0) {
        let end = format!("... ({more} more bytes)");
        *text = [&text[..TEXT_BYTES_MAX], end.as_bytes()].concat();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn denial(object: &str, at_s: u64) -> Denial {
        Denial {
            count: 1,
            reason: Reason::Key,
            context: Context::Toplevel,
            object: object.into(),
            user: b"bob".to_vec(),
            at: Instant::from_nanos(at_s * 1_000_000_000),
            client: format!("at {at_s}"),
        }
    }

    fn counts(log: &Denials) -> Vec<(String, u64)> {
        let entries = log.newest(usize::MAX);
        entries.map(|entry| (String::from_utf8_lossy(&entry.object).into_owned(), entry.count)).collect()
    }

    #[test]
    fn a_repeated_denial_is_counted_and_comes_first() {
        let mut log = Denials::default();
        for (object, at_s) in [("a", 0), ("b", 1), ("a", 60), ("b", 62)] {
            log.note(denial(object, at_s));
        }
        let expected = [("b".to_owned(), 1), ("a".to_owned(), 2), ("b".to_owned(), 1)];
        assert_eq!(counts(&log), expected, "over a minute later it is something new");
        assert_eq!(log.newest(1).next().map(|entry| &*entry.client), Some("at 62"));
    }

    #[test]
    fn of_long_names_the_beginning_is_kept() {
        let mut log = Denials::default();
        for _ in 0..2 {
            let user = vec![b'u'; TEXT_BYTES_MAX];
            log.note(Denial { user, ..denial(&"k".repeat(3_000_000), 0) });
        }
        let object = format!("{}... (2999872 more bytes)", "k".repeat(128));
        assert_eq!(counts(&log), [(object, 2)]);
        let entry = log.newest(1).next().expect("it was noted");
        assert_eq!((entry.user.len(), entry.object.capacity() < 200), (TEXT_BYTES_MAX, true));
    }

    #[test]
    fn the_log_is_bounded() {
        let mut log = Denials::default();
        (0..1000).for_each(|number| log.note(denial(&number.to_string(), number)));
        assert_eq!(log.newest(usize::MAX).len(), ENTRIES_MAX);
        assert_eq!(counts(&log)[0].0, "999");
        log.clear();
        assert_eq!(counts(&log), []);
    }
}
