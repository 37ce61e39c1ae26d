#!lua name=pinyon_locks_7
local call, ask, sub, find, format, whole
local counter, prefix, queue, records, pure_waiters, tombstone, declared
local concat, remove, wide
local EPOCH, PER_MS, PER_US = 1704067200000, 4096, 4
local function clock()
local time = call("TIME")
local micros = time[2] + 0
return time[1] * 1000 + (micros - micros % 1000) / 1000
end
local function floor_number()
local time = call("TIME")
local micros = time[2] % 1000
return (time[1] * 1000 + (time[2] - micros) / 1000 - EPOCH) * PER_MS + micros * PER_US
end
local function next_number()
local number = call("INCR", counter)
if number < PER_MS then
local floor = floor_number()
if floor > number then
number = floor
call("SET", counter, format(whole, number))
end
end
return number
end
local function has(flags, flag)
return find(flags, flag, 1, true) ~= nil
end
local function is_of(value, attempt)
return value and (find(value, attempt .. " ", 1, true) == 1 or value == attempt)
end
local function owned(values, attempt)
local count = 0
for i = 1, #values do
if is_of(values[i], attempt) then count = count + 1 end
end
return count
end
local function holder_in(value)
local space = find(value, " ", 1, true)
if not space then return value, "" end
local past = find(value, " ", space + 1, true)
return sub(value, 1, space - 1), sub(value, space + 1, past and past - 1), past and sub(value, past + 1)
end
local function age_of(value, pttl, now)
local _, _, mark = holder_in(value)
if not mark or pttl < 0 then return -1 end
local granted = sub(mark, 1, 1) == "@"
local basis = tonumber(granted and sub(mark, 2) or mark)
if not basis then return -1 end
local age = granted and now - basis or basis - pttl
return age > 0 and age or 0
end
local function prolong(keys, first, last, value, ttl)
local attempt, token, mark = holder_in(value)
local age = mark and sub(mark, 1, 1) ~= "@" and age_of(value, call("PTTL", keys[first]), 0)
for at = first, last do call("PEXPIRE", keys[at], ttl) end
if not age then return end
value = attempt .. " " .. token .. " @" .. format(whole, clock() - age)
for at = first, last do call("PSETEX", keys[at], ttl, value) end
end
local function client_of(attempt)
local colon = find(attempt, ":", 1, true)
return colon and sub(attempt, 1, colon - 1)
end
local function owner_of(attempt)
local colon = find(attempt, ":", 1, true)
colon = colon and find(attempt, ":", colon + 1, true)
return colon and sub(attempt, 1, colon - 1)
end
local function names_in(keys)
local names, from = {}, #keys[1] + 1
for i = 2, #keys do
local name = sub(keys[i], from)
names[i - 1] = sub(keys[i], from - 2, from - 2) == "p" and "\0" .. name or name
end
return names
end
local function soonest(keys, values)
local soonest, seen = -1, {}
if #values == 1 then
soonest = call("PTTL", keys[2])
return soonest < 0 and -1 or soonest
end
for i = 1, #values do
local value = values[i]
if value and not seen[value] then
seen[value] = true
local pttl = call("PTTL", keys[i + 1])
if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
end
end
if next(seen) then return soonest end
for i = 1, #values do
local pttl = call("PTTL", keys[i + 1])
if pttl >= 0 and (soonest < 0 or pttl < soonest) then soonest = pttl end
end
return soonest
end
local BEYOND, LIMIT_OF_POOL = 2 ^ 52, "#"
local HOLDERS = "1000"
local function mode_in(word)
local slash = find(word, "/", 1, true)
if not slash then return word == "r" and {word = word} or nil end
return {word = word, count = sub(word, 1, slash - 1) + 0, limit = sub(word, slash + 1) + 0}
end
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
local function is_set(key)
return (tonumber(ask("ZCARD", key)) or 0) > 0
end
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
local function has_room(key, mode, now)
if not mode or not is_set(key) then return call("EXISTS", key) == 0 end
call("ZREMRANGEBYSCORE", key, "-inf", "(" .. format(whole, now))
return not mode.count or call("ZCOUNT", key, "-inf", before_limit()) + mode.count <= limit_of(key, mode)
end
local function last_out(key)
local last = call("ZREVRANGEBYSCORE", key, before_limit(), "-inf", "WITHSCORES", "LIMIT", "0", "1")
if last[1] then call("PEXPIREAT", key, last[2]) else call("DEL", key) end
end
local function join(key, attempt, mode, ttl, now)
local ends, list = format(whole, now + ttl), {}
for i, part in ipairs(parts_of(attempt, mode)) do list[2 * i - 1], list[2 * i] = ends, part end
if mode.count and not call("ZSCORE", key, LIMIT_OF_POOL) then
list[#list + 1], list[#list + 2] = format(whole, BEYOND + mode.limit), LIMIT_OF_POOL
end
call("ZADD", key, unpack(list))
if call("PTTL", key) < ttl + 0 then call("PEXPIREAT", key, ends) else last_out(key) end
end
local function takes_part(key, attempt, mode, now)
if not is_set(key) then return nil end
local score = call("ZSCORE", key, parts_of(attempt, mode)[1])
return score and score + 0 >= now
end
local function leave(key, attempt, mode, now)
local had = takes_part(key, attempt, mode, now)
if had ~= nil and call("ZREM", key, unpack(parts_of(attempt, mode))) > 0 then last_out(key) end
return had
end
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
local function set_limit(key, mode)
local limit = is_set(key) and call("ZSCORE", key, LIMIT_OF_POOL)
if not limit or limit - BEYOND == mode.limit then return false end
call("ZADD", key, format(whole, BEYOND + mode.limit), LIMIT_OF_POOL)
return true
end
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
local function parts_in(keys, names, modes, values, attempt, now)
local mine, count = {}, 0
for i = 1, #names do
local mode = modes[names[i]]
mine[i] = is_of(values[i], attempt) or not values[i] and mode and takes_part(keys[i + 1], attempt, mode, now)
if mine[i] then count = count + 1 end
end
return mine, count
end
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
local function seen_number()
local number = (call("GET", counter) or 0) + 0
return number < PER_MS and next_number() or number
end
local NESTED, PLAIN = "0", "1"
local QUEUED, PARKED, MIXED = "q", "p", "m"
local SWEEP = 16
local BUDGET = 2500
local function new_run(self, throughput, now)
return {
parked = prefix .. "#n", self = self, throughput = throughput, now = now or clock(), budget = BUDGET, token = false,
before = 0, waiters = {}, heads = {}, free = {}, failed = false, due = false, is_due = false, at = 0,
}
end
local function separate(waiter)
local names, modes = waiter.names, {}
for i = 1, #names do
local space = find(names[i], " ", 1, true)
local mode, name = mode_in(sub(names[i], 1, space - 1)), sub(names[i], space + 1)
if mode and mode.count then name = "\0" .. name end
names[i], modes[name] = name, mode
end
waiter.state, waiter.modes = QUEUED, modes
end
local function mixed(names, modes)
local list = {}
for i = 1, #names do
local mode = modes[names[i]]
list[i] = (mode and mode.word or "w") .. " " .. (mode and mode.count and sub(names[i], 2) or names[i])
end
return list
end
local function read(attempt, record)
local from = find(record, "\0", 35, true)
if not from then return false end
local waiter = {
attempt = attempt, expiry = sub(record, 1, 16) + 0, ticket = sub(record, 17, 32),
class = sub(record, 33, 33), state = sub(record, 34, 34), ttl = sub(record, 35, from - 1), names = {},
}
local names = waiter.names
repeat
local to = find(record, "\0", from + 1, true)
names[#names + 1] = sub(record, from + 1, to and to - 1)
from = to
until not to
if waiter.state == MIXED then separate(waiter) end
return waiter
end
local function waiter_of(run, attempt)
local waiter = run.waiters[attempt]
if waiter == nil then
local record = call("HGET", records, attempt)
waiter = record and read(attempt, record)
run.waiters[attempt] = waiter
end
return waiter
end
local function key_of(name)
return sub(name, 1, 1) == "\0" and prefix .. "p:" .. sub(name, 2) or prefix .. "l:" .. name
end
local function lock_keys(names)
local keys = {}
for i = 1, #names do keys[i] = key_of(names[i]) end
return keys
end
local function tail_of(waiter)
return "\0" .. waiter.class .. waiter.ticket .. "\0" .. waiter.attempt
end
local function members(waiter)
local list, tail = {}, tail_of(waiter)
for i = 1, #waiter.names do list[i] = waiter.names[i] .. tail end
return list
end
local function parked_member(waiter)
return concat(waiter.names, "\1") .. "\0" .. waiter.ticket .. "\0" .. waiter.attempt
end
local function keep(key, waiter_ttl)
if call("PTTL", key) < 1.5 * waiter_ttl then call("PEXPIRE", key, format(whole, 2 * waiter_ttl)) end
end
local function write(waiter, expiry, waiter_ttl)
local attempt = waiter.attempt
local modes = waiter.modes
local record = format(wide, expiry) .. waiter.ticket .. waiter.class .. (modes and MIXED or waiter.state) .. waiter.ttl
.. "\0" .. concat(modes and mixed(waiter.names, modes) or waiter.names, "\0")
if waiter.class == NESTED and waiter.state == QUEUED then
call("HSET", records, attempt, record, "o:" .. owner_of(attempt), attempt)
else
call("HSET", records, attempt, record)
end
keep(records, waiter_ttl)
end
local function save(run, waiter, waiter_ttl)
waiter.expiry = run.now + waiter_ttl
write(waiter, waiter.expiry, waiter_ttl)
run.waiters[waiter.attempt] = waiter
end
local function line_up(waiter, waiter_ttl)
local list, names, tail = {}, waiter.names, tail_of(waiter)
for i = 1, #names do list[2 * i - 1], list[2 * i] = "0", names[i] .. tail end
call("ZADD", queue, unpack(list))
keep(queue, waiter_ttl)
end
local function add_members(run, waiter, waiter_ttl)
line_up(waiter, waiter_ttl)
for i = 1, #waiter.names do run.heads[waiter.names[i]] = nil end
end
local function park(run, waiter, waiter_ttl)
call("ZADD", run.parked, "0", parked_member(waiter))
keep(run.parked, waiter_ttl)
save(run, waiter, waiter_ttl)
end
local function forget(run, waiter)
local attempt = waiter.attempt
if waiter.state == PARKED then
call("ZREM", run.parked, parked_member(waiter))
else
call("ZREM", queue, unpack(members(waiter)))
end
local owner = waiter.class == NESTED and "o:" .. owner_of(attempt)
if owner and call("HGET", records, owner) == attempt then
call("HDEL", records, attempt, owner)
else
call("HDEL", records, attempt)
end
run.waiters[attempt] = false
for i = 1, #waiter.names do run.heads[waiter.names[i]] = nil end
end
local function make_due(run, names)
local due, is_due = run.due, run.is_due
if not due then
run.due, run.at = names, 0
return
end
if not is_due then
local left = {}
is_due = {}
for i = run.at + 1, #due do
left[#left + 1] = due[i]
is_due[due[i]] = true
end
due = left
run.due, run.is_due, run.at = due, is_due, 0
end
for i = 1, #names do
local name = names[i]
if not is_due[name] then
is_due[name] = true
due[#due + 1] = name
end
end
end
local function drop(run, waiter)
forget(run, waiter)
run.budget = run.budget - #waiter.names
if waiter.state == QUEUED then
run.failed = false
make_due(run, waiter.names)
end
end
local function lexical(key, name, high, count)
return call("ZRANGEBYLEX", key, "[" .. name .. "\0", "(" .. name .. high, "LIMIT", "0", count)
end
local function live(run, name, member)
run.budget = run.budget - 1
local from = #name + 3
local waiter = waiter_of(run, sub(member, from + 17))
if not waiter or waiter.state ~= QUEUED or waiter.ticket ~= sub(member, from, from + 15) then
call("ZREM", queue, member)
return nil
end
if waiter.expiry <= run.now then
drop(run, waiter)
return nil
end
return waiter
end
local UNKNOWN = {}
local function head(run, name)
local first = run.heads[name]
if first ~= nil then return first end
repeat
if run.budget <= 0 then return UNKNOWN end
local member = lexical(queue, name, "\1", "1")[1]
first = member and live(run, name, member)
until first or not member
run.heads[name] = first or false
return run.heads[name]
end
local function sweep(run, index)
local size = call("ZCARD", queue)
if size > 0 then
local at = format(whole, index % size)
local member = call("ZRANGE", queue, at, at)[1]
live(run, sub(member, 1, (find(member, "\0", 2, true) or 1) - 1), member)
end
size = call("ZCARD", run.parked)
if size > 0 then
local at = format(whole, index % size)
local member = call("ZRANGE", run.parked, at, at)[1]
local from = (find(member, "\0", 1, true) or 0) + 1
local waiter = waiter_of(run, sub(member, from + 17))
if not waiter or waiter.state ~= PARKED or waiter.ticket ~= sub(member, from, from + 15) then
call("ZREM", run.parked, member)
elseif waiter.expiry <= run.now then
forget(run, waiter)
end
end
end
local NESTED_LOOK, THROUGHPUT_LOOK = "64", "16"
local function tell(attempt, message)
local client = client_of(attempt)
if client then call("PUBLISH", prefix .. "#c:" .. client, message) end
end
local function listens(attempt)
local client = client_of(attempt)
return client and call("PUBSUB", "NUMSUB", prefix .. "#c:" .. client)[2] > 0
end
local TOLD = "64"
local function ttl_in(value)
local _, _, mark = holder_in(value)
return mark and sub(mark, 1, 1) ~= "@" and tonumber(mark) or math.huge
end
local function have_look(name)
local from = #name + 3
for _, member in ipairs(lexical(queue, name, "\1", TOLD)) do
local attempt = sub(member, from + 17)
tell(attempt, "p " .. attempt)
end
end
local function keep_locked(keys, names, value, rest)
local attempt, token, mark = holder_in(value)
local kept = client_of(attempt) .. ":0" .. sub(attempt, #owner_of(attempt) + 1)
if mark then
local now = clock()
kept = kept .. " " .. token .. " @" .. format(whole, now - age_of(value, call("PTTL", keys[2]), now))
end
for i = 1, #names do
call("PSETEX", keys[i + 1], rest, kept)
have_look(names[i])
end
end
local function hand_over(keys, name, before)
local member = lexical(queue, name, "\1", "1")[1]
if not member then return true end
local from = #name + 3
local attempt = sub(member, from + 17)
local record = call("HGET", records, attempt)
local past = record and find(record, "\0", 35, true)
if not past or sub(record, past + 1) ~= name or sub(record, 33, 34) ~= "1q"
or sub(record, 17, 32) ~= sub(member, from, from + 15) or sub(record, 1, 16) + 0 <= clock() then
return false
end
local value, ttl = attempt .. " " .. format(whole, next_number()), sub(record, 35, past - 1)
if not listens(attempt) then return false, read(attempt, record) end
tell(attempt, "g " .. value)
call("ZREM", queue, member)
call("HDEL", records, attempt)
call("PSETEX", keys[2], ttl, value .. " " .. ttl)
if ttl + 0 < before then have_look(name) end
return true
end
local function may_use(run, waiter)
if not declared then return true end
local may, others = {}, false
for _, key in ipairs(lock_keys(waiter.names)) do
if declared[key] then may[#may + 1] = key else others = true end
end
if others and not run.self and (#may == 0 or call("EXISTS", unpack(may)) == 0) then
tell(waiter.attempt, "f " .. concat(waiter.names, "\0"))
end
return not others
end
local function only_readers_before(run, waiter, name)
local from = "[" .. name .. "\0"
repeat
local page = call("ZRANGEBYLEX", queue, from, "(" .. name .. "\1", "LIMIT", "0", "64")
for _, member in ipairs(page) do
if run.budget <= 0 then return false end
local other = live(run, name, member)
if other == waiter then return true end
local mode = other and other.modes and other.modes[name]
if other and (not mode or mode.count) then return false end
from = "(" .. member
end
until #page == 0
return true
end
local function is_in_turn(run, waiter, name)
local mode = waiter.modes[name]
if mode and not mode.count then return only_readers_before(run, waiter, name) end
local first = head(run, name)
return not first or first == waiter
end
local function finds_room(run, waiter, in_order)
for _, name in ipairs(waiter.names) do
if run.free[name] == false or not has_room(key_of(name), waiter.modes[name], run.now) then return false end
if in_order and not is_in_turn(run, waiter, name) then return false end
end
return true
end
local function occupy(run, waiter, value)
local names, modes, ttl = waiter.names, waiter.modes, waiter.ttl
for i = 1, #names do
local name = names[i]
local mode = modes and modes[name]
if mode then
join(key_of(name), waiter.attempt, mode, ttl, run.now)
run.free[name] = nil
else
call("PSETEX", key_of(name), ttl, value .. " " .. ttl)
run.free[name] = false
end
if ttl + 0 < run.before then have_look(name) end
end
end
local function fits(run, waiter, in_order)
if waiter.modes then return finds_room(run, waiter, in_order) end
local names, free, heads = waiter.names, run.free, run.heads
local all_free = true
for i = 1, #names do
local is_free, first = free[names[i]], in_order and heads[names[i]]
if is_free == false or (first and first ~= waiter) then return false end
all_free = all_free and is_free
end
if not all_free and call("EXISTS", unpack(lock_keys(names))) > 0 then return false end
if in_order then
for i = 1, #names do
if head(run, names[i]) ~= waiter then return false end
end
end
return true
end
local function try(run, waiter)
if run.failed and run.failed[waiter] then return false end
local names, modes = waiter.names, waiter.modes
run.budget = run.budget - #names
if not may_use(run, waiter) or not fits(run, waiter, waiter.class == PLAIN and not run.throughput) then
run.failed = run.failed or {}
run.failed[waiter] = true
return false
end
local attempt = waiter.attempt
local token = modes and not are_written(names, modes) and seen_number() or next_number()
local value = attempt .. " " .. format(whole, token)
if attempt == run.self then
run.token = token
elseif listens(attempt) then
tell(attempt, "g " .. value)
else
drop(run, waiter)
return false
end
forget(run, waiter)
occupy(run, waiter, value)
return true
end
local function try_in_turn(run, name)
repeat
local granted = 0
for _, member in ipairs(lexical(queue, name, "\1", "64")) do
if run.budget <= 0 then return end
local waiter = live(run, name, member)
local mode = waiter and waiter.modes and waiter.modes[name]
if waiter and try(run, waiter) then
if not mode then return end
granted = granted + 1
elseif waiter and waiter.class ~= NESTED and (not mode or mode.count) then
return
end
end
until granted == 0
end
local function try_each(run, name, high, count)
for _, member in ipairs(lexical(queue, name, high, count)) do
if run.budget <= 0 then return end
local waiter = live(run, name, member)
if waiter and try(run, waiter) and run.free[name] == false then return end
end
end
local function grant(run, names)
make_due(run, names)
while run.at < #run.due and run.budget > 0 do
run.at = run.at + 1
local name = run.due[run.at]
if run.is_due then run.is_due[name] = nil end
if run.free[name] == false then
elseif run.throughput then
try_each(run, name, "\1", THROUGHPUT_LOOK)
else
local first = head(run, name)
if first and first.modes then
try_in_turn(run, name)
elseif first and first.class == NESTED then
try_each(run, name, "\0001", NESTED_LOOK)
elseif first and first ~= UNKNOWN then
try(run, first)
end
end
end
run.due, run.is_due = false, false
end
local function pure_wait()
return call("EXISTS", pure_waiters) == 1
end
local function announce(run, names)
local free = {}
for i = 1, #names do
if run.free[names[i]] ~= false then free[#free + 1] = names[i] end
end
if #free > 0 then call("PUBLISH", prefix .. "#freed", concat(free, "\0")) end
end
local OWNERS = 1000
local function in_the_way(run, keys, first, waiter, values)
local names, modes, all = waiter.names, waiter.modes, {}
for i = 1, #names do
if values[i] then
all[#all + 1] = values[i]
elseif not (modes and modes[names[i]]) then
for _, holder in ipairs(holders_of(keys[first + i - 1], run.now)) do all[#all + 1] = holder end
end
end
return all
end
local function cycle(run, attempt, values)
local me, seen, found = owner_of(attempt), {}, {}
local at = 0
repeat
for _, value in ipairs(values) do
local holder = value and holder_in(value)
local owner = holder and owner_of(holder)
if owner == me then
local reply, from = {4}, at
local turns = {holder}
while from > 0 do
turns[#turns + 1] = found[from].holder
from = found[from].from
end
for i = #turns, 1, -1 do reply[#reply + 1] = turns[i] end
return reply
elseif owner and not seen[owner] and #found < OWNERS then
seen[owner] = true
found[#found + 1] = {holder = holder, owner = owner, from = at}
end
end
values = {}
at = at + 1
local waiting = found[at] and call("HGET", records, "o:" .. found[at].owner)
local waiter = waiting and waiter_of(run, waiting)
if waiter and waiter.expiry > run.now and may_use(run, waiter) then
local keys = lock_keys(waiter.names)
values = in_the_way(run, keys, 1, waiter, call("MGET", unpack(keys)))
end
until not found[at]
end
local function place_of(attempt)
local number = sub(attempt, -17, -17) == ":" and sub(attempt, -16)
return number and not find(number, ":", 1, true) and sub(number, 1, 14)
end
local function rank_of(attempt)
local place = place_of(attempt)
return place and tonumber(sub(place, 2, 7), 16) * 2 ^ 28 + tonumber(sub(place, 8), 16)
end
local function precedes(attempt, other)
local place, its = place_of(attempt), place_of(other)
return place and its and (place < its or place == its and attempt < other)
end
local function contest(run, waiter, values)
for i = 1, #values do
local holder = values[i] and holder_in(values[i])
if holder and precedes(waiter.attempt, holder) then
local first = head(run, waiter.names[i])
if first and first.attempt == waiter.attempt then tell(holder, "c " .. holder) end
end
end
end
local function stay(run, keys, waiter, ttl, waiter_ttl)
waiter.ttl = ttl
save(run, waiter, waiter_ttl)
if waiter.state == PARKED then
keep(run.parked, waiter_ttl)
return -1
end
if not waiter.modes and call("ZSCORE", queue, members(waiter)[1]) then
keep(queue, waiter_ttl)
else
add_members(run, waiter, waiter_ttl)
end
try(run, waiter)
grant(run, waiter.names)
if run.token then return run.token end
local values = call("MGET", unpack(keys, 2))
local deadlock = waiter.class == NESTED and cycle(run, waiter.attempt, in_the_way(run, keys, 2, waiter, values))
if deadlock then
drop(run, waiter)
grant(run, {})
return deadlock
end
if waiter.modes then return -2 - soonest_shared(keys, waiter.names, waiter.modes, run.now) end
contest(run, waiter, values)
return -2 - soonest(keys, values)
end
local function standing(keys, attempt, ttl, waiter_ttl, throughput, modes)
local values = call("MGET", tombstone .. attempt, unpack(keys, 2))
if remove(values, 1) then return {3} end
local left = owned(values, attempt)
if modes then
local names, now = names_in(keys), clock()
local mine
mine, left = parts_in(keys, names, modes, values, attempt, now)
if left == #values then
prolong_parts(keys, names, modes, values, attempt, ttl, now)
for i = 1, #values do
local _, token = holder_in(values[i] or "")
if token ~= "" then return tonumber(token) or 0 end
end
return seen_number()
end
left = left > 0 and mine
elseif left == #values then
prolong(keys, 2, #keys, values[1], ttl)
local _, token = holder_in(values[1])
return tonumber(token) or 0
end
local record = call("HGET", records, attempt)
local waiter = record and read(attempt, record)
if not waiter then return nil, values, left end
local run = new_run(attempt, throughput)
run.waiters[attempt] = waiter
return stay(run, keys, waiter, ttl, waiter_ttl)
end
local function first_of(values)
for i = 1, #values do
if values[i] then return values[i] end
end
return false
end
local function first_holding(keys, values)
for i = 1, #values do
if values[i] then return values[i], age_of(values[i], call("PTTL", keys[i + 1]), clock()) end
end
return false, -1
end
local function first_of_set(keys)
for i = 2, #keys do
local holder = holders_of(keys[i], clock())[1]
if holder then return holder end
end
end
local function anyone_waits(run, names)
for i = 1, #names do
if head(run, names[i]) then return true end
end
return false
end
local function enqueue(run, waiter, waiter_ttl, throughput)
local ticket, now = rank_of(waiter.attempt) or next_number(), run and run.now or clock()
waiter.ticket = format(wide, ticket)
line_up(waiter, waiter_ttl)
write(waiter, now + waiter_ttl, waiter_ttl)
if run then run.heads, run.waiters[waiter.attempt] = {}, nil end
if ticket % SWEEP == 0 then
run = run or new_run(waiter.attempt, throughput, now)
sweep(run, ticket / SWEEP)
end
return run
end
local function take(keys, attempt, ttl, waiter_ttl, wait, nested, throughput)
local known, values, left = standing(keys, attempt, ttl, waiter_ttl, throughput)
if known then return known end
local names, holder = names_in(keys), first_of(values)
local run = (nested or left > 0 or not holder) and new_run(attempt, throughput)
if left > 0 then
for i = 1, #values do
if is_of(values[i], attempt) then
call("DEL", keys[i + 1])
values[i] = false
make_due(run, {names[i]})
end
end
holder = first_of(values)
end
if not holder and not nested and not throughput and anyone_waits(run, names) then
grant(run, names)
values = call("MGET", unpack(keys, 2))
holder = first_of(values) or anyone_waits(run, names)
end
local other = not holder and call("EXISTS", unpack(keys, 2)) > 0
holder = holder or other
local reply
if not holder then
local token = next_number()
local value = attempt .. " " .. format(whole, token) .. " " .. ttl
for i = 1, #names do
call("PSETEX", keys[i + 1], ttl, value)
run.free[names[i]] = false
end
reply = token
elseif not wait then
local value, age = first_holding(keys, values)
reply = {2, soonest(keys, values), value or first_of_set(keys) or other and 0, age}
else
local waiter = {
attempt = attempt, ticket = false, class = nested and NESTED or PLAIN, state = QUEUED, ttl = ttl, names = names,
}
reply = nested and cycle(run, attempt, in_the_way(run, keys, 2, waiter, values))
if not reply then
run = enqueue(run, waiter, waiter_ttl, throughput)
if place_of(attempt) then
run = run or new_run(attempt, throughput)
if not first_of(values) then make_due(run, names) end
contest(run, waiter, values)
end
reply = -2 - soonest(keys, values)
end
end
if not run then return reply end
grant(run, {})
return run.token or reply
end
local function share(keys, attempt, ttl, waiter_ttl, flags, modes)
local nested, throughput = has(flags, "n"), has(flags, "t")
local known, values, mine = standing(keys, attempt, ttl, waiter_ttl, throughput, modes)
if known then return known end
local run, names = new_run(attempt, throughput), names_in(keys)
for i = 1, #names do
local mode, key = modes[names[i]], keys[i + 1]
if mine and mine[i] then
if values[i] then call("DEL", key) else leave(key, attempt, mode, run.now) end
make_due(run, {names[i]})
end
if mode and mode.count and set_limit(key, mode) then make_due(run, {names[i]}) end
end
local in_order = not nested and not throughput
if in_order and anyone_waits(run, names) then grant(run, names) end
local waiter = {
attempt = attempt, ticket = false, class = nested and NESTED or PLAIN, state = QUEUED, ttl = ttl, names = names,
modes = modes,
}
local reply
if finds_room(run, waiter, in_order) then
reply = are_written(names, modes) and next_number() or seen_number()
occupy(run, waiter, attempt .. " " .. format(whole, reply))
else
values = call("MGET", unpack(keys, 2))
local pttl = soonest_shared(keys, names, modes, run.now)
if not has(flags, "w") then
local value, age = first_holding(keys, values)
local other = not value and call("EXISTS", unpack(keys, 2)) > 0
reply = {2, pttl, value or first_of_set(keys) or other and 0, age}
else
reply = nested and cycle(run, attempt, in_the_way(run, keys, 2, waiter, values))
if not reply then
enqueue(run, waiter, waiter_ttl, throughput)
reply = -2 - pttl
end
end
end
grant(run, {})
return run.token or reply
end
redis.register_function{function_name = 'pinyon_open_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local number, floor, seen = tonumber(call("GET", counter) or "0"), floor_number(), tonumber(ARGV[1])
if floor < seen then floor = seen end
if number < floor then
number = floor
call("SET", counter, format(whole, number))
end
return {number}
end}
redis.register_function{function_name = 'pinyon_lock_7', flags = {}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt = ARGV[1]
if not ARGV[5] and call("EXISTS", tombstone .. attempt, queue, records, unpack(KEYS, 2)) == 0 then
local token = call("INCR", counter)
if token >= 4096 then
local ttl = ARGV[2]
local value = attempt .. " " .. format(whole, token) .. " " .. ttl
for i = 2, #KEYS do call("PSETEX", KEYS[i], ttl, value) end
return token
end
end
local flags, waiter_ttl = ARGV[4], ARGV[3] + 0
if ARGV[5] then return share(KEYS, attempt, ARGV[2], waiter_ttl, flags, modes_in(ARGV, 5, names_in(KEYS))) end
if flags == "w" then return take(KEYS, attempt, ARGV[2], waiter_ttl, true, false, false) end
return take(KEYS, attempt, ARGV[2], waiter_ttl, has(flags, "w"), has(flags, "n"), has(flags, "t"))
end}
redis.register_function{function_name = 'pinyon_unlock_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, flags, count = ARGV[1], ARGV[2] or "", #KEYS - 1
local first = count == 1 and ask("GET", KEYS[2])
local values = count == 1 and not (first and first.err) and {first} or call("MGET", unpack(KEYS, 2))
first = values[1]
local all = first and (find(first, attempt .. " ", 1, true) == 1 or first == attempt)
for i = 2, count do
if values[i] ~= first then all = false end
end
if all and not ARGV[3] then
local alone = (flags == "" or flags == "t") and call("EXISTS", queue, pure_waiters) == 0
call("DEL", unpack(KEYS, 2))
if alone then return count end
end
local names, pure = names_in(KEYS), pure_wait()
local handed_over, deaf
local rest = has(flags, "k") and ARGV[3]
if all and rest then
keep_locked(KEYS, names, first, rest)
if has(flags, "x") then call("SET", tombstone .. attempt, "", "PX", "60000") end
if pure then announce({free = {}}, names) end
return count
end
if all and count == 1 and flags == "" and not pure then handed_over, deaf = hand_over(KEYS, names[1], ttl_in(first)) end
if handed_over then return count end
local run, freed, modes = new_run(false, has(flags, "t")), names, modes_in(ARGV, rest and 4 or 3, names)
if all then run.before = ttl_in(first) end
if all and modes then call("DEL", unpack(KEYS, 2)) end
if not all then
freed = {}
for i = 1, count do
local mode = modes and modes[names[i]]
if is_of(values[i], attempt) then
freed[#freed + 1] = names[i]
call("DEL", KEYS[i + 1])
elseif mode and leave(KEYS[i + 1], attempt, mode, run.now) then
freed[#freed + 1] = names[i]
end
end
end
for i = 1, #freed do run.free[freed[i]] = not (modes and modes[freed[i]]) or nil end
if has(flags, "x") then call("SET", tombstone .. attempt, "", "PX", "60000") end
local waiter = deaf or not all and waiter_of(run, attempt)
if waiter then drop(run, waiter) end
grant(run, names)
if pure then announce(run, freed) end
return #freed
end}
redis.register_function{function_name = 'pinyon_poll_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local modes = modes_in(ARGV, 5, names_in(KEYS))
return standing(KEYS, ARGV[1], ARGV[2], ARGV[3], has(ARGV[4], "t"), modes) or {5}
end}
redis.register_function{function_name = 'pinyon_extend_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local function extend_shared(keys, attempt, ttl, values, from)
local names, now = names_in(keys), clock()
local modes = modes_in(ARGV, from, names)
local _, count = parts_in(keys, names, modes, values, attempt, now)
if count < #names then return 0 end
prolong_parts(keys, names, modes, values, attempt, ttl, now)
return 1
end
local reply, key, at = {}, 2, 2
for i = 1, tonumber(ARGV[1]) do
local attempt, ttl, count = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
local shared = count < 0
if shared then count = -count end
local past = key + count
local values = call("MGET", unpack(KEYS, key, past - 1))
at = at + 3
if shared then
reply[i] = extend_shared({KEYS[1], unpack(KEYS, key, past - 1)}, attempt, ttl, values, at)
at = at + count
else
reply[i] = owned(values, attempt) == count and 1 or 0
if reply[i] == 1 then prolong(KEYS, key, past - 1, values[1], ttl) end
end
key = past
end
return reply
end}
redis.register_function{function_name = 'pinyon_raise_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, ttl, floor = ARGV[1], ARGV[2], ARGV[3]
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then return {0} end
prolong(KEYS, 2, #KEYS, values[1], ttl)
if floor + 0 > (call("GET", counter) or 0) + 0 then call("SET", counter, floor) end
local _, token, mark = holder_in(call("GET", KEYS[2]))
if mark and floor + 0 > token + 0 then
for at = 2, #KEYS do call("PSETEX", KEYS[at], ttl, attempt .. " " .. floor .. " " .. mark) end
end
return {1}
end}
redis.register_function{function_name = 'pinyon_park_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(false, has(flags, "t"))
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then
local waiter = waiter_of(run, attempt)
return waiter and -1 or {6}
end
call("DEL", unpack(KEYS, 2))
run.before = ttl_in(values[1])
local names, ticket = names_in(KEYS), next_number()
park(run, {
attempt = attempt, ticket = format(wide, ticket), class = has(flags, "n") and NESTED or PLAIN, state = PARKED,
ttl = ARGV[2], names = names,
}, ARGV[3])
grant(run, names)
if pure_wait() then announce(run, names) end
return -1
end}
redis.register_function{function_name = 'pinyon_unpark_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, flags = ARGV[1], ARGV[4]
local run = new_run(attempt, false)
local waiter = waiter_of(run, attempt)
if waiter and waiter.state == PARKED then forget(run, waiter) end
return take(KEYS, attempt, ARGV[2], ARGV[3], true, has(flags, "n"), has(flags, "t"))
end}
redis.register_function{function_name = 'pinyon_notify_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, most = ARGV[1], tonumber(ARGV[2])
local run = new_run(false, false)
local values = call("MGET", unpack(KEYS, 2))
if owned(values, attempt) < #values then return {6} end
local names = names_in(KEYS)
local joined, exactly = concat(names, "\1"), concat(names, "\0")
local others, moved = 0, 0
local function hears(waiter)
return call("PUBSUB", "NUMSUB", prefix .. "#c:" .. client_of(waiter.attempt))[2] > 0
end
local function move(member)
local from = #joined + 2
local waiter = waiter_of(run, sub(member, from + 17))
if not waiter or waiter.state ~= PARKED or waiter.ticket ~= sub(member, from, from + 15) then
call("ZREM", run.parked, member)
elseif waiter.expiry <= run.now or not hears(waiter) then
forget(run, waiter)
elseif concat(waiter.names, "\0") ~= exactly then
return true
else
call("ZREM", run.parked, member)
waiter.ticket, waiter.state = format(wide, next_number()), QUEUED
local left = format(whole, waiter.expiry - run.now)
add_members(run, waiter, left)
save(run, waiter, left)
moved = moved + 1
end
end
repeat
local page = call("ZRANGEBYLEX", run.parked, "[" .. joined .. "\0", "(" .. joined .. "\1", "LIMIT", others, "64")
for _, member in ipairs(page) do
if most > 0 and moved == most then break end
if move(member) then others = others + 1 end
end
until #page == 0 or (most > 0 and moved == most)
return {0, moved}
end}
redis.register_function{function_name = 'pinyon_inspect_7', flags = {'no-writes'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local function shared_value(key, holders)
local limit = call("ZSCORE", key, LIMIT_OF_POOL)
local value = {limit and limit - BEYOND or -1, call("ZCOUNT", key, format(whole, clock()), before_limit())}
for i = 1, #holders do value[i + 2] = holders[i] end
return value
end
local run, reply = new_run(false, false), {}
local values = call("MGET", unpack(KEYS, 2))
for i, name in ipairs(names_in(KEYS)) do
local pttl = call("PTTL", KEYS[i + 1])
local holders = not values[i] and pttl ~= -2 and holders_of(KEYS[i + 1], run.now)
local value = values[i] or holders and (holders[1] and shared_value(KEYS[i + 1], holders) or 0)
local entry = {value, pttl, values[i] and age_of(values[i], pttl, run.now) or -1}
for _, member in ipairs(lexical(queue, name, "\1", "1000")) do
local from = #name + 3
local waiter = waiter_of(run, sub(member, from + 17))
if waiter and waiter.ticket == sub(member, from, from + 15) and waiter.expiry > run.now then
entry[#entry + 1] = waiter.attempt
end
end
reply[i] = entry
end
return reply
end}
redis.register_function{function_name = 'pinyon_force_release_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local only = ARGV[1]
local run, freed, told = new_run(false, has(ARGV[2], "t")), {}, {}
local values, names = call("MGET", unpack(KEYS, 2)), names_in(KEYS)
for i = 1, #names do
local value = values[i]
local holder, token
if value then holder, token = holder_in(value) end
local holders = value and {holder} or only == "" and holders_of(KEYS[i + 1], run.now) or {}
if (only == "" or value and only == token) and call("DEL", KEYS[i + 1]) == 1 then
run.before = math.huge
freed[#freed + 1] = names[i]
for _, of in ipairs(holders) do
if not told[of] then tell(of, "l " .. of) end
told[of] = true
end
end
end
grant(run, names)
if pure_wait() then announce(run, freed) end
return {#freed}
end}
redis.register_function{function_name = 'pinyon_rate_7', flags = {}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local cost, most, ticks = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local time, value = call("TIME"), call("GET", KEYS[2])
local now, ahead, went_back = time[1] * 1000000 + time[2], 0, false
local _, _, at, was, per = find(value or "", "^(%d+) (%d+) (%d+)$")
if at then
ahead = per + 0 == ticks and was + 0 or math.ceil(was / per) * ticks
went_back = now < at + 0
if not went_back then ahead = math.max(ahead - (now - at) * ticks, 0) end
ahead = math.min(ahead, 2^53 - 2)
end
local taken = ahead + cost <= most
if taken then ahead = ahead + cost end
if taken or went_back then
local text = format(whole, now) .. " " .. format(whole, ahead) .. " " .. format(whole, ticks)
call("SET", KEYS[2], text, "PX", format(whole, math.ceil(ahead / ticks / 1000) + 1))
end
return taken and ahead or -1 - ahead
end}
redis.register_function{function_name = 'pinyon_adopt_7', flags = {'allow-oom'}, callback = function(KEYS, ARGV)
if not call then call, ask, sub, find, format = redis.call, redis.pcall, string.sub, string.find, string.format
whole = format('%d', 2^53) == '9007199254740992' and '%d' or '%.0f'
concat, remove, wide = table.concat, table.remove, '%016' .. sub(whole, 2)
end
declared = false
if KEYS[1] ~= counter then
if not counter or sub(KEYS[1], 1, -3) ~= prefix then
prefix = sub(KEYS[1], 1, -3)
counter, queue, records = prefix .. '#f', prefix .. '#q', prefix .. '#w'
pure_waiters, tombstone = prefix .. '#p', prefix .. '#x:'
end
if KEYS[1] ~= counter then
local first, at = KEYS[1], 2
while KEYS[at] ~= counter do at = at + 1 end
KEYS = {unpack(KEYS, at)}
if first == pure_waiters then
declared = {}
for i = 2, #KEYS do declared[KEYS[i]] = true end
end
end
end
local attempt, ttl, from = ARGV[1], ARGV[2], ARGV[3]
local values = call("MGET", tombstone .. attempt, unpack(KEYS, 2))
if remove(values, 1) then return {3} end
if owned(values, attempt) == #values then
prolong(KEYS, 2, #KEYS, values[1], ttl)
local _, token = holder_in(values[1])
return tonumber(token) or 0
end
if owned(values, from) < #values then return {6} end
local token, names, before = next_number(), names_in(KEYS), ttl_in(values[1])
local value = attempt .. " " .. format(whole, token) .. " " .. ttl
for i = 1, #names do
call("PSETEX", KEYS[i + 1], ttl, value)
if ttl + 0 < before then have_look(names[i]) end
end
return token
end}
