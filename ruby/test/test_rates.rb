# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# Rates: permits that all programs share, in threads and in the fibers of any scheduler.
class TestRates < PinyonTest
  include Reactors::Tests

  # Threads of a test share the server.
  def setup
    locks
  end

  def test_a_burst_is_allowed_and_then_it_says_when
    rate = locks.rate("api:7", limit: 3, per: 3000, burst: 2)
    assert_equal ["api:7", 3, 3000, 2], [rate.name, rate.limit, rate.per, rate.burst]
    first = rate.allow
    assert_equal [true, 3, 1, nil], [first.allowed?, first.limit, first.remaining, first.retry_after]
    assert first.frozen?
    assert rate.allow?
    third = rate.allow
    refute third.allowed
    assert_includes 900..1000, third.retry_after
    assert_includes 1900..2000, third.reset
    assert_includes 1900..2000, rate.allow(2).retry_after
  end

  def test_handlers_share_permits_and_the_burst_is_the_limit_without_one
    rate = locks.rate(:a, limit: 2, per: 1000)
    plain = locks(handler: :pure).rate("a", limit: 2, per: 1000)
    assert_equal [2, true, true, false, false], [rate.burst, rate.allow?, plain.allow?, plain.allow?, rate.allow?]
  end

  def test_what_makes_no_sense_is_refused_by_name
    mine = locks
    [[{ limit: 0, per: 1 }, /limit must be from 1/], [{ limit: 1, per: 0 }, /per must be a positive number/],
     [{ limit: 1, per: 1, burst: 0 }, /burst must be from 1/]].each do |settings, said|
      error = assert_raises(Pinyon::UsageError) { mine.rate("a", **settings) }
      assert_match said, error.message
    end
    assert_raises(Pinyon::UnsupportedType) { mine.rate("a", limit: 1.5, per: 1) }
    assert_raises(Pinyon::InvalidName) { mine.rate("", limit: 1, per: 1) }
    rate = mine.rate("a", limit: 10, per: 1, burst: 2)
    error = assert_raises(Pinyon::UsageError) { rate.allow(3) }
    assert_match(/never gives more than 2 at once/, error.message)
    assert_raises(Pinyon::UsageError) { rate.wait(0) }
  end

  def test_a_wait_in_threads
    rate = locks.rate("a", limit: 20, per: 1, burst: 1)
    begun = Process.clock_gettime(Process::CLOCK_MONOTONIC)
    threads = Array.new(5) { Thread.new { rate.wait(timeout: 60) } }
    assert(threads.map(&:value).all?(&:allowed))
    assert_operator Process.clock_gettime(Process::CLOCK_MONOTONIC) - begun, :>, (4 * 0.05) - 0.01
  end

  in_every_reactor(:a_wait_lets_others_run_and_one_in_vain_fails_at_once) do |reactor|
    mine = locks
    steps = []
    reactor.run do
      rate = mine.rate("a", limit: 2, per: 1, burst: 1)
      assert rate.allow?
      [1, 2].each { |number| reactor.start { steps << number if rate.wait(timeout: 60).allowed } }
      reactor.start { steps << 0 }
      reactor.pause(0.01) until steps.size == 3
      assert_equal 0, steps.first
      slow = mine.rate("b", limit: 1, per: 1000)
      assert slow.allow?
      error = assert_raises(Pinyon::LockTimeout) { slow.wait(timeout: 5) }
      assert_match(/the rate "b" does not allow it/, error.message)
      assert_kind_of Timeout::Error, error
    end
  end
end
