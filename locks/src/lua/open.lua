-- open: the highest number that the client has seen -> {counter}, raised to it and to the clock if necessary
local number, floor, seen = tonumber(call("GET", counter) or "0"), floor_number(), tonumber(ARGV[1])
if floor < seen then floor = seen end
if number < floor then
  number = floor
  call("SET", counter, format(whole, number))
end
return {number}
