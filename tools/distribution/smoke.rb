# frozen_string_literal: true

# What a user does first, with the gem that is installed: `ruby smoke.rb`.

require "async"
require "pinyon"
require "tmpdir"

SECONDS = 30

def check(fact, what)
  raise "smoke: #{what}" unless fact
end

# It is the installed one, and its native half with it.
def installed
  gem = Gem.loaded_specs.fetch("pinyon")
  loaded = $LOADED_FEATURES.grep(%r{pinyon.*/native\.}).first
  check(gem.full_gem_path.start_with?(ENV.fetch("GEM_HOME")), "#{gem.full_gem_path} is outside of GEM_HOME")
  check(loaded.start_with?(ENV.fetch("GEM_HOME")), "#{loaded} is outside of GEM_HOME")
  check(Pinyon::VERSION == gem.version.to_s, "the versions of the gem and the library differ")
end

def cache_in_threads(memcached)
  cache = Pinyon::Client.new(memcached, timeout: SECONDS, connect_timeout: SECONDS)
  8.times.map { |number| Thread.new { cache.set("row:#{number}", { "number" => number }, ttl: 60) } }.each(&:join)
  check(cache.get("row:7") == { "number" => 7 }, "a value of another thread is missing")
  check(cache.get_many(%w[row:1 missing]).keys == ["row:1"], "many keys")
  cache.get("a key")
  raise "smoke: a key with a space was accepted"
rescue Pinyon::InvalidKey
  cache.close
end

# Compression and its reverse, by each library that is built in.
def large_values(memcached)
  %w[zlib zstd].each do |algorithm|
    cache = Pinyon::Client.new(memcached, compression: { algorithm: }, timeout: SECONDS, connect_timeout: SECONDS)
    cache.set(algorithm, "pinyon " * 10_000)
    check(cache.get(algorithm) == "pinyon " * 10_000, algorithm)
  end
end

def in_fibers(memcached, locks)
  cache = Pinyon::Client.new(memcached, timeout: SECONDS, connect_timeout: SECONDS)
  Async do |task|
    tasks = (1..100).map { |number| task.async { cache.set("fiber:#{number}", number) && cache.get("fiber:#{number}") } }
    check(tasks.map(&:wait) == (1..100).to_a, "values in fibers")
    check(locks.synchronize("fiber", timeout: SECONDS, &:token).positive?, "a lock in a fiber")
  end
end

# Starts memcached and Redis on sockets of their own.
def with_servers(folder)
  sockets = %w[memcached redis].map { |name| File.join(folder, name) }
  commands = [["memcached", "-u", "root", "-s", sockets[0]],
              ["redis-server", "--port", "0", "--save", "", "--unixsocket", sockets[1]]]
  processes = commands.map { |command| Process.spawn(*command, chdir: folder, out: File::NULL) }
  until_time = Time.now + SECONDS
  sleep(0.01) until sockets.all? { |socket| File.socket?(socket) } || Time.now > until_time
  check(sockets.all? { |socket| File.socket?(socket) }, "servers did not start within #{SECONDS} seconds")
  yield(*sockets)
ensure
  processes&.each do |process|
    Process.kill(:TERM, process)
    Process.wait(process)
  end
end

installed
Dir.mktmpdir("pinyon") do |folder|
  with_servers(folder) do |memcached, redis|
    cache_in_threads(memcached)
    large_values(memcached)
    locks = Pinyon::Locks.new("unix://#{redis}", command_timeout: SECONDS, connect_timeout: SECONDS)
    check(locks.synchronize("a", "b", timeout: SECONDS, &:token).positive?, "a lock of two names")
    in_fibers(memcached, locks)
  end
end
puts "smoke: pinyon #{Pinyon::VERSION} works in Ruby #{RUBY_VERSION}, with async #{Async::VERSION}"
