//! State of the script that runs, which native functions reach through the interpreter.

use std::time::{Duration, Instant};

use mlua::Lua;
use store::ScriptRun;

use crate::limits::TIME_OVER;
use crate::raise::Raised;
use crate::random::Random;

/// State of the interpreter besides Lua's own.
pub(crate) struct State {
    /// The script that runs, and through it the store.
    pub(crate) run: Option<ScriptRun>,
    pub(crate) random: Random,
    /// The time at which the script is ended.
    until: Option<Instant>,
    /// The library that is being loaded, with the functions that it registered.
    pub(crate) loading: Option<Vec<store::LibraryFunction>>,
}

impl State {
    pub(crate) fn new() -> State {
        State { run: None, random: Random::default(), until: None, loading: None }
    }

    /// Begins to measure the time of a script.
    pub(crate) fn start(&mut self, limit: Duration) {
        self.until = Instant::now().checked_add(limit);
    }

    pub(crate) fn stop(&mut self) {
        self.until = None;
    }
}

/// Whether the time of the script that runs is not over.
pub(crate) fn may_go_on(lua: &Lua) -> bool {
    let until = lua.app_data_ref::<State>().and_then(|state| state.until);
    until.is_none_or(|until| Instant::now() < until)
}

/// Counts a value that native code handles, and ends the script when its time is over.
pub(crate) fn count(lua: &Lua, values: &mut u32) -> mlua::Result<()> {
    *values = values.wrapping_add(1);
    match values.is_multiple_of(VALUES_PER_LOOK) && !may_go_on(lua) {
        true => Err(Raised::End(TIME_OVER).error()),
        false => Ok(()),
    }
}

const VALUES_PER_LOOK: u32 = 1_024;

/// Acts on the state.
pub(crate) fn with<R>(lua: &Lua, act: impl FnOnce(&mut State) -> R) -> mlua::Result<R> {
    let mut state = lua.app_data_mut::<State>().ok_or_else(|| mlua::Error::runtime("no state"))?;
    Ok(act(&mut state))
}

/// The first place of `needle`.
pub(crate) fn find_plain(text: &[u8], needle: &[u8]) -> Option<usize> {
    memchr::memmem::find(text, needle)
}
