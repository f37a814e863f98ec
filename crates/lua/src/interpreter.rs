//! The interpreter of one store: compiled scripts and libraries, and one run at a time.

use std::time::Duration;

use mlua::{HookTriggers, Lua, MultiValue, Table, Value, VmState};
use store::{Entry, Interpreter, LibraryFunction, ScriptRun};

use crate::convert::{self, Protocols, Writer};
use crate::limits::{INSTRUCTIONS_PER_LOOK, TIME_OVER};
use crate::raise::{OUT_OF_MEMORY, Raised};
use crate::sandbox::Sandbox;
use crate::state;

/// Lua for one store. It is made when it is needed first: most stores never run a script.
pub struct LuaInterpreter {
    machine: Option<Machine>,
    time_max: Duration,
    memory_max: usize,
}

impl LuaInterpreter {
    /// Scripts end after `time_max`, or when all scripts of this store together need more than `memory_max` bytes.
    pub fn new(time_max: Duration, memory_max: usize) -> LuaInterpreter {
        LuaInterpreter { machine: None, time_max, memory_max }
    }

    fn machine(&mut self) -> Result<&Machine, Vec<u8>> {
        let machine = match self.machine.take() {
            Some(machine) => machine,
            None => Machine::new(self.time_max, self.memory_max)
                .map_err(|error| error.to_string().into_bytes())?,
        };
        Ok(self.machine.insert(machine))
    }
}

impl Interpreter for LuaInterpreter {
    fn compile(&mut self, name: &str, source: &[u8]) -> Result<(), Vec<u8>> {
        self.machine()?.compile_script(name, source)
    }

    fn forget(&mut self, name: &str) {
        // A table that cannot be changed for want of memory keeps one entry more.
        _ = self.machine.as_ref().map(|machine| machine.scripts.raw_set(name, Value::Nil));
    }

    fn load_library(&mut self, number: u64, source: &[u8]) -> Result<Vec<LibraryFunction>, Vec<u8>> {
        self.machine()?.load_library(number, source)
    }

    fn forget_library(&mut self, number: u64) {
        _ = self.machine.as_ref().map(|machine| machine.libraries.raw_set(number, Value::Nil));
    }

    fn run(
        &mut self,
        entry: Entry<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        run: ScriptRun,
        out: &mut Vec<u8>,
    ) -> Option<ScriptRun> {
        match self.machine() {
            Ok(machine) => machine.run(entry, keys, args, run, out),
            Err(why) => {
                convert::write_error(out, &[b"ERR ", &why[..]].concat());
                Some(run)
            }
        }
    }

    fn memory_used(&self) -> usize {
        self.machine.as_ref().map_or(0, |machine| machine.sandbox.lua.used_memory())
    }
}

/// Lua itself.
struct Machine {
    sandbox: Sandbox,
    /// Compiled scripts by name.
    scripts: Table,
    /// Callbacks of each library, by its number and the name of the function.
    libraries: Table,
    time_max: Duration,
    memory_max: usize,
}

impl Machine {
    fn new(time_max: Duration, memory_max: usize) -> mlua::Result<Machine> {
        let sandbox = Sandbox::new()?;
        let lua = &sandbox.lua;
        let (scripts, libraries) = (lua.create_table()?, lua.create_table()?);
        let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_LOOK);
        lua.set_global_hook(triggers, |lua, _| match state::may_go_on(lua) {
            true => Ok(VmState::Continue),
            false => Err(Raised::End(TIME_OVER).error()),
        })?;
        lua.set_memory_limit(memory_max)?;
        Ok(Machine { sandbox, scripts, libraries, time_max, memory_max })
    }

    fn lua(&self) -> &Lua {
        &self.sandbox.lua
    }

    /// Frees what can be freed when memory is nearly full. Lua 5.1 does not collect garbage when an allocation fails.
    fn make_room(&self) {
        if self.lua().used_memory() > self.memory_max / 2 {
            _ = self.lua().gc_collect();
        }
    }

    /// A compiled text, without its first line if that is for the engine.
    fn compile(&self, source: &[u8], chunk: &str) -> Result<Value, Vec<u8>> {
        self.make_room();
        let text = match source.starts_with(b"#!") {
            true => source.iter().position(|&byte| byte == b'\n').map_or(&b""[..], |end| &source[end..]),
            false => source,
        };
        // Compiled code is refused: behind a blank it is a text with a strange character.
        let blank = if text.first() == Some(&27) { &b" "[..] } else { b"" };
        let compiled = self
            .lua()
            .create_string([blank, text].concat())
            .and_then(|text| self.sandbox.function("compile")?.call::<(Value, Value)>((text, chunk)));
        match compiled {
            Ok((function @ Value::Function(_), _)) => Ok(function),
            Ok((_, Value::String(why))) => Err(why.as_bytes().to_vec()),
            Ok(_) => Err(OUT_OF_MEMORY.into()),
            Err(error) => Err(Raised::of(&error).to_string().into_bytes()),
        }
    }

    fn compile_script(&self, name: &str, source: &[u8]) -> Result<(), Vec<u8>> {
        let function = self.compile(source, "@user_script")?;
        self.scripts.raw_set(name, function).map_err(|error| error.to_string().into_bytes())
    }

    fn load_library(&self, number: u64, source: &[u8]) -> Result<Vec<LibraryFunction>, Vec<u8>> {
        let function = self.compile(source, "@user_function");
        let function = function.map_err(|why| [b"Error compiling function: ", &why[..]].concat())?;
        self.register_all(number, &function)
            .map_err(|why| [b"Error registering functions: ", &why[..]].concat())
    }

    /// Runs the code of a library with the globals that it may use.
    fn register_all(&self, number: u64, function: &Value) -> Result<Vec<LibraryFunction>, Vec<u8>> {
        let shown = |error: mlua::Error| Raised::of(&error).to_string().into_bytes();
        let callbacks = self.lua().create_table().map_err(shown)?;
        let begun = state::with(self.lua(), |state| {
            state.start(self.time_max.min(LOAD_TIME_MAX));
            state.loading = Some(Vec::new());
        });
        let done = begun
            .and_then(|()| self.lua().set_named_registry_value("loading", &callbacks))
            .and_then(|()| self.sandbox.meta.raw_set("__index", &self.sandbox.library_api))
            .and_then(|()| self.sandbox.function("register_all")?.call::<MultiValue>(function));
        let restored = self.sandbox.meta.raw_set("__index", &self.sandbox.globals);
        let functions = state::with(self.lua(), |state| {
            state.stop();
            state.loading.take()
        });
        restored.map_err(shown)?;
        let mut done = done.map_err(shown)?.into_iter();
        if !matches!(done.next(), Some(Value::Boolean(true))) {
            return Err(error_text(done.next().unwrap_or(Value::Nil)));
        }
        self.libraries.raw_set(number, callbacks).map_err(shown)?;
        Ok(functions.ok().flatten().unwrap_or_default())
    }

    fn run(
        &self,
        entry: Entry<'_>,
        keys: &[&[u8]],
        args: &[&[u8]],
        run: ScriptRun,
        out: &mut Vec<u8>,
    ) -> Option<ScriptRun> {
        self.make_room();
        self.sandbox.reset();
        let client_resp3 = run.client_is_resp3();
        let mut run = Some(run);
        let begun = state::with(self.lua(), |state| {
            state.start(self.time_max);
            state.run = run.take();
        });
        let start = out.len();
        let done = begun.and_then(|()| self.call(entry, keys, args));
        let ended = state::with(self.lua(), |state| state.run.take());
        let run = ended.ok().flatten().or(run);
        let script_resp3 = run.as_ref().is_some_and(ScriptRun::is_resp3);
        let protocols = Protocols { client_resp3, script_resp3 };
        let written = done.and_then(|done| self.reply(entry, done, protocols, out));
        _ = state::with(self.lua(), state::State::stop);
        if let Err(error) = written {
            out.truncate(start);
            let raised = Raised::of(&error).to_string();
            convert::write_error(
                out,
                format!("ERR Error running script {}, {raised}", entry.name()).as_bytes(),
            );
        }
        run
    }

    fn list(&self, items: &[&[u8]]) -> mlua::Result<Table> {
        let table = self.lua().create_table_with_capacity(items.len(), 0)?;
        for (item, index) in items.iter().zip(1..) {
            table.raw_set(index, self.lua().create_string(item)?)?;
        }
        Ok(table)
    }

    /// Whether the script ended well, and its value or its error.
    fn call(&self, entry: Entry<'_>, keys: &[&[u8]], args: &[&[u8]]) -> mlua::Result<(bool, Value)> {
        let (keys, args) = (self.list(keys)?, self.list(args)?);
        match entry {
            Entry::Script(name) => {
                let body: Value = self.scripts.raw_get(name)?;
                self.sandbox.globals.raw_set("KEYS", keys)?;
                self.sandbox.globals.raw_set("ARGV", args)?;
                let done = self.sandbox.function("run")?.call(body);
                self.sandbox.globals.raw_set("KEYS", Value::Nil)?;
                self.sandbox.globals.raw_set("ARGV", Value::Nil)?;
                done
            }
            Entry::Function { library, name } => {
                let callbacks: Table = self.libraries.raw_get(library)?;
                let callback: Value = callbacks.raw_get(self.lua().create_string(name)?)?;
                self.sandbox.function("call")?.call((callback, keys, args))
            }
        }
    }

    fn reply(
        &self,
        entry: Entry<'_>,
        (is_done, value): (bool, Value),
        protocols: Protocols,
        out: &mut Vec<u8>,
    ) -> mlua::Result<()> {
        match (is_done, value) {
            (true, value) => Writer::new(self.lua(), protocols).write(out, &value, 0)?,
            (false, Value::Table(error)) => {
                let text = match error.raw_get("err")? {
                    Value::String(text) => text.as_bytes().to_vec(),
                    _ => b"ERR unknown error".to_vec(),
                };
                let (source, line) = (error.raw_get::<Value>("source")?, error.raw_get::<Value>("line")?);
                let mut text = text.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
                if let (Some(source), Some(line)) = (shown(&source), shown(&line)) {
                    let end =
                        [b" script: ", &entry.name().into_bytes()[..], b", on ", &source, b":", &line, b"."];
                    text.extend_from_slice(&end.concat());
                }
                convert::write_error(out, &text);
            }
            (false, Value::Error(error)) => {
                let raised = Raised::of(&error).to_string();
                convert::write_error(
                    out,
                    format!("ERR Error running script {}, {raised}", entry.name()).as_bytes(),
                );
            }
            (false, other) => {
                let text = shown(&other).unwrap_or_else(|| b"execution failure".to_vec());
                if text == OUT_OF_MEMORY.as_bytes() {
                    _ = self.lua().gc_collect();
                }
                let text =
                    [b"ERR Error running script ", &entry.name().into_bytes()[..], b", ", &text].concat();
                convert::write_error(out, &text);
            }
        }
        Ok(())
    }
}

/// The text of a value, if it is one that Lua turns into a string.
fn shown(value: &Value) -> Option<Vec<u8>> {
    match value {
        Value::String(text) => Some(text.as_bytes().to_vec()),
        Value::Integer(number) => Some(number.to_string().into_bytes()),
        Value::Number(number) => Some(crate::args::number_text(*number, 14)),
        _ => None,
    }
}

/// The text of a caught error: of a table, its field `err`.
fn error_text(value: Value) -> Vec<u8> {
    match value {
        Value::Table(table) => table.raw_get("err").ok().and_then(|text| shown(&text)).unwrap_or_default(),
        other => [b"ERR ", &shown(&other).unwrap_or_default()[..]].concat(),
    }
}

/// Time in which a library must register its functions, as in Redis.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);
