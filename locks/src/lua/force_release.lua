-- force_release: token or "", flags (t: throughput before order)
-- -> {how many names were released}; with a token, only names whose holder has it
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
