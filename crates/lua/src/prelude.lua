-- The part of the sandbox that is Lua itself: functions that must call other functions of a script, which native code cannot
-- do without a limit of its own. Uses no global: scripts could see it.
local native, G = ...
local real_pcall, real_xpcall, real_resume, real_load = pcall, xpcall, coroutine.resume, load
local pairs, next, select, type, tostring, rawset, byte, sub = pairs, next, select, type, tostring, rawset, string.byte, string.sub
local concat, floor, tonumber, real_unpack = table.concat, math.floor, tonumber, unpack
local caught, again, fail, place, step = native.caught, native.again, native.fail, native.place, native.step
local loadstring = loadstring
-- The tables behind the proxies that scripts see.
local reals = native.reals
local native_gsub, native_collect = native.gsub, collectgarbage

local function after_pcall(ok, ...)
  if ok then return true, ... end
  local value, is_end = caught((...))
  if is_end then again((...)) end
  if type(value) == 'table' then
    local text = value.err
    if type(text) == 'string' or type(text) == 'number' then value = text end
  end
  return false, value
end

local function after(ok, ...)
  if ok then return true, ... end
  local value, is_end = caught((...))
  if is_end then again((...)) end
  return false, value
end

-- After xpcall, whose handler has seen the value already.
local function after_handler(ok, ...)
  if not ok then
    local _, is_end = caught((...))
    if is_end then again((...)) end
  end
  return ok, ...
end

function G.pcall(...)
  if select('#', ...) == 0 then fail("bad argument #1 to 'pcall' (value expected)") end
  return after_pcall(real_pcall(...))
end

function G.xpcall(...)
  if select('#', ...) < 2 then fail("bad argument #2 to 'xpcall' (value expected)") end
  local run, handler = ...
  return after_handler(real_xpcall(run, function(object)
    local value, is_end = caught(object)
    if is_end then return object end
    return handler(value)
  end))
end

G.coroutine.resume = function(...)
  if type((...)) ~= 'thread' then fail("bad argument #1 to 'resume' (coroutine expected)") end
  return after(real_resume(...))
end

function G.load(reader, name)
  if type(reader) ~= 'function' then
    fail("bad argument #1 to 'load' (function expected, got " .. (reader == nil and 'no value' or type(reader)) .. ")")
  end
  local is_first = true
  local loaded, object = real_load(function()
    local piece = reader()
    if is_first and type(piece) == 'string' and piece ~= '' then
      is_first = false
      -- Compiled code is never loaded: it could do anything to the process.
      if byte(piece) == 27 then piece = ' ' .. piece end
    end
    return piece
  end, name)
  if loaded then return loaded end
  local value, is_end = caught(object)
  if is_end then again(object) end
  return nil, value
end

function G.pairs(...)
  local table = ...
  if type(table) ~= 'table' then
    local got = select('#', ...) == 0 and 'no value' or type(table)
    fail("bad argument #1 to 'pairs' (table expected, got " .. got .. ")")
  end
  local real = reals[table]
  if not real then return next, table, nil end
  local copy = {}
  for name, value in next, real do copy[name] = value end
  return next, copy, nil
end

-- Fails if the first argument is no table.
local function need_table(name, ...)
  if type((...)) ~= 'table' then
    local got = select('#', ...) == 0 and 'no value' or type((...))
    fail("bad argument #1 to '" .. name .. "' (table expected, got " .. got .. ")")
  end
end

-- A number as C's int, which wraps.
local function wrapped(number)
  if number ~= number or number >= 2 ^ 63 or number < -2 ^ 63 then return 0 end
  number = (number >= 0 and floor(number) or -floor(-number)) % 2 ^ 32
  return number >= 2 ^ 31 and number - 2 ^ 32 or number
end

-- An optional number as C's int.
local function int(at, default, ...)
  local given = select(at, ...)
  if given == nil then return default end
  local number = tonumber(given)
  if not number or type(given) == 'boolean' then
    fail("bad argument #" .. at .. " to 'unpack' (number expected, got " .. type(given) .. ")")
  end
  return wrapped(number)
end

-- The original counts in C's int, which wraps, and then writes beyond its stack.
function G.unpack(...)
  need_table('unpack', ...)
  local list = ...
  local first, last = int(2, 1, ...), int(3, #list, ...)
  if last - first >= 7900 then fail('too many results to unpack') end
  return real_unpack(list, first, last)
end

-- As Redis's: a step of the collector, and never its end.
function G.collectgarbage(option, argument)
  if option ~= nil and type(option) ~= 'string' then
    fail("bad argument #1 to 'collectgarbage' (string expected, got " .. type(option) .. ")")
  end
  if option == 'stop' or option == 'restart' or option == 'setpause' or option == 'setstepmul' then return 0 end
  if option ~= nil and option ~= 'collect' and option ~= 'count' and option ~= 'step' then
    fail("bad argument #1 to 'collectgarbage' (invalid option '" .. option .. "')")
  end
  return native_collect(option, tonumber(argument))
end

local function replacement(with, first, ...)
  if type(with) == 'function' then return with(first, ...) end
  return with[first]
end

-- One match with its replacement.
local function replaced(text, with, from, to, ...)
  if not from then return nil end
  local new = replacement(with, ...)
  if not new then
    new = sub(text, from, to)
  elseif type(new) ~= 'string' and type(new) ~= 'number' then
    fail('invalid replacement value (a ' .. type(new) .. ')')
  end
  return from, to, new
end

function G.string.gsub(...)
  local text, pattern, with, most = ...
  if type(with) ~= 'function' and type(with) ~= 'table' then return native_gsub(...) end
  -- Reports the errors of all other arguments.
  native_gsub(text, pattern, '', 0)
  if most ~= nil then
    local number = tonumber(most)
    if not number or type(most) == 'boolean' then
      fail("bad argument #4 to 'gsub' (number expected, got " .. type(most) .. ")")
    end
    most = wrapped(number)
  end
  text, pattern = tostring(text), tostring(pattern)
  local is_anchored = byte(pattern) == 94
  local out, len, at, count = {}, 0, 1, 0
  most = most or #text + 1
  while count < most do
    local from, to, new = replaced(text, with, step(text, pattern, at))
    if not from then break end
    out[len + 1], out[len + 2] = sub(text, at, from - 1), new
    len, count = len + 2, count + 1
    if to >= from then
      at = to + 1
    elseif from <= #text then
      len = len + 1
      out[len] = sub(text, from, from)
      at = from + 1
    else
      at = from
      break
    end
    if is_anchored then break end
  end
  out[len + 1] = sub(text, at)
  return concat(out), count
end

local function report(object)
  local value, is_end = caught(object)
  if is_end then return object end
  local source, line = place()
  if type(value) ~= 'table' then value = { err = 'ERR ' .. tostring(value) } end
  if source then
    rawset(value, 'source', source)
    rawset(value, 'line', line)
  end
  return value
end
G.__redis__err__handler = report

-- Undoes writes that library functions made to proxies, past the protection.
local function sweep(...)
  for proxy in next, reals do
    while next(proxy) ~= nil do rawset(proxy, next(proxy), nil) end
  end
  return ...
end

-- Runs the body of a script.
function native.run(body)
  return sweep(real_xpcall(body, report))
end

-- Calls a function of a library.
function native.call(callback, keys, args)
  return sweep(real_xpcall(function() return callback(keys, args) end, report))
end

-- Runs the code of a library, which registers its functions.
function native.register_all(body)
  return sweep(after(real_pcall(body)))
end

-- A function, or nil and the reason.
function native.compile(text, name)
  return loadstring(text, name)
end
