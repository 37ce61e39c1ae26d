-- inspect -> for each name {value, pttl, age, attempts that wait, ...}: at most a thousand live ones.
-- The value of a free name is nil, and that of a shared one {limit or -1, how many members, holder, ...}. Any other that
-- is no string is 0.
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
