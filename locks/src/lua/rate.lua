-- rate: cost, most, ticks per microsecond
-- -> ticks ahead, if the rate was ahead by so few that it is ahead by at most `most` now; otherwise -1 - ticks ahead
--
-- The key `P r:name` keeps `time ahead ticks`: by how many ticks the rate was ahead at that time, in microseconds. It
-- expires when the rate is whole again, and not before: the server's ttl begins up to a millisecond earlier.
local cost, most, ticks = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0
local time, value = call("TIME"), call("GET", KEYS[2])
local now, ahead, went_back = time[1] * 1000000 + time[2], 0, false
local _, _, at, was, per = find(value or "", "^(%d+) (%d+) (%d+)$")
if at then
  -- With another limit or period, a microsecond has other ticks.
  ahead = per + 0 == ticks and was + 0 or math.ceil(was / per) * ticks
  -- If the server's clock is set back, time goes on from there.
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
