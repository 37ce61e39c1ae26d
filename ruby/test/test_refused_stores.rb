# frozen_string_literal: true

require "active_support/core_ext/integer/time"
require_relative "dallis"
require_relative "models"
require_relative "rails_caches"

# What a server refuses to store, servers without CAS tokens, and times beyond memcached's clock.
class TestRefusedStores < PinyonTest
  extend Models
  include Dallis
  include RailsCaches

  # Larger than a server stores by default, and no larger than max_value_size.
  LARGE = ("x" * 1_048_560).freeze
  LAST_SECOND = (2**31) - 1
  NO_TOKENS = /has no CAS tokens, because it was started with -C/

  def too_large(&block)
    assert_match(/1048560 bytes, more than the server stores/, assert_raises(Pinyon::ValueTooLarge, &block).message)
  end

  in_every_model(:a_conditional_store_that_is_refused_keeps_the_item) do |_model|
    cache = client(encode_keys: true)
    [key, "#{key} with a space"].each do |name|
      cache.set(name, "old")
      token = cache.gets(name).last
      %i[add replace append prepend].each { |method| too_large { cache.public_send(method, name, LARGE) } }
      [token, token - 1].each { |given| too_large { cache.cas(name, LARGE, given) } }
      cache.delete(name, stale: 60)
      too_large { cache.fetch(name, ttl: 60) { LARGE } }
      assert_equal "old", cache.lease(name).value
    end
  end

  in_every_model(:an_add_in_a_batch_that_is_refused_keeps_the_item) do |_model|
    cache = client
    cache.set(key, "old")
    error = assert_raises(Pinyon::BatchError) do
      cache.quiet do |batch|
        batch.set(key("before"), 1)
        batch.add(key, LARGE)
        batch.set(key("after"), 1)
      end
    end
    assert_equal([key], error.failures.map(&:key))
    assert_equal({ key => "old", key("before") => 1, key("after") => 1 },
                 cache.get_many([key, key("before"), key("after")]))
  end

  in_every_model(:with_misses_what_is_refused_is_not_stored) do |_model|
    cache = client(on_failure: :miss)
    assert_equal [false, false, nil], [cache.set(key, LARGE), cache.add(key, LARGE), cache.cas(key, LARGE, 1)]
    assert_equal [key], cache.set_many({ key => LARGE, key("other") => 1 })
    assert_equal [key], cache.set_many({ key => LARGE * 2, key("other") => 1 })
    2.times { assert_equal(LARGE, cache.fetch(key, ttl: 60, lease: 600) { LARGE }) }
  end

  in_every_model(:a_server_without_tokens) do |_model|
    server = Server.new(*MEMCACHED, "-C")
    cache = client(server.address)
    cache.set("key", 1)
    assert_match(NO_TOKENS, assert_raises(Pinyon::Unsupported) { cache.gets("key") }.message)
    assert_match(NO_TOKENS, assert_raises(Pinyon::Unsupported) { cache.gets_many(["key"]) }.message)
    assert_equal([2, 2], Array.new(2) { cache.fetch("made", ttl: 60, lease: 600) { 2 } })
    assert cache.lease("fulfilled").fulfil("value", ttl: 60)
    assert_equal "value", cache.get("fulfilled")
  ensure
    server&.kill
  end

  def test_a_ttl_beyond_memcacheds_clock_lasts_as_long_as_that
    cache = client
    [20.years, 20 * 365 * 86_400, 2**80, Float::INFINITY].each do |ttl|
      cache.set(key, "value", ttl:)
      assert_in_delta LAST_SECOND, Time.now.to_i + cache.get_with_ttl(key).last, Support::GENEROUS
    end
    cache.set(key, "value", ttl: -(2**80))
    assert_nil cache.get(key)
  end

  def test_rails
    cache = store
    cache.write("name", "holder")
    said = logged { refute cache.write("name", LARGE, unless_exist: true, compress: false) }
    assert_match(/ValueTooLarge/, said)
    assert_equal "holder", cache.read("name")
    logged { refute(cache.cas("name") { Random.bytes(LARGE.size) }) }
    assert_equal "holder", cache.read("name")
    assert cache.write("name", 1, expires_in: 20.years)
    assert_equal([1, 2], [cache.read("name"), cache.fetch("other", expires_in: 100.years) { 2 }])
  end

  def test_dallis_interface
    cache = ours(namespace:)
    large = Random.bytes(LARGE.size)
    cache.set("key", "holder")
    assert_raises(Ours::ValueOverMaxSize) { cache.add("key", large, nil, raw: true) }
    assert_raises(Ours::ValueOverMaxSize) { cache.replace("key", large, nil, raw: true) }
    assert_equal "holder", cache.get("key")
    assert cache.set("key", "value", 20 * 365 * 86_400)
    assert_equal "value", cache.get("key")
  end
end
