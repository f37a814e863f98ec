//! Scripts that would harm a process: each ends with an error, and the next one runs.

use std::time::Duration;

use lua::LuaInterpreter;
use resp::{Request, Span, encode};
use store::{CallerId, EvictionPolicy, Store, StoreSettings};

/// A store with an interpreter.
struct World {
    store: Store,
    caller: CallerId,
}

/// Time of a script, so short that tests of endless ones are.
const TIME_MAX: Duration = Duration::from_millis(50);

/// Time of a script that ends by another limit.
const LONG: Duration = Duration::from_secs(30);

impl World {
    fn new(time_max: Duration, memory_max: Option<usize>) -> World {
        let settings = StoreSettings { seed: 1, memory_max, policy: EvictionPolicy::NoEviction };
        let mut store = Store::new(settings);
        store.set_interpreter(Box::new(LuaInterpreter::new(time_max, lua::MEMORY_BYTES_MAX)));
        let caller = store.admit();
        World { store, caller }
    }

    fn ask(&mut self, words: &[&str]) -> String {
        self.ask_as(self.caller, words)
    }

    fn ask_as(&mut self, caller: CallerId, words: &[&str]) -> String {
        let (mut bytes, mut spans, mut out) = (Vec::new(), Vec::new(), Vec::new());
        for word in words {
            encode::bulk(&mut bytes, word.as_bytes());
            spans.push(Span { start: bytes.len() - 2 - word.len(), len: word.len() });
        }
        self.store.run(caller, &Request::new(&bytes, &spans), 1_000_000, &mut out);
        String::from_utf8_lossy(&out).trim_end().replace("\r\n", " ")
    }

    fn eval(&mut self, script: &str) -> String {
        self.ask(&["EVAL", script, "0"])
    }
}

#[test]
fn endless_scripts_end_with_an_error() {
    let mut world = World::new(TIME_MAX, None);
    for script in [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do pcall(redis.call, 'ping') end",
        "while true do redis.pcall('ping') end",
        "local co = coroutine.wrap(function() while true do end end) co()",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        "while true do xpcall(function() while true do end end, function(e) return e end) end",
        "while true do load(function() while true do end end) end",
        "return string.find(string.rep('a', 40), string.rep('a?', 40) .. string.rep('a', 40))",
        "return string.match(string.rep('a', 100000), '.-.-.-.-b')",
        "return string.gsub(string.rep('a', 100000), '.-.-.-b', 'x')",
        "return string.gsub(string.rep('a', 100000), '.-.-.-b', function() end)",
        "for w in string.gmatch(string.rep('a', 100000), '.-.-.-b') do end",
        "local t = {} t[1] = t table.sort({3,2,1}, function() while true do end end)",
        "local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)",
        "local t = {} for i = 1, 40 do t = {t, t} end return t",
        "local t = 1 for i = 1, 15 do local n = {} for j = 1, 20 do n[j] = t end t = n end return cmsgpack.pack(t)",
        "return setmetatable({}, {__index = function() while true do end end}).x",
    ] {
        let reply = world.eval(script);
        assert!(reply.contains("script ran longer than the limit and was ended"), "{script}: {reply}");
        assert_eq!(world.eval("return 7"), ":7", "after {script}");
    }
}

#[test]
fn scripts_that_need_too_much_memory_end_with_an_error() {
    let mut world = World::new(LONG, None);
    for script in [
        "local t = {} while true do t[#t + 1] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return string.rep('x', 2000000000)",
        "return ('x'):rep(60000000) .. ('y'):rep(60000000)",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return {map = setmetatable({}, {}), (string.gsub(('x'):rep(50000000), 'x', 'yyyy'))}",
    ] {
        let reply = world.eval(script);
        assert!(reply.contains("not enough memory"), "{script}: {reply}");
        assert_eq!(world.eval("return 7"), ":7", "after {script}");
    }
    // A script that catches the error goes on.
    assert_eq!(
        world.eval("local ok, e = pcall(string.rep, 'x', 2000000000) return e"),
        "$17 not enough memory"
    );
}

#[test]
fn deep_recursion_ends_with_an_error() {
    let mut world = World::new(LONG, None);
    for (script, expected) in [
        ("local function f() return f() + 1 end return f()", "stack overflow"),
        ("local function f() return coroutine.wrap(f)() end return f()", "C stack overflow"),
        ("local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x", "loop in gettable"),
        ("return string.find(string.rep('a', 5000), string.rep('a?', 5000))", "pattern too complex"),
        (
            "return loadstring('return ' .. string.rep('(', 1000) .. string.rep(')', 1000))()",
            "call a nil value",
        ),
        ("local s = string.rep('[', 1001) return cjson.decode(s)", "Found too many nested data structures"),
        ("return cmsgpack.unpack(string.rep('\\145', 5000))", "Found too many nested data structures"),
        ("local t = {} t[1] = t return t", "reached lua stack limit"),
        ("local t = {} t.t = t return cjson.encode(t)", "excessive nesting"),
        ("return {string.gsub('x', 'x', function() return string.gsub('x', 'x', error) end)}", "x"),
    ] {
        let reply = world.eval(script);
        assert!(reply.contains(expected), "{script}: {}", &reply[..reply.len().min(200)]);
        assert_eq!(world.eval("return 7"), ":7", "after {script}");
    }
}

#[test]
fn many_values_at_once_are_refused_or_returned() {
    let mut world = World::new(LONG, None);
    for (script, expected) in [
        (
            "local t = {} for i = 1, 7800 do t[i] = 'v' .. i end return redis.call('rpush', 'l', unpack(t))",
            ":7800",
        ),
        (
            "local t = {} for i = 1, 9000 do t[i] = i end return redis.call('rpush', 'l', unpack(t))",
            "too many results",
        ),
        (
            "local t = {} for i = 1, 7000 do t[i] = 'v' .. i end return {struct.pack(string.rep('s', 7000), unpack(t))}",
            "*1",
        ),
        ("return #{struct.unpack(string.rep('s', 5000), string.rep('x\\0', 5000))}", "too many results"),
        ("return #{cmsgpack.unpack(string.rep('\\161x', 5000))}", "too many results"),
        ("local t = {} for i = 1, 7000 do t[i] = {} end return #{pcall(bit.band, unpack(t))}", ":2"),
        ("return #{string.byte(string.rep('x', 7000), 1, -1)}", ":7000"),
        ("return #{string.byte(string.rep('x', 9000), 1, -1)}", "string slice too long"),
        ("return math.max(unpack({1, 2, 3}))", ":3"),
    ] {
        let reply = world.eval(script);
        assert!(reply.contains(expected), "{script}: {}", &reply[..reply.len().min(200)]);
    }
}

#[test]
fn compiled_code_is_never_loaded() {
    let mut world = World::new(LONG, None);
    let dumped = "local code = string.dump(function() return 1 end)";
    for (script, expected) in [
        ("return tostring(loadstring(code))", "$3 nil"),
        ("return tostring((load(function() local piece = code code = nil return piece end)))", "$3 nil"),
        (
            "local at = 0 return tostring((load(function() at = at + 1 return at <= #code and code:sub(at, at) or nil end)))",
            "$3 nil",
        ),
        (
            "local sent = 0 return tostring((load(function() sent = sent + 1 return ({'', code})[sent] end)))",
            "$3 nil",
        ),
    ] {
        assert_eq!(world.eval(&format!("{dumped} {script}")), expected, "{script}");
    }
    let reply = world.ask(&["EVAL", "\x1bLua", "0"]);
    assert!(reply.contains("unexpected symbol near 'char(27)'"), "{reply}");
}

#[test]
fn the_cache_of_scripts_is_bounded() {
    let mut world = World::new(LONG, None);
    let loaded = world.ask(&["SCRIPT", "LOAD", "return 'kept'"]);
    let name = loaded.split(' ').next_back().unwrap_or_default().to_owned();
    for number in 0..600 {
        assert_eq!(world.eval(&format!("return {number}")), format!(":{number}"));
    }
    let memory = world.ask(&["INFO", "memory"]);
    assert!(memory.contains("number_of_cached_scripts:501 "), "{memory}");
    assert_eq!(world.ask(&["EVALSHA", &name, "0"]), "$4 kept");
    assert_eq!(world.ask(&["SCRIPT", "FLUSH"]), "+OK");
    assert_eq!(world.ask(&["EVALSHA", &name, "0"]), "-NOSCRIPT No matching script. Please use EVAL.");
}

#[test]
fn one_script_leaves_nothing_to_the_next() {
    let mut world = World::new(LONG, None);
    world.eval("table.insert(redis, 1, 'left') table.insert(string, 'left') return 1");
    world.eval("cjson.encode_number_precision(3) cjson.decode_max_depth(1)");
    world.eval("collectgarbage('stop')");
    assert_eq!(world.eval("return {#redis, tostring(redis[1]), tostring(string[1])}"), "*3 :0 $3 nil $3 nil");
    assert_eq!(
        world.eval("return cjson.encode({1/3, cjson.decode('[[1]]')})"),
        "$24 [0.33333333333333,[[1]]]"
    );
    assert_eq!(world.eval("return tostring(KEYS[1])"), "$3 nil");
    let reply = world.eval("getmetatable('').__index = {} return 1");
    assert!(reply.contains("Attempt to modify a readonly table"), "{reply}");
}

#[test]
fn full_memory_refuses_writes_of_scripts() {
    let mut world = World::new(LONG, Some(20_000));
    while world.ask(&["APPEND", "long", &"x".repeat(1_000)]).starts_with(':') {}
    let refusal = "OOM command not allowed when used memory > 'maxmemory'.";
    assert!(world.eval("return redis.call('set', 'a', 1)").contains(refusal));
    assert!(world.eval("return redis.pcall('set', 'a', 1)").contains(refusal));
    assert_eq!(world.eval("return redis.call('strlen', 'long') > 1000"), ":1");
    assert_eq!(world.eval("redis.call('del', 'nosuch') return redis.call('set', 'a', 1)"), "+OK");
    let reply = world.eval("#!lua\nreturn 1");
    assert!(reply.contains("OOM allow-oom flag is not set on the script"), "{reply}");
    assert_eq!(world.eval("#!lua flags=allow-oom\nreturn redis.call('set', 'a', 1)"), "+OK");
    assert_eq!(world.eval("#!lua flags=no-writes\nreturn redis.call('get', 'a')"), "$1 1");
}

#[test]
fn pushes_and_messages_of_scripts_reach_others() {
    let mut world = World::new(LONG, None);
    let (waiter, subscriber) = (world.store.admit(), world.store.admit());
    assert_eq!(world.ask_as(waiter, &["BLPOP", "l", "0"]), "");
    assert!(world.ask_as(subscriber, &["SUBSCRIBE", "c"]).starts_with("*3"));
    assert_eq!(
        world.eval(
            "redis.call('rpush', 'l', 'a') redis.call('publish', 'c', 'm') return redis.call('llen', 'l')"
        ),
        ":1"
    );
    let next = || world.store.next_delivery();
    let delivered: Vec<_> = std::iter::from_fn(next)
        .map(|delivery| (delivery.to, String::from_utf8_lossy(&delivery.bytes).replace("\r\n", " ")))
        .collect();
    assert_eq!(
        delivered,
        [(subscriber, "*3 $7 message $1 c $1 m ".to_owned()), (waiter, "*2 $1 l $1 a ".to_owned())]
    );
    assert_eq!(world.eval("return {redis.call('llen', 'l'), redis.call('lpop', 'l')}"), "*2 :0 $-1");
}

#[test]
fn time_stands_still_in_a_script() {
    let mut world = World::new(LONG, None);
    let script = "redis.call('set', 'k', 'v', 'PX', 1) local t = redis.call('time') \
                  for i = 1, 100000 do end local u = redis.call('time') \
                  return {t[1] == u[1] and t[2] == u[2], redis.call('get', 'k'), redis.call('pttl', 'k')}";
    assert_eq!(world.eval(script), "*3 :1 $1 v :1");
}
