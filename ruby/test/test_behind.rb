# frozen_string_literal: true

require_relative "support"
require_relative "models"

# Values that are made behind their callers: soft_timeout, and refresh: :behind.
class TestBehind < PinyonTest
  extend Models

  class DatabaseError < StandardError; end

  # An executor that takes nothing.
  class Full
    def post
      false
    end
  end

  # One that keeps what it is to carry out.
  class Keeping
    attr_reader :block

    def post(&block)
      @block = block
    end
  end

  def setup
    super
    @held = true
    @made = 0
  end

  # The settings of a call whose block goes on behind it.
  def behind(model, **terms)
    terms = { refresh: :behind, **terms } unless terms.key?(:soft_timeout)
    terms = { executor: Models::Executor.new, **terms } if model == Models::Threads
    { ttl: 60, stale: 30, **terms }
  end

  def stale(cache, value = "old")
    cache.set("key", value, ttl: 60)
    cache.delete("key", stale: 30)
  end

  # A value that is made once the test lets it.
  def made(model, value = "new")
    @made += 1
    Models.wait_until(model) { !@held }
    value
  end

  # Another caller makes the value: the lease was given back.
  def made_again(model, cache)
    Models.wait_until(model) { cache.fetch("key", ttl: 60, stale: 30) { "again" } == "again" }
  end

  [{ soft_timeout: 0.05 }, { soft_timeout: 0 }, { refresh: :behind }].each do |terms|
    in_every_model("the_old_value_is_there_while_the_new_one_is_made_#{terms.to_a.join("_").delete(".")}") do |model|
      cache = client(namespace:)
      other = client(namespace:)
      stale(cache, %w[a list])
      settings = behind(model, **terms)
      assert_equal %w[a list], cache.fetch("key", **settings) { made(model) }
      Models.wait_until(model) { @made == 1 }
      [cache, other].each { |each| assert_equal %w[a list], each.fetch("key", **settings) { flunk } }
      @held = false
      Models.wait_until(model) { other.get("key") == "new" }
      assert_equal 1, @made
    end
  end

  in_every_model("a_quick_block_is_waited_for") do |model|
    cache = client(namespace:)
    settings = behind(model, soft_timeout: 1000)
    stale(cache)
    assert_equal "new", cache.fetch("key", **settings) { "new" }
    stale(cache)
    assert_raises(DatabaseError) { cache.fetch("key", **settings) { raise DatabaseError } }
    assert_equal("again", cache.fetch("key", ttl: 60, stale: 30) { "again" })
  end

  in_every_model("what_cannot_be_stored_behind_is_told") do |model|
    told = []
    cache = client(namespace:, on_event: told.method(:<<))
    stale(cache)
    assert_equal "old", cache.fetch("key", **behind(model)) { Object.new }
    Models.wait_until(model) { !told.empty? }
    assert_equal [:stale], told.map(&:kind)
    assert_match(/Object/, told.first.message)
    made_again(model, cache)
  end

  in_every_model("a_block_that_outlasts_its_client_gives_the_lease_back") do |model|
    cache = client(namespace:)
    other = client(namespace:)
    stale(cache)
    assert_equal "old", cache.fetch("key", **behind(model)) { made(model) }
    Models.wait_until(model) { @made == 1 }
    cache.close
    @held = false
    made_again(model, other)
  end

  in_every_model("a_caller_that_is_stopped_while_it_waits_leaves_the_lease_to_others") do |model|
    cache = client(namespace:)
    other = client(namespace:)
    stale(cache)
    task = Models::Task.new(model) { cache.fetch("key", **behind(model, soft_timeout: 1000)) { made(model) } }
    Models.wait_until(model) { @made == 1 }
    task.stop_now
    made_again(model, other)
    @held = false
    assert_equal "again", other.get("key")
  end

  in_every_model("a_cached_block_is_refreshed_behind") do |model|
    cache = client(namespace:)
    values = %w[old new newest]
    cached = cache.cached(key: "key", **behind(model)) { values.shift }
    assert_equal "old", cached.call
    cache.delete("key", stale: 30)
    assert_equal "old", cached.call
    Models.wait_until(model) { cached.peek == "new" }
    assert_equal "newest", cached.refresh
    assert_equal "newest", cached.peek
  end

  def test_a_thread_without_an_executor_is_refused_by_name
    cache = client(namespace:)
    { soft_timeout: 1, refresh: :behind }.each do |setting|
      refused = assert_raises(Pinyon::UsageError) { cache.fetch("key", stale: 30, ttl: 60, **[setting].to_h) { flunk } }
      assert_match(/\A#{setting.first}.* cannot be used here: .* give executor/, refused.message)
    end
  end

  def test_an_executor_that_takes_nothing_leaves_the_lease_to_others
    cache = client(namespace:)
    stale(cache)
    assert_raises(Pinyon::UsageError) { cache.fetch("key", **behind(nil), executor: Full.new) { flunk } }
    made_again(Models::Threads, cache)
  end

  def test_a_block_that_is_killed_behind_gives_the_lease_back
    cache = client(namespace:)
    stale(cache)
    keeping = Keeping.new
    assert_equal "old", cache.fetch("key", **behind(nil), executor: keeping) { made(Models::Threads) }
    thread = Thread.new { keeping.block.call }
    Models.wait_until(Models::Threads) { @made == 1 }
    thread.kill.join
    made_again(Models::Threads, cache)
  end

  def test_a_block_that_is_killed_while_its_caller_waits_leaves_that_the_old_value
    cache = client(namespace:)
    stale(cache)
    keeping = Keeping.new
    settings = behind(nil, soft_timeout: 1000)
    caller = Thread.new { cache.fetch("key", **settings, executor: keeping) { made(Models::Threads) } }
    Models.wait_until(Models::Threads) { keeping.block }
    thread = Thread.new { keeping.block.call }
    Models.wait_until(Models::Threads) { @made == 1 }
    thread.kill.join
    assert_equal "old", caller.value
    made_again(Models::Threads, cache)
  end
end
