//! The two classes of errors that a broken node may cause.

use super::show;

/// The state of a request by its error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// `-TRYAGAIN …`: never sent.
    NotSent,
    /// `-ERR … outcome unknown …`.
    Unknown,
}

impl Fault {
    /// The class of `reply`; `None` if it is no error. No broken node explains any other error.
    #[track_caller]
    pub(crate) fn of(reply: &[u8]) -> Option<Fault> {
        if reply[0] != b'-' {
            return None;
        }
        let text = show(reply);
        if text.starts_with("-TRYAGAIN shard ") {
            return Some(Fault::NotSent);
        }
        assert!(
            text.starts_with("-ERR ") && text.contains(", outcome unknown (shard "),
            "an error that no broken node explains: {text}"
        );
        Some(Fault::Unknown)
    }
}
