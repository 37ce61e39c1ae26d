-- open: the highest number that the client has seen -> {counter}, raised to it and to the clock if necessary
local counter, floor, seen = tonumber(call("GET", KEYS[1]) or "0"), floor_number(), tonumber(ARGV[1])
if floor < seen then floor = seen end
if counter < floor then
  counter = floor
  call("SET", KEYS[1], format(whole, counter))
end
return {counter}
