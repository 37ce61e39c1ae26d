-- open -> {counter}, raised to the clock if necessary
local counter, floor = tonumber(call("GET", KEYS[1]) or "0"), floor_number()
if counter < floor then
  counter = floor
  call("SET", KEYS[1], format(whole, counter))
end
return {counter}
