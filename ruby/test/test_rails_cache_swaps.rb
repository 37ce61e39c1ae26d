# frozen_string_literal: true

require_relative "rails_caches"

# cas and cas_multi, as IdentityCache calls them.
class TestRailsCacheSwaps < PinyonTest
  include RailsCaches

  def test_a_value
    cache = store
    assert_nil(cache.cas("name") { flunk })
    cache.write("name", [1])
    assert_equal(true, cache.cas("name", expires_in: 100) { |value| value + [2] })
    assert_equal [1, 2], cache.read("name")
    assert_in_delta 100, cache.client.meta("#{namespace}:name").ttl, GENEROUS
    assert_equal(true, cache.cas("name") { |value| value.nil? ? flunk : nil })
    assert cache.exist?("name")
  end

  def test_a_value_that_changes_meanwhile
    cache = store
    cache.write("name", 1)
    assert_equal(false, cache.cas("name") { |value| store.write("name", 5) && (value + 1) })
    assert_equal 5, cache.read("name")
    refute(cache.cas("name") { |value| store.delete("name") && (value + 1) })
    refute cache.exist?("name")
  end

  def test_a_block_that_is_left
    cache = store
    cache.write("name", 1)
    assert_nil(cache.cas("name") { break })
    assert_nil(cache.cas_multi("name") { break })
    assert_equal 1, cache.read("name")
  end

  def test_options
    cache = store
    cache.write("name", 1, version: "1")
    assert_nil(cache.cas("name", version: "2") { flunk })
    assert(cache.cas("name", version: "1") { 2 })
    assert_equal 2, cache.read("name", version: "1")
    cache.write("raw", 5, raw: true)
    assert(cache.cas("raw", raw: true) { |value| "#{value}0" })
    assert_equal 51, cache.increment("raw")
    cache.write("gone", 1, expires_in: 0.001, race_condition_ttl: 10)
    assert(eventually { cache.read_multi("gone").empty? })
    assert_nil(cache.cas("gone") { flunk })
  end

  def test_many_values
    cache = store
    cache.write_multi({ "a" => 1, "b" => 2, "c" => 3 })
    seen = nil
    swapped = cache.cas_multi("a", "b", "c", "missing", expires_in: 100) do |values|
      seen = values
      store.write("b", 20)
      { "a" => 10, "b" => 21, "missing" => 40 }
    end
    assert_equal({ "a" => 1, "b" => 2, "c" => 3 }, seen)
    assert_equal({ "a" => 10 }, swapped)
    assert_equal({ "a" => 10, "b" => 20, "c" => 3 }, cache.read_multi("a", "b", "c", "missing"))
    assert_in_delta 100, cache.client.meta("#{namespace}:a").ttl, GENEROUS
    assert_nil(cache.cas_multi { flunk })
  end

  def test_a_swap_is_seen_in_the_local_cache_of_a_request
    cache = store
    cache.with_local_cache do
      cache.write_multi({ "a" => 1, "b" => 1 })
      store.write_multi({ "a" => 2, "b" => 2 })
      assert_equal([1, 1], %w[a b].map { |name| cache.read(name) })
      assert(cache.cas("a") { |value| value + 1 })
      assert_equal({ "b" => 3 }, cache.cas_multi("b") { |values| { "b" => values["b"] + 1 } })
      assert_equal([3, 3], %w[a b].map { |name| cache.read(name) })
    end
  end

  def test_a_server_that_fails_swaps_nothing
    server = Server.new(*MEMCACHED)
    cache = store(server.address)
    cache.write("name", 1)
    logged do
      refute(cache.cas("name") { server.kill && 2 })
      assert_equal(false, cache.cas("name") { flunk })
      assert_equal({}, cache.cas_multi("name") { |values| values.empty? ? { "name" => 2 } : flunk })
    end
  ensure
    server.stop
  end

  def test_a_value_that_cannot_be_read
    cache = store
    cache.client.set("#{namespace}:name", ["\x04\bo:\fMissing\x00".b, 1])
    logged { assert_nil(cache.cas("name") { flunk }) }
  end

  def test_notifications_of_swaps
    cache = store
    cache.write("name", 1)
    seen = notified { cache.cas("name") { 2 } && cache.cas_multi("name") { { "name" => 3 } } }
    assert_equal(%w[cache_cas cache_cas_multi], seen.map(&:first))
  end
end
