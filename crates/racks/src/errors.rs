//! Texts of errors that clients see.

use crate::copy::{Copy, Standing};
use crate::level::{Level, RackSet};
use crate::settings::Settings;
use crate::task::{Part, Request};

/// The reply of an error.
pub(crate) fn error(text: &str) -> Vec<u8> {
    let mut reply = Vec::new();
    resp::encode::error(&mut reply, text.as_bytes());
    reply
}

/// Too few racks are up, so nothing was sent.
pub(crate) fn too_few(level: Level, settings: &Settings, copies: &[Copy]) -> Vec<u8> {
    let down: Vec<String> = copies
        .iter()
        .zip(&settings.racks)
        .filter(|(copy, _)| !copy.is_up())
        .map(|(copy, rack)| format!("{rack} {}", state(copy)))
        .collect();
    error(&format!("ERR racks: too few are up for {level} ({}); the command was not run", down.join(", ")))
}

/// A script cannot be loaded, since a rack would lack it.
pub(crate) fn not_all(settings: &Settings, up: RackSet) -> Vec<u8> {
    let down = (0..settings.racks.len()).filter(|&rack| !up.contains(rack));
    let names: Vec<String> = down.map(|rack| settings.racks[rack].to_string()).collect();
    error(&format!(
        "ERR racks: scripts and functions are loaded while all racks are up, and {} is not; the command was not run",
        names.join(", ")
    ))
}

/// The level was missed after the request was sent.
pub(crate) fn missed(request: &Request, settings: &Settings) -> Vec<u8> {
    let lost: Vec<String> = (0..request.parts.len())
        .filter(|&rack| request.counted.contains(rack) && request.parts[rack] == Part::Failed)
        .map(|rack| settings.racks[rack].to_string())
        .collect();
    let outcome = match request.work.writes() {
        true => "the command may have run",
        false => "the command changes nothing",
    };
    let level = request.level;
    error(&match lost.is_empty() {
        true => format!("ERR racks: the replies differ, and {level} needs more of one kind; {outcome}"),
        false => format!("ERR racks: {} did not answer, and {level} needs more; {outcome}", lost.join(", ")),
    })
}

/// A cursor of a copy that is not up.
pub(crate) fn lost_cursor(settings: &Settings, rack: usize) -> Vec<u8> {
    let name = settings.racks.get(rack).map_or_else(|| "a rack that is gone".to_owned(), ToString::to_string);
    error(&format!("ERR racks: the cursor is one of {name}, which is not up; begin again with cursor 0"))
}

/// The state of a copy in words.
pub(crate) fn state(copy: &Copy) -> &'static str {
    match copy.standing {
        Standing::Stale(_) => "is stale",
        Standing::Repairing(_) => "is being repaired",
        Standing::Current if !copy.link.is_open() => "is down",
        Standing::Current if copy.hints.is_empty() => "is up",
        Standing::Current => "is catching up",
    }
}
