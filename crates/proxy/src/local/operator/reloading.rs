//! PROXY RELOAD: orders about the configuration. The control thread carries them out, since this crate must not read files.

use crate::errors;
use crate::login::job::{ReloadOrder, ReloadOutcome};
use resp::integer::parse_i64;
use resp::{Request, encode};

impl ReloadOutcome {
    /// Writes the reply to `order`.
    pub(crate) fn write(&self, order: ReloadOrder, reply: &mut Vec<u8>) {
        match self {
            ReloadOutcome::Done(lines) if order == ReloadOrder::Plan => {
                encode::array_header(reply, lines.len());
                lines.iter().for_each(|line| encode::bulk(reply, line.as_bytes()));
            }
            ReloadOutcome::Done(_) => encode::simple(reply, b"OK"),
            ReloadOutcome::Begun(_) => encode::simple(reply, b"upgrade started"),
            ReloadOutcome::Refused(reasons) | ReloadOutcome::Faulty(reasons) => {
                let first = reasons.first().map(String::as_str).unwrap_or_default();
                errors::write(reply, &format!("ERR reload refused: {first}"));
            }
            ReloadOutcome::Late => errors::write(reply, errors::RELOAD_LATE),
        }
    }
}

/// The order of a request; `None` if it has other words.
pub(crate) fn order_of(request: &Request<'_>) -> Option<ReloadOrder> {
    let Some(word) = request.get(2) else { return Some(ReloadOrder::Follow) };
    match (word.to_ascii_lowercase().as_slice(), request.get(3)) {
        (b"plan", None) => Some(ReloadOrder::Plan),
        (b"force", None) => Some(ReloadOrder::Force),
        (b"back", None) => Some(ReloadOrder::Back(None)),
        (b"back", Some(number)) if request.len() == 4 => {
            let number = u64::try_from(parse_i64(number)?).ok()?;
            Some(ReloadOrder::Back(Some(number)))
        }
        _ => None,
    }
}
