# frozen_string_literal: true

require_relative "support"
require_relative "plain_scheduler"

# Objects that only the native half refers to are neither collected nor moved. These tests run in a process without
# other libraries: see the Rakefile.
class TestGarbage < PinyonTest
  # The word for it is another since Ruby 3.2.
  GROWING = { (RUBY_VERSION < "3.2" ? :double_heap : :expand_heap) => true }.freeze

  DEEP = [2**40, 0.5, nil, { "deep" => Time.at(0) }].freeze
  NESTED = Array.new(20) { |number| { "number #{number}" => ["text #{number}", DEEP] } }

  def teardown
    GC.stress = false
    GC.auto_compact = false
    super
  end

  # Collects garbage, and moves what it may, at every allocation.
  def under_stress
    GC.auto_compact = true
    GC.stress = true
    yield
  ensure
    GC.stress = false
  end

  def test_values
    cache = client
    cache.set(key, NESTED)
    read = under_stress { cache.get(key) }
    assert_equal NESTED, read
    under_stress { cache.set(key("again"), NESTED) }
    assert_equal NESTED, cache.get(key("again"))
  end

  def test_many_keys_under_stress
    cache = client
    pairs = (1..10).to_h { |number| [key(number), ["value #{number}"]] }
    assert_equal([], under_stress { cache.set_many(pairs) })
    assert_equal(pairs, under_stress { cache.get_many(pairs.keys) })
    assert_equal(pairs, under_stress { cache.gets_many(pairs.keys) }.transform_values(&:first))
  end

  def test_settings_and_errors
    settings = { namespace: "names:", compression: { algorithm: "zstd" }, servers: [memcached.address, "127.0.0.1:1"] }
    cache = under_stress { Pinyon::Client.new(**settings, failover: false) }
    key = (1..100).map(&:to_s).find { |each| cache.servers_of(each) == ["127.0.0.1:1"] }
    error = under_stress { assert_raises(Pinyon::Error) { cache.get(key) } }
    assert_equal "127.0.0.1:1", error.server
    failed = under_stress { assert_raises(Pinyon::BatchError) { cache.quiet { |batch| batch.set(key, 1) } } }
    assert_equal [key], failed.failures.map(&:key)
  end

  def test_whom_the_news_of_locks_concerns
    lost = []
    mine = locks(on_event: ->(_event) {})
    held = nil
    100.times do
      mine.synchronize("a", on_lost: ->(one) { lost << one }) { Array.new(500) { Object.new } }
      held = mine.lock("b", on_lost: ->(one) { lost << one })
      GC.compact
      held.release
    end
    held = mine.lock("c", on_lost: ->(one) { lost << one })
    GC.compact
    locks.force_release("c")
    assert(eventually { lost == [held] })
  end

  def test_locks
    mine = locks
    under_stress { mine.synchronize("a", "b") { |held| assert_equal 2, mine.status("a", held.names.last).size } }
    refute mine.locked?("a")
  end

  # Runs the block in so many fibers of a scheduler. Returns its values.
  def in_fibers(number)
    Thread.new do
      Fiber.set_scheduler(PlainScheduler.new)
      values = []
      number.times { |index| Fiber.schedule { values[index] = yield(index) } }
      Fiber.set_scheduler(nil)
      values
    end.value
  end

  def test_fibers
    cache = client
    mine = locks
    done = under_stress do
      in_fibers(2) do |number|
        own = key(number)
        cache.quiet { |batch| batch.set(own, [number]) }
        [cache.set(own, ["text", number]), mine.synchronize("a", own) { cache.get(own) }]
      end
    end
    assert_equal [[true, ["text", 0]], [true, ["text", 1]]], done
  end

  # Everything that may move does, while fibers wait for replies and for a lock.
  def test_fibers_that_wait_while_objects_are_moved
    silent = SilentServer.new
    cache = client(silent.address, timeout: 1, on_failure: :miss)
    mine = locks
    held = mine.lock("a")
    waiting = in_fibers(9) do |number|
      next cache.get("key#{number}", "nothing") if number < 4
      next mine.synchronize("a") { "held by #{number}" } if number < 8

      sleep(0.001) until mine.waiting("a") == 1
      3.times { GC.verify_compaction_references(toward: :empty, **GROWING) }
      held.release.to_s
    end
    assert_equal [*["nothing"] * 4, *(4..7).map { |number| "held by #{number}" }, "true"], waiting
  ensure
    silent.stop
  end
end
