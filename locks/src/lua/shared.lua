-- Names that several locks have at once: those that are read, and pools of permits.
--
-- Their keys are sorted sets of the holders, by when each one's part ends. A reader is the member `attempt`; a lock with
-- n permits has the members `attempt 1` to `attempt n`. A pool has one member more, `#`: its limit, as a score beyond all
-- times. A key lasts as long as the last of its holders.
--
-- Modes are a table of the names that are not written: {word = "r"}, or {word = "n/limit", count = n, limit = limit}.

local BEYOND, LIMIT_OF_POOL = 2 ^ 52, "#"

-- How many holders of one name are looked at.
local HOLDERS = "1000"

local function mode_in(word)
  local slash = find(word, "/", 1, true)
  if not slash then return word == "r" and {word = word} or nil end
  return {word = word, count = sub(word, 1, slash - 1) + 0, limit = sub(word, slash + 1) + 0}
end

-- The modes of these names, from this argument on; nil if there is none, as all names are written.
local function modes_in(arguments, from, names)
  if not arguments[from] then return nil end
  local modes = {}
  for i = 1, #names do modes[names[i]] = mode_in(arguments[from + i - 1]) end
  return modes
end

local function are_written(names, modes)
  for i = 1, #names do
    if not modes[names[i]] then return true end
  end
  return false
end

local function before_limit()
  return "(" .. format(whole, BEYOND)
end

-- Whether anybody may share it. Whoever has only mutexes needs no permission for more than this.
local function is_set(key)
  return (tonumber(ask("ZCARD", key)) or 0) > 0
end

-- Its members in the set.
local function parts_of(attempt, mode)
  if not mode.count then return {attempt} end
  local parts = {}
  for i = 1, mode.count do parts[i] = attempt .. " " .. i end
  return parts
end

local function limit_of(key, mode)
  local score = call("ZSCORE", key, LIMIT_OF_POOL)
  return score and score - BEYOND or mode.limit
end

-- Whether there is room beside those who have the name.
local function has_room(key, mode, now)
  if not mode or not is_set(key) then return call("EXISTS", key) == 0 end
  call("ZREMRANGEBYSCORE", key, "-inf", "(" .. format(whole, now))
  return not mode.count or call("ZCOUNT", key, "-inf", before_limit()) + mode.count <= limit_of(key, mode)
end

-- Has the key end with the last of its holders.
local function last_out(key)
  local last = call("ZREVRANGEBYSCORE", key, before_limit(), "-inf", "WITHSCORES", "LIMIT", "0", "1")
  if last[1] then call("PEXPIREAT", key, last[2]) else call("DEL", key) end
end

-- Adds the attempt, or extends its part.
local function join(key, attempt, mode, ttl, now)
  local ends, list = format(whole, now + ttl), {}
  for i, part in ipairs(parts_of(attempt, mode)) do list[2 * i - 1], list[2 * i] = ends, part end
  if mode.count and not call("ZSCORE", key, LIMIT_OF_POOL) then
    list[#list + 1], list[#list + 2] = format(whole, BEYOND + mode.limit), LIMIT_OF_POOL
  end
  call("ZADD", key, unpack(list))
  if call("PTTL", key) < ttl + 0 then call("PEXPIREAT", key, ends) else last_out(key) end
end

-- Whether the attempt has its part of the name; nil if nobody can have one, as the name is no set.
local function takes_part(key, attempt, mode, now)
  if not is_set(key) then return nil end
  local score = call("ZSCORE", key, parts_of(attempt, mode)[1])
  return score and score + 0 >= now
end

-- Removes the attempt. Returns whether it had its part.
local function leave(key, attempt, mode, now)
  local had = takes_part(key, attempt, mode, now)
  if had ~= nil and call("ZREM", key, unpack(parts_of(attempt, mode))) > 0 then last_out(key) end
  return had
end

-- The milliseconds until the others that read the name have gone, at the latest; nil if there are none. And one of them.
local function others_end(key, attempt, now)
  local first = format(whole, now)
  local parts = call("ZREVRANGEBYSCORE", key, before_limit(), first, "WITHSCORES", "LIMIT", "0", "2")
  for i = 1, #parts, 2 do
    if parts[i] ~= attempt then return parts[i + 1] - now, parts[i] end
  end
end

-- For how long the attempt has the name, if nobody else has a part of it.
local function has_alone(key, attempt, now)
  if not is_set(key) then
    local value = ask("GET", key)
    return type(value) == "string" and is_of(value, attempt) and call("PTTL", key)
  end
  local score = call("ZSCORE", key, attempt)
  return score and score + 0 >= now and not others_end(key, attempt, now) and score - now
end

-- The attempts that have a part of it, those first whose part ends first.
local function holders_of(key, now)
  local holders = {}
  if not is_set(key) then return holders end
  local first = format(whole, now)
  for _, part in ipairs(call("ZRANGEBYSCORE", key, first, before_limit(), "LIMIT", "0", HOLDERS)) do
    local holder = holder_in(part)
    if holders[#holders] ~= holder then holders[#holders + 1] = holder end
  end
  return holders
end

-- The latest limit counts. Returns whether it has changed.
local function set_limit(key, mode)
  local limit = is_set(key) and call("ZSCORE", key, LIMIT_OF_POOL)
  if not limit or limit - BEYOND == mode.limit then return false end
  call("ZADD", key, format(whole, BEYOND + mode.limit), LIMIT_OF_POOL)
  return true
end

-- The milliseconds until some of these may be free, or -1.
local function soonest_shared(keys, names, modes, now)
  local soonest = -1
  for i = 1, #names do
    local mode = modes[names[i]]
    local first = mode and mode.count and call("ZRANGE", keys[i + 1], "0", "0", "WITHSCORES")
    local pttl = first and (first[2] and first[2] - now or -1) or not first and call("PTTL", keys[i + 1])
    if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
  end
  return soonest
end

-- Whether the attempt has each of its names; `values` are those of the ones that are written.
local function parts_in(keys, names, modes, values, attempt, now)
  local mine, count = {}, 0
  for i = 1, #names do
    local mode = modes[names[i]]
    -- An earlier library grants to a reader what it grants to everybody: the name alone.
    mine[i] = is_of(values[i], attempt) or not values[i] and mode and takes_part(keys[i + 1], attempt, mode, now)
    if mine[i] then count = count + 1 end
  end
  return mine, count
end

-- Extends what the attempt has, which is all of it.
local function prolong_parts(keys, names, modes, values, attempt, ttl, now)
  for i = 1, #names do
    local at = i + 1
    if values[i] then
      prolong(keys, at, at, values[i], ttl)
    else
      join(keys[at], attempt, modes[names[i]], ttl, now)
    end
  end
end

-- The token of a lock that writes nothing: the highest that was given out, which may be that of the last writer.
local function seen_number()
  local number = (call("GET", counter) or 0) + 0
  return number < PER_MS and next_number() or number
end
