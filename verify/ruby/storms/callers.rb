# frozen_string_literal: true

require "pinyon/compat/redis_em_mutex"
require "pinyon/compat/redlock"

# What threads of a storm do, and whether something is left of what was interrupted.
class Callers
  NAMES = %w[a b c d e f].freeze
  # Seconds within which a lock that nobody has must be free: much less than its ttl, which is renewed.
  PATIENCE = 20
  # Seconds for which a lease is kept that nobody gives back, and a lock that nobody releases.
  LEFT = 600
  # Those of Pinyon's own locks; the methods below have further ones.
  WAYS = %i[synchronize lock try_lock].freeze
  # Made before: to make a Hash, Ruby calls a method, at whose end an interrupt may come.
  NEVER = { Object => :never }.freeze
  REFUSED = [
    Pinyon::LockTimeout, Pinyon::AlreadyHeld, Pinyon::Deadlock, Pinyon::Compat::RedisEMMutex::MutexError
  ].freeze

  # @param ways [Array<String>] the names of the methods by which threads acquire; those of WAYS if it is empty
  def initialize(redis, memcached, seed, ways)
    url = "unix://#{redis}"
    patient = { command_timeout: PATIENCE, connect_timeout: PATIENCE }
    @locks = Pinyon::Locks.new(url, ttl: LEFT, timeout: PATIENCE, **patient)
    @redlock = Pinyon::Compat::Redlock::Client.new([url], retry_count: PATIENCE, retry_delay: 1000,
                                                          redis_timeout: PATIENCE)
    Pinyon::Compat::RedisEMMutex.setup(url:, expire: LEFT)
    @cache = Pinyon::Client.new(memcached, timeout: PATIENCE, connect_timeout: PATIENCE)
    @keys = Queue.new
    @wrong = Queue.new
    @seed = seed
    @ways = ways.empty? ? WAYS : ways
  end

  def findings
    Array.new(@wrong.size) { @wrong.pop }.tally.map { |what, times| "#{what} (#{times} times)" }.first(20)
  end

  def wrong(what)
    @wrong << what
  end

  # Acquires something, in one of the ways, and gives it up.
  def act(random)
    way = @ways.sample(random:)
    send(way, NAMES.sample(random:))
  rescue *REFUSED => e
    wrong("#{way}: #{e.class}: #{e.message[0, 60].gsub(/[0-9a-f.:]{9,}/, "…")}")
  end

  # Looks at what was acquired so far, while nobody acquires.
  def look
    wait_until("a lock is held by nobody") { !@locks.locked?(*NAMES) }
    wait_until("a lock of redlock is held by nobody") { NAMES.none? { |name| @redlock.locked?(name) } }
    wait_until("a lock of Redis::EM::Mutex is held by nobody") do
      NAMES.none? { |name| Pinyon::Compat::RedisEMMutex.new(name).locked? }
    end
    left = Array.new(@keys.size) { @keys.pop }
    wait_until("a lease is with nobody") { (left = left.select { |key| left?(key) }).empty? }
  end

  private

  def wait_until(otherwise)
    ends = now + PATIENCE
    sleep(0.01) until (done = yield) || now > ends
    wrong(otherwise) unless done
  end

  def left?(key)
    @cache.lease(key, lease: LEFT).filling?
  end

  def synchronize(name)
    @locks.synchronize(name) { nil }
  end

  def lock(name)
    held = @locks.lock(name)
  ensure
    undisturbed { held&.release }
  end

  def try_lock(name)
    held = @locks.try_lock(name)
  ensure
    undisturbed { held&.release }
  end

  def redlock(name)
    info = @redlock.lock(name, LEFT * 1000)
  ensure
    undisturbed { @redlock.unlock(info) if info }
  end

  def redlock_block(name)
    @redlock.lock(name, LEFT * 1000) { nil }
  end

  def em_mutex(name)
    mutex = Pinyon::Compat::RedisEMMutex.new(name, block: PATIENCE)
    locked = mutex.lock
  ensure
    undisturbed { mutex.unlock if locked }
  end

  def em_synchronize(name)
    Pinyon::Compat::RedisEMMutex.synchronize(name, block: PATIENCE) { nil }
  end

  def lease(_)
    lease = @cache.lease(key, lease: LEFT)
  ensure
    undisturbed { lease.give_back if lease&.open? }
  end

  def fetch(_)
    @cache.fetch(key, ttl: LEFT, lease: LEFT) { "made" }
  end

  # A key that nobody else asks for.
  def key
    name = "#{@seed}:#{now}:#{Thread.current.object_id}"
    @keys << name
    name
  end

  # What a program that must not be interrupted here writes around it.
  def undisturbed(&block)
    Thread.handle_interrupt(NEVER, &block)
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
