//! Random scripts: nested values there and back, calls of library functions with random arguments.

use stdx::Prng;

use crate::Pair;

/// Scripts of one run.
const SCRIPTS: u64 = 20_000;
const FIRST_SEED: u64 = 1;

/// Calls with `@` for a random value. Left out are those whose replies show addresses or depend on chance.
const CALLS: &str = "\
return @
return {@,@}
return {ok=@}
return {err=@}
return {map={[1]=@}}
return {double=@}
return {big_number=@}
return cjson.encode(@)
return cjson.decode(cjson.encode(@))
return cjson.decode(@)
return cmsgpack.pack(@)
return {cmsgpack.unpack(cmsgpack.pack(@,@))}
return {cmsgpack.unpack(@)}
return {cmsgpack.unpack_one(cmsgpack.pack(@,@),@)}
return {cmsgpack.unpack_limit(cmsgpack.pack(@,@),@,@)}
return struct.pack(@,@,@)
return {struct.unpack(@,@)}
return struct.size(@)
return {bit.band(@,@),bit.bor(@,@)}
return {bit.lshift(@,@),bit.arshift(@,@),bit.rol(@,@)}
return bit.tohex(@,@)
return {bit.tobit(@)}
return {string.find(@,@,@)}
return {string.find(@,@,@,@)}
return {string.match(@,@)}
return {string.gsub(@,@,@)}
return {string.gsub(@,@,@,@)}
return {string.gsub(@,@,function(x) return @ end)}
return {string.gsub(@,@,{a=@,x=@})}
local r = {} for a,b in string.gmatch(@,@) do r[#r+1] = a end return r
return string.rep(@,#tostring(@))
return {string.sub(@,@,@)}
return string.format(@,@)
return {string.byte(@,@,@)}
return table.concat(@,@)
return {unpack(@)}
return {tonumber(@,@)}
return {math.random(@,@)}
return math.max(@,@)
return redis.call('set','k',@)
return {redis.call('set','k',@),redis.call('get','k')}
return redis.pcall('get',@)
return redis.call(@,@)
return redis.error_reply(@)
return redis.status_reply(@)
return redis.sha1hex(@)
redis.setresp(@)
redis.log(@,@)
error(@ .. '')
return {pcall(error,@)}
return {pcall(function() return @ .. @ end)}
return @ + @
return @ < @
return @ == @
return #@
return {select(@,@,@)}
return rawget(@,@)
return setmetatable(@,@)
return loadstring(@)
return {loadstring(@)}
return next(@,@) ~= 1
return {pcall(next,@,@)} ~= nil
return {coroutine.resume(coroutine.create(function(a) return a end),@)}
local ok, e = coroutine.resume(coroutine.create(function() error(@) end)) return e
return {xpcall(function() return @ + 1 end,function(e) return e end)}
return type(@)
local t = @ t[@] = @ return t
local t = {} t[1] = @ return t[1]
return {pairs(@)} ~= nil
return {ipairs(@)} ~= nil";

const ATOMS: &str = "\
1|0|-1|2|3|7|1.5|-2.5|0.1|1e20|-1e300|255|256|65536|2147483647|2147483648|-2147483649|4294967296|9007199254740993|\
nil|true|false|''|'a'|'abc'|'x y'|'a\\nb'|'\\0'|'a\\0b'|'\\255\\200'|'10'|'0x1f'|' 5 '|'1e3'|'-'|'a.c'|'%a+'|'(%w)(%w*)'|\
'[a-c]+'|'[^a]'|'.-'|'.*b'|'^a'|'c$'|'%'|'['|'(a'|'%1'|'()'|'%b()'|'%f[%w]'|'x*'|'a?b'|'%d'|'[]'|'%5'|'%s %d'|'%q'|\
'>i2'|'<I4'|'bhl'|'s'|'c0'|'c3'|'!8d'|'f'|'[1,2]'|'{\"a\":1}'|'\"x\"'|'[1,'|'nul'|'-1.5e2'|'\\\\u00e9'|'return 1'|'=('|\
'get'|'ping'|'ERR x'|'-E y'|'k'|cjson.null|{}|{1}|{1,2,3}|{a=1}|{x='y'}|{1,nil,3}|{err='E z'}|{ok='o'}|{{1},{2,{3}}}|\
{[1]=1,[2]=2}|{1,a=2}|'\\147\\1\\2\\3'|'\\129\\161a\\1'|'\\203'|'\\192'";

#[test]
fn random_scripts_get_the_replies_of_redis() {
    let Some(mut pair) = Pair::start() else { return };
    let number_from = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seed = number_from("SHARDIS_SEED").unwrap_or(FIRST_SEED);
    println!("SHARDIS_SEED={seed} cargo test -p lua --test against_redis random");
    let mut prng = Prng::new(seed);
    let (calls, atoms): (Vec<&str>, Vec<&str>) = (CALLS.lines().collect(), ATOMS.split('|').collect());
    for number in 0..number_from("SHARDIS_REQUESTS").unwrap_or(SCRIPTS) {
        if number % 1_000 == 0 {
            pair.compare_line("FLUSHALL");
            let protocol = if number % 2_000 == 0 { "2" } else { "3" };
            pair.node.ask_raw(&[b"HELLO", protocol.as_bytes()]);
            pair.ours(&[b"HELLO", protocol.as_bytes()]);
        }
        let mut parts = calls[prng.below(calls.len() as u64) as usize].split('@');
        let mut script = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            script.push('(');
            script.push_str(atoms[prng.below(atoms.len() as u64) as usize]);
            script.push(')');
            script.push_str(part);
        }
        pair.compare(&[b"EVAL", script.as_bytes(), b"1", b"key", b"arg"]);
    }
    pair.finish();
}
