-- The shared library without a C compiler: LuaJIT reads the header itself.
--
--     luajit blocking.lua 127.0.0.1:11211
--
-- The library and the header are where they were installed, or where PINYON_LIBRARY and PINYON_HEADER say.
local ffi = require("ffi")

local function declarations()
    local file = assert(io.open(os.getenv("PINYON_HEADER") or "/usr/local/include/pinyon.h"))
    local header = file:read("*a")
    file:close()
    header = header:gsub("/%*.-%*/", ""):gsub("#ifdef __cplusplus.-#endif", "")
    header = header:gsub("static inline.-\n}\n", ""):gsub("#[^\n]*", "")
    return header
end

ffi.cdef(declarations())
local library = ffi.load(os.getenv("PINYON_LIBRARY") or "libpinyon.so.1")
assert(library.pinyon_abi() == 1, "this script is for the interface with the number 1")

-- Strings are kept until the call is over, as Lua collects those that nothing refers to.
local function bytes(text) return ffi.new("pinyon_bytes", {text, #text}) end
local function text(bytes) return bytes.start ~= nil and ffi.string(bytes.start, bytes.size) or nil end

local Client = {}
Client.__index = Client

local function new_client(options)
    local given, count = ffi.new("pinyon_option[?]", 16), 0
    for name, value in pairs(options) do
        given[count].name = name
        given[count].value = bytes(value)
        count = count + 1
    end
    local failure = ffi.new("pinyon_error *[1]")
    local handle = library.pinyon_client_new(given, count, failure)
    if handle == nil then
        local message = ffi.string(library.pinyon_error_message(failure[0]))
        library.pinyon_error_free(failure[0])
        error(message, 2)
    end
    local reply = ffi.new("pinyon_reply", {ffi.sizeof("pinyon_reply")})
    local client = {
        handle = ffi.gc(handle, library.pinyon_client_free),
        reply = ffi.gc(reply, library.pinyon_reply_clear),
    }
    return setmetatable(client, Client)
end

function Client:run(verb, key, fields)
    local request = ffi.new("pinyon_request", {ffi.sizeof("pinyon_request"), verb})
    request.key = bytes(key)
    for name, value in pairs(fields or {}) do request[name] = value end
    local status = library.pinyon_run(self.handle, request, self.reply, nil)
    if status == library.PINYON_FAILED then
        error(ffi.string(library.pinyon_error_message(self.reply.error)), 3)
    end
    return status == library.PINYON_DONE, self.reply
end

function Client:get(key)
    local found, reply = self:run(library.PINYON_GET, key)
    return found and text(reply.value) or nil
end

function Client:set(key, value, ttl)
    return (self:run(library.PINYON_SET, key, {value = bytes(value), ttl = ttl or 0}))
end

function Client:incr(key, delta, initial)
    local fields = {delta = delta, initial = initial, with = library.PINYON_WITH_INITIAL}
    local _, reply = self:run(library.PINYON_INCR, key, fields)
    return tonumber(reply.number)
end

local client = new_client({servers = arg[1] or "127.0.0.1:11211", namespace = "lua:", timeout = "30", connect_timeout = "30"})
client:set("user:1", "Ada", 60)
print("user:1: " .. client:get("user:1"))
print("user:2: " .. tostring(client:get("user:2")))
client:incr("visits", 1, 1)
print("visits: " .. client:incr("visits", 1, 1))
local refused, why = pcall(new_client, {time_out = "5"})
print(refused, why)
