# frozen_string_literal: true

require "open3"
require_relative "support"
require_relative "reactors"
require_relative "redis_em_mutex_cycles"

# The interface of Redis::EM::Mutex.
class TestRedisEMMutex < PinyonTest
  include Reactors::Tests

  Mutex = Pinyon::Compat::RedisEMMutex
  MutexError = Mutex::MutexError
  MutexTimeout = Mutex::MutexTimeout

  # A class that uses the macro. `calls`: what its methods do.
  class Guarded
    include Mutex::Macro

    attr_reader :calls

    def initialize
      @calls = []
    end

    auto_mutex :named, block: 0, on_timeout: ->(value) { [:late, value] }
    def named(value)
      calls << value
      value.positive? ? named(value - 1) : Mutex.new("named", ns: "test:TestRedisEMMutex::Guarded").owned?
    end

    auto_mutex block: 0, on_timeout: :late
    def following(by:)
      yield by
    end
    no_auto_mutex

    def late
      :late
    end

    auto_mutex def strict = :never, block: 0
  end

  def setup
    generous = { connect_timeout: GENEROUS, command_timeout: GENEROUS }
    Mutex.setup(url: "unix://#{redis.address}", ns: "test", namespace:, **generous)
  end

  def teardown
    Mutex.locks.close
    super
  end

  in_every_reactor(:two_owners_in_one_fiber) do |reactor|
    one, two = %w[one two].map { |owner| Mutex.new("b", owner:, block: 0) }
    reactor.run do
      assert one.lock
      refute two.lock
      refute two.lock(0.05)
      assert_raises(MutexError) { one.lock }
      one.unlock
      assert two.lock
      two.unlock
    end
  end

  in_every_reactor(:a_sleeper_runs_its_block_before_it_acquires_again) do |reactor|
    mutex = Mutex.new("a")
    reactor.run do
      mutex.lock
      mutex.sleep(0.01) { refute mutex.owned? }
      assert mutex.owned?
      mutex.unlock
      assert_respond_to mutex, :_wakeup
    end
  end

  in_every_reactor(:the_life_of_a_mutex) do |reactor|
    mutex = Mutex.new("a", name: "b", expire: 10)
    reactor.run do
      assert_equal [%w[a b], "test", "test", 10], [mutex.names, mutex.ns, mutex.namespace, mutex.expire_timeout]
      assert_equal [false, false, nil, nil], [mutex.locked?, mutex.owned?, mutex.expired?, mutex.expires_in]
      assert mutex.lock
      assert_equal [true, true, false], [mutex.locked?, mutex.owned?, mutex.expired?]
      assert_includes 0..10, mutex.expires_in
      assert mutex.refresh(1000)
      assert_includes 900..1000, mutex.expires_at - Time.now
      assert_operator mutex.expiration_timestamp, :>, Time.now.to_f + 900
      reactor.start { refute mutex.owned? || mutex.expired? || mutex.refresh || mutex.unlock! }
      assert mutex.owned?
      assert_same mutex, mutex.unlock!
      assert_equal [false, mutex, false], [mutex.unlock!, mutex.unlock, mutex.locked?]
    end
  end

  in_every_reactor(:waiting) do |reactor|
    order = []
    reactor.run do
      first = Mutex.lock("a")
      reactor.start { order << Mutex.lock("a", "b", block: 0) }
      assert(eventually_in(reactor) { order == [nil] })
      reactor.start { order << Mutex.synchronize("a", "b") { :second } }
      reactor.start { order << assert_raises(MutexTimeout) { Mutex.synchronize("a", block: 0.01) }.class }
      assert(eventually_in(reactor) { order.include?(MutexTimeout) })
      first.unlock
    end
    assert_equal [nil, MutexTimeout, :second], order
  end

  in_every_reactor(:recursion) do |reactor|
    reactor.run do
      Mutex.synchronize("a", "b") do
        assert_match(/deadlock; recursive locking/, assert_raises(MutexError) { Mutex.lock("b") }.message)
        refute Mutex.new("b").try_lock
        assert Mutex.new("b", "a").owned?
      end
      assert Mutex.new("a").try_lock
    end
  end

  in_every_reactor(:an_owner_of_several_fibers) do |reactor|
    mine = Mutex.new("a", owner: :team)
    reactor.run do
      assert mine.lock
      reactor.start do
        assert Mutex.new("a", owner: :team).owned?
        assert_raises(MutexError) { Mutex.new("a", owner: :team).lock }
        assert Mutex.new("a", owner: :team).unlock!
      end
      assert(eventually_in(reactor) { !mine.locked? })
    end
  end

  in_every_reactor(:sleep_and_wakeup) do |reactor|
    mutex = Mutex.new("a")
    slept = nil
    reactor.run do
      fiber = nil
      reactor.start do
        fiber = Fiber.current
        mutex.synchronize { slept = mutex.sleep }
      end
      assert(eventually_in(reactor) { fiber && !mutex.locked? })
      assert_nil slept
      mutex.synchronize { mutex.wakeup(fiber) }
      assert(eventually_in(reactor) { slept })
      mutex.synchronize { assert_operator mutex.sleep(0.01), :>=, 0.01 }
      assert_raises(MutexError) { mutex.sleep }
    end
  end

  in_every_reactor(:macro) do |reactor|
    guarded = Guarded.new
    other = Guarded.new
    reactor.run do
      assert guarded.named(2)
      assert_equal [2, 1, 0], guarded.calls
      Mutex.synchronize("named", "following", "strict", ns: "test:#{Guarded.name}") do
        reactor.start do
          assert_equal [[:late, 1], :late], [other.named(1), other.following(by: 2) { flunk }]
          assert_raises(MutexTimeout) { other.strict }
        end
      end
      assert_equal([2, :late, :never], [other.following(by: 2, &:itself), other.late, other.strict])
    end
  end

  def test_a_lock_expires_unless_it_is_refreshed
    mutex = Mutex.new("a", expire: 1)
    assert mutex.lock
    assert(eventually { mutex.expired? })
    assert(eventually { !mutex.locked? })
    assert_equal [false, false, false], [mutex.owned?, mutex.refresh, mutex.can_refresh_expired?]
    assert mutex.lock
    assert_raises(ArgumentError) { mutex.expire_timeout = 0 }
  end

  def test_a_forked_child_does_not_own_its_parents_locks
    mutex = Mutex.new("a")
    mutex.lock
    assert_equal([false, false, true], in_child { [mutex.owned?, mutex.unlock!, mutex.locked?] })
    assert mutex.unlock!
  end

  def test_other_programs_see_the_locks
    Mutex.synchronize("a") { assert_equal [true, false], [locks.locked?("test:a"), locks.locked?("a")] }
  end

  def test_setup
    Mutex.setup(path: redis.address) do |options|
      options.db = 1
      options.expire = 5
    end
    assert_equal [5, nil, :auto], [Mutex.default_expire, Mutex.ns, Mutex.handler]
    assert_equal [true, true], [Mutex.ready?, Mutex.watching?]
    assert_equal [["__A.lock"], ["__B.lock"]], [Mutex.new.names, Mutex.new.names]
    assert_nil Mutex.reset_autoname
    namespace = Mutex::NS.new("ns", block: 1)
    assert_equal [["a"], 1], [namespace.new("a").names, namespace.synchronize("a", &:block_timeout)]
    assert_equal 2, namespace.lock("b", block: 2).block_timeout
    assert_match(/pass url:/, assert_raises(Pinyon::UsageError) { Mutex.setup(redis: Object.new) }.message)
    assert_raises(ArgumentError) { Mutex.setup(exipre: 5) }
    Mutex.setup(host: "localhost", port: 7, password: "a b/c", size: 10, reconnect_max: 3, handler: :pure)
    assert_equal ["localhost:7", :pure], [Mutex.locks.server, Mutex.handler]
  end

  def test_replacing
    program = 'require "pinyon/compat/redis_em_mutex/replace"; p Redis::EM::Mutex, Redis::EM::Mutex::MutexError'
    said, = Open3.capture2e(RbConfig.ruby, "-W", "-I", File.expand_path("../lib", __dir__), "-e", program)
    assert_equal %w[Pinyon::Compat::RedisEMMutex Pinyon::Compat::RedisEMMutex::MutexError], said.split
  end

  def test_its_benchmark
    cycles = RedisEMMutexCycles.new("unix://#{redis.address}")
    RedisEMMutexCycles::KEYS.each do |keys, of|
      assert_equal 40, cycles.lock_and_unlock(40, keys, of)
      assert_operator cycles.work(0.1, keys, of), :>, 0
    end
    assert_equal 0, cycles.overlaps
  end
end
