# frozen_string_literal: true

require_relative "support"
require "pinyon/compat/redlock/replace"

# The interface of redlock, on one server.
class TestCompatRedlock < PinyonTest
  LONG = 1_000_000

  def redlock(**options)
    closing(Redlock::Client.new(["unix://#{redis.address}"], { redis_timeout: GENEROUS, **options }))
  end

  def test_a_lock_and_its_end
    locks = redlock
    lock = locks.lock(key, LONG)
    assert_equal key, lock[:resource]
    assert_operator lock[:validity], :<, LONG - (LONG / 100)
    assert_predicate lock[:validity], :positive?
    assert_equal [true, true], [locks.locked?(key), locks.valid_lock?(lock)]
    assert_in_delta LONG, locks.get_remaining_ttl_for_lock(lock), GENEROUS * 1000
    assert_in_delta LONG, locks.get_remaining_ttl_for_resource(key), GENEROUS * 1000
    refute redlock(retry_count: 0).lock(key, LONG)
    refute locks.lock(key, LONG, retry_count: 1, retry_delay: 1, retry_jitter: 0)
    locks.unlock(lock)
    assert_equal [false, false], [locks.locked?(key), locks.valid_lock?(lock)]
    assert_nil locks.get_remaining_ttl_for_lock(lock)
    assert_nil locks.get_remaining_ttl_for_resource(key)
  end

  def test_blocks
    locks = redlock
    assert(locks.lock(key, LONG) { |lock| assert_equal key, lock[:resource] })
    others = locks.lock(key, LONG)
    refute(redlock(retry_count: 0).lock(key, LONG) { |lock| assert_equal false, lock })
    error = assert_raises(Redlock::LockError) { redlock(retry_count: 0).lock!(key, LONG) { flunk } }
    assert_match(/#{key}/, error.message)
    locks.unlock(others)
    assert_equal(:value, locks.lock!(key, LONG) { :value })
    assert_raises(IndexError) { locks.lock!(key, LONG) { raise IndexError } }
    refute locks.locked?(key)
  end

  def test_delays_may_be_made_for_each_attempt
    locks = redlock
    assert locks.lock(key, LONG)
    asked = []
    refute locks.lock(key, LONG, retry_count: 2, retry_jitter: 0, retry_delay: ->(attempt) { (asked << attempt).size })
    assert_equal [1, 2], asked.uniq.first(2)
  end

  def test_a_lock_that_has_ended_is_not_acquired_anew_where_only_its_life_is_to_be_extended
    locks = redlock
    lock = locks.lock(key, LONG)
    locks.unlock(lock)
    %i[extend_only_if_locked extend_life extend_only_if_life].each do |option|
      assert_equal false, locks.lock(key, LONG, extend: lock, option => true)
    end
    refute locks.locked?(key)
  end

  def test_nothing_is_said_of_a_server_that_is_away
    locks = closing(Redlock::Client.new(["unix:///nowhere/redis.sock"], { redis_timeout: 0.05 }))
    lock = { resource: key, value: "1", validity: 1 }
    assert_equal [false, false], [locks.locked?(key), locks.valid_lock?(lock)]
    assert_equal [nil, nil], [locks.get_remaining_ttl_for_lock(lock), locks.get_remaining_ttl_for_resource(key)]
  end

  def test_one_that_waits_gets_it
    locks = redlock
    lock = locks.lock(key, LONG)
    waiting = Thread.new { redlock(retry_count: 1, retry_delay: GENEROUS * 1000).lock(key, LONG) }
    watching = closing(Pinyon::Locks.new("unix://#{redis.address}", namespace: "redlock", command_timeout: GENEROUS))
    assert(eventually { watching.waiting(key) == 1 })
    locks.unlock(lock)
    assert_equal key, waiting.value[:resource]
  end

  def test_extending
    locks = redlock
    lock = locks.lock(key, 60_000)
    longer = locks.lock(key, LONG, extend: lock)
    assert_equal lock[:value], longer[:value]
    assert_operator locks.get_remaining_ttl_for_lock(lock), :>, 60_000
    locks.unlock(lock)
    refute locks.lock(key, LONG, extend: lock, extend_only_if_locked: true)
    assert_equal key, locks.lock(key, LONG, extend: lock)[:resource]
  end

  def test_another_process_may_unlock
    locks = redlock
    lock = locks.lock(key, LONG)
    redlock.unlock(lock)
    refute locks.locked?(key)
    other = redlock.lock(key, LONG)
    locks.unlock(lock)
    assert redlock.valid_lock?(other), "this is another lock"
  end

  def test_a_server_that_fails
    locks = Redlock::Client.new(["redis://127.0.0.1:1"], retry_count: 0)
    error = assert_raises(Redlock::LockAcquisitionError) { locks.lock(key, 1000) }
    assert_equal [true, Pinyon::ConnectError], [error.is_a?(Redlock::LockError), error.errors.first.class]
    assert_match(/cannot connect/, error.message)
    assert_raises(Pinyon::UsageError) { Redlock::Client.new(%w[redis://a redis://b redis://c]) }
    assert_raises(Pinyon::UnsupportedType) { Redlock::Client.new([Object.new]) }
  end
end
