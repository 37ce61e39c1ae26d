# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# Hot keys in memory. What may be stale for how long, the core's own tests say.
class TestNear < PinyonTest
  include Reactors::Tests

  # Fresh for longer than any test lasts.
  FOREVER = { fresh: 10_000 }.freeze

  def test_a_value_is_read_once_and_then_returned_from_memory
    cache = client(near: FOREVER)
    others = client
    others.set(key, "old")
    assert_equal "old", cache.get(key)
    others.set(key, "new")
    assert_equal ["old", { key => "old" }], [cache.get(key), cache.get_many([key])]
    assert_equal "new", cache.using(near: false).get(key)
    assert_equal({ hits: 2, fills: 1, revalidations: 0, evictions: 0 }, cache.near_metrics.except(:bytes))
  end

  def test_changes_of_this_process_count_at_once
    cache = client(near: FOREVER)
    cache.set(key, 1)
    assert_equal [1, 1], [cache.get(key), cache.get(key)]
    cache.using(failover: false).incr(key, 2)
    assert_equal 3, cache.get(key)
    cache.quiet { |batch| batch.set(key, 4) }
    assert_equal 4, cache.get(key)
    cache.delete_many([key])
    assert_nil cache.get(key)
    assert_equal 5, cache.fetch(key, ttl: 60) { 5 }
    assert_equal 5, cache.get(key)
  end

  def test_callers_never_share_an_object
    cache = client(near: true)
    cache.set(key, ["a"])
    cache.get(key) << "b"
    cache.get(key) << "c"
    assert_equal ["a"], cache.get(key)
  end

  in_every_reactor(:fibers_share_what_one_has_read) do |reactor|
    cache = client(near: FOREVER)
    others = client
    others.set(key, "old")
    assert_equal %w[old], in_fibers(reactor, 1) { cache.get(key) }
    others.set(key, "new")
    assert_equal [%w[old old]] * 3, (in_fibers(reactor, 3) { [cache.get(key), cache.get_many([key])[key]] })
    in_fibers(reactor, 1) { cache.touch(key, 60) }
    assert_equal %w[new], in_fibers(reactor, 1) { cache.get(key) }
  end

  def test_settings_are_checked
    refused = assert_raises(Pinyon::UsageError) { client(near: { fresh: 0 }) }
    assert_equal "fresh must be a positive number of seconds, not 0.0", refused.message
    refused = assert_raises(Pinyon::UsageError) { client(near: 5) }
    assert_equal "near must be true, false or a Hash, not an Integer", refused.message
    assert_equal 0, client.near_metrics[:hits]
  end
end
