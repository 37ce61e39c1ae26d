# frozen_string_literal: true

# A program whose main thread a signal strikes at any condition of what acquires: ruby struck.rb REDIS MEMCACHED ROUNDS.
# It prints what is left of each way. An interrupt of another thread comes at such places, too, but rarely.

require "pinyon/compat/redis_em_mutex"
require "pinyon/compat/redlock"

# Raised by the handler of the signal.
class Struck < StandardError; end

redis, memcached, rounds = ARGV
generous = { command_timeout: 60, connect_timeout: 60 }
locks = Pinyon::Locks.new("unix://#{redis}", ttl: 600, timeout: 60, namespace: "struck", **generous)
cache = Pinyon::Client.new(memcached, timeout: 60, connect_timeout: 60)
redlock = Pinyon::Compat::Redlock::Client.new(["unix://#{redis}"], redis_timeout: 60)
Mutexes = Pinyon::Compat::RedisEMMutex
Mutexes.setup(url: "unix://#{redis}", expire: 600)

armed = false
trap("USR1") do
  if armed
    armed = false
    raise Struck
  end
end
struck = Process.pid
striker = fork do
  loop do
    Process.kill("USR1", struck)
    sleep(0.0001)
  end
rescue Errno::ESRCH
  exit!(0)
end

# Each way in a branch of its own: a value that leaves a method of Ruby may be lost at its end.
%i[lock try_lock lease redlock mutex].each do |way|
  strikes = 0
  Integer(rounds).times do |round|
    got = nil
    begin
      armed = true
      case way
      when :lock then got = locks.lock("lock")
      when :try_lock then got = locks.try_lock("try_lock")
      when :lease then got = cache.lease("#{struck}:#{round}", lease: 600)
      when :redlock then got = redlock.lock("redlock", 600_000)
      when :mutex then got = Mutexes.lock("mutex")
      end
      armed = false
    rescue Struck
      strikes += 1
    end
    case got
    when Pinyon::Lease then got.give_back if got.open?
    when Hash then redlock.unlock(got)
    when Mutexes then got.unlock
    when Pinyon::Held then got.release
    end
  end
  look = lambda do
    case way
    when :lease then Integer(rounds).times.count { |round| cache.lease("#{struck}:#{round}", lease: 600).filling? }
    when :redlock then redlock.locked?("redlock") ? 1 : 0
    when :mutex then Mutexes.new("mutex").locked? ? 1 : 0
    else locks.locked?(way) ? 1 : 0
    end
  end
  left = look.call
  # Nobody has waited for the last release.
  100.times { left.zero? || way == :lease ? break : sleep(0.1) && left = look.call }
  puts "#{way}: #{left} left, #{strikes.positive? ? "struck" : "never struck"}"
rescue Pinyon::Error, Mutexes::MutexError => e
  puts "#{way}: #{e.class}: #{e.message}"
end
Process.kill("KILL", striker)
