//! The globals that scripts see, which they cannot change.
//!
//! Redis patches Lua so that a table can be read-only. Here each library is an empty table, a proxy, whose metatable reads from
//! the real one and refuses writes. Functions that would look behind it (`pairs`, `rawget`, `rawset`, `getmetatable`,
//! `setmetatable`) know the proxies.

use mlua::{Function, Lua, LuaOptions, LuaString, MultiValue, StdLib, Table, Value};

use crate::args::Args;
use crate::raise::{PRELUDE, Raised, failure, place_of_error};
use crate::random::Random;
use crate::{api, bits, cjson, cmsgpack, packing, raw, state, text};

/// An interpreter with its sandbox, and the parts of it that native code uses.
pub(crate) struct Sandbox {
    pub(crate) lua: Lua,
    /// Functions of the prelude.
    pub(crate) native: Table,
    /// The globals behind the proxy.
    pub(crate) globals: Table,
    /// The metatable of the proxy of the globals.
    pub(crate) meta: Table,
    /// The globals while a library is loaded.
    pub(crate) library_api: Table,
    pub(crate) json: cjson::Shared,
}

/// Functions that scripts have unchanged.
const UNCHANGED: [&str; 12] = [
    "assert",
    "error",
    "gcinfo",
    "ipairs",
    "next",
    "rawequal",
    "select",
    "tonumber",
    "tostring",
    "type",
    "_VERSION",
    "coroutine",
];

impl Sandbox {
    pub(crate) fn new() -> mlua::Result<Sandbox> {
        let libraries = StdLib::TABLE | StdLib::STRING | StdLib::MATH | StdLib::OS;
        let lua = Lua::new_with(libraries, LuaOptions::new().catch_rust_panics(false))?;
        lua.set_app_data(state::State::new());
        let (base, globals, native) = (lua.globals(), lua.create_table()?, lua.create_table()?);
        for name in UNCHANGED {
            globals.raw_set(name, base.raw_get::<Value>(name)?)?;
        }
        let json = cjson::Shared::default();
        for name in ["string", "table", "math"] {
            globals.raw_set(name, base.raw_get::<Table>(name)?)?;
        }
        for name in ["redis", "cjson", "cmsgpack", "bit", "struct", "os"] {
            globals.raw_set(name, lua.create_table()?)?;
        }
        let library = |name: &str| globals.raw_get::<Table>(name);
        library("os")?.raw_set("clock", base.raw_get::<Table>("os")?.raw_get::<Value>("clock")?)?;
        text::install(&lua, &library("string")?, &native)?;
        install_random(&lua, &library("math")?)?;
        api::install(&lua, &library("redis")?, &native)?;
        cjson::install(&lua, &library("cjson")?, &json)?;
        cmsgpack::install(&lua, &library("cmsgpack")?)?;
        bits::install(&lua, &library("bit")?)?;
        packing::install(&lua, &library("struct")?)?;
        globals.raw_set("loadstring", loadstring(&lua, base.raw_get("loadstring")?)?)?;
        let reals = lua.create_table()?;
        native.raw_set("reals", &reals)?;
        raw::install(&lua, &globals, &reals)?;
        install_errors(&lua, &native)?;
        let prelude = lua.load(include_str!("prelude.lua")).set_name(format!("={PRELUDE}"));
        prelude.call::<()>((&native, &globals))?;
        let missing = lua.create_function(missing)?;
        let library_api = library_api(&lua, &globals, &native, &missing)?;
        let meta = protect(&lua, &native, &globals, &missing)?;
        Ok(Sandbox { lua, native, globals, meta, library_api, json })
    }

    /// A function of the prelude.
    pub(crate) fn function(&self, name: &str) -> mlua::Result<Function> {
        self.native.raw_get(name)
    }

    /// Settings that a script changed do not reach the next one.
    pub(crate) fn reset(&self) {
        self.json.set(cjson::Settings::default());
    }
}

/// An empty table that reads from `real` and refuses writes.
fn proxy(lua: &Lua, native: &Table, real: &Table, shown: impl mlua::IntoLua) -> mlua::Result<(Table, Table)> {
    let (proxy, meta) = (lua.create_table()?, lua.create_table()?);
    meta.raw_set("__index", real)?;
    meta.raw_set("__newindex", native.raw_get::<Function>("readonly_at")?)?;
    meta.raw_set("__metatable", shown)?;
    proxy.set_metatable(Some(meta.clone()))?;
    native.raw_get::<Table>("reals")?.raw_set(&proxy, real)?;
    Ok((proxy, meta))
}

/// Puts proxies before all libraries and before the globals. Returns the metatable of the latter.
fn protect(lua: &Lua, native: &Table, globals: &Table, missing: &Function) -> mlua::Result<Table> {
    for name in ["string", "table", "math", "redis", "cjson", "cmsgpack", "bit", "struct", "os", "coroutine"]
    {
        let (proxy, _) = proxy(lua, native, &globals.raw_get(name)?, false)?;
        globals.raw_set(name, proxy)?;
    }
    let shown = lua.create_table()?;
    shown.raw_set("__index", missing)?;
    let (shown, _) = proxy(lua, native, &shown, false)?;
    let (all, meta) = proxy(lua, native, globals, shown)?;
    let unknown = lua.create_table()?;
    unknown.raw_set("__index", missing)?;
    globals.set_metatable(Some(unknown))?;
    globals.raw_set("_G", &all)?;
    // Methods of strings.
    if let Some(strings) = lua.type_metatable::<LuaString>() {
        let library: Table = globals.raw_get("string")?;
        strings.raw_set("__index", &library)?;
        let shown = lua.create_table()?;
        shown.raw_set("__index", library)?;
        strings.raw_set("__metatable", proxy(lua, native, &shown, false)?.0)?;
    }
    lua.set_globals(all)?;
    Ok(meta)
}

/// The globals of a library that is being loaded: nothing but a part of `redis`.
fn library_api(lua: &Lua, globals: &Table, native: &Table, missing: &Function) -> mlua::Result<Table> {
    let (api, redis) = (lua.create_table()?, lua.create_table()?);
    let real: Table = globals.raw_get("redis")?;
    for name in
        ["log", "LOG_DEBUG", "LOG_VERBOSE", "LOG_NOTICE", "LOG_WARNING", "REDIS_VERSION", "REDIS_VERSION_NUM"]
    {
        redis.raw_set(name, real.raw_get::<Value>(name)?)?;
    }
    redis.raw_set("register_function", native.raw_get::<Function>("register")?)?;
    for table in [&api, &redis] {
        let meta = lua.create_table()?;
        meta.raw_set("__index", missing)?;
        table.set_metatable(Some(meta))?;
    }
    api.raw_set("redis", proxy(lua, native, &redis, false)?.0)?;
    Ok(api)
}

/// The error of an unknown global.
fn missing(lua: &Lua, args: MultiValue) -> mlua::Result<()> {
    let name = match args.get(1) {
        Some(Value::String(name)) if args.len() == 2 => name.as_bytes().to_vec(),
        Some(Value::Integer(name)) if args.len() == 2 => name.to_string().into_bytes(),
        _ if args.len() != 2 => {
            return Err(failure(lua, "Wrong number of arguments to luaProtectedTableError"));
        }
        _ => {
            let text = "Second argument to luaProtectedTableError must be a string or number";
            return Err(failure(lua, text));
        }
    };
    let begin = b"Script attempted to access nonexistent global variable '";
    Err(failure(lua, [&begin[..], &name, b"'"].concat()))
}

pub(crate) const READONLY: &str = "Attempt to modify a readonly table";

/// Functions by which the prelude raises and reads errors.
fn install_errors(lua: &Lua, native: &Table) -> mlua::Result<()> {
    let caught = |lua: &Lua, object: Value| match object {
        Value::Error(error) => {
            let raised = Raised::of(&error);
            Ok((raised.value(lua)?, matches!(raised, Raised::End(_))))
        }
        other => Ok((other, false)),
    };
    let again = |_: &Lua, object: Value| match object {
        Value::Error(error) => Err::<(), _>(*error),
        _ => Ok(()),
    };
    native.raw_set("caught", lua.create_function(caught)?)?;
    native.raw_set("again", lua.create_function(again)?)?;
    let fail = |lua: &Lua, text: LuaString| Err::<(), _>(failure(lua, text.as_bytes()));
    native.raw_set("fail", lua.create_function(fail)?)?;
    let place = |lua: &Lua, _: MultiValue| {
        Ok(place_of_error(lua).map_or((None, None), |(source, line)| (Some(source), Some(line))))
    };
    native.raw_set("place", lua.create_function(place)?)?;
    let readonly_at = |lua: &Lua, _: MultiValue| Err::<(), _>(failure(lua, READONLY));
    native.raw_set("readonly_at", lua.create_function(readonly_at)?)
}

/// `loadstring` that refuses compiled code, which could do anything to the process.
fn loadstring(lua: &Lua, real: Function) -> mlua::Result<Function> {
    lua.create_function(move |lua, args: MultiValue| {
        let args = Args::new(lua, args);
        let text = args.string(1)?;
        let name = if args.is_absent(2) { text.clone() } else { args.string(2)? };
        match text.as_bytes().first() {
            Some(27) => {
                let text = [b" ", &text.as_bytes()[..]].concat();
                real.call::<MultiValue>((lua.create_string(text)?, name))
            }
            _ => real.call((text, name)),
        }
    })
}

fn install_random(lua: &Lua, math: &Table) -> mlua::Result<()> {
    let random = |lua: &Lua, args: MultiValue| {
        let args = Args::new(lua, args);
        let unit = state::with(lua, |state| state.random.next())?;
        // C's int, with its overflow.
        let int = |number| args.integer(number).map(|value| value as i32);
        match args.len() {
            0 => Ok(unit),
            1 => {
                let upper = int(1)?;
                if upper < 1 {
                    return Err(args.bad(1, "interval is empty"));
                }
                Ok((unit * f64::from(upper)).floor() + 1.0)
            }
            2 => {
                let (lower, upper) = (int(1)?, int(2)?);
                if lower > upper {
                    return Err(args.bad(2, "interval is empty"));
                }
                let len = upper.wrapping_sub(lower).wrapping_add(1);
                Ok((unit * f64::from(len)).floor() + f64::from(lower))
            }
            _ => Err(failure(lua, "wrong number of arguments")),
        }
    };
    math.raw_set("random", lua.create_function(random)?)?;
    let randomseed = |lua: &Lua, args: MultiValue| {
        let seed = Args::new(lua, args).integer(1)? as i32;
        state::with(lua, |state| state.random = Random::new(seed))
    };
    math.raw_set("randomseed", lua.create_function(randomseed)?)
}
