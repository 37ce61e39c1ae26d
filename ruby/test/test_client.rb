# frozen_string_literal: true

require "set"
require "open3"
require_relative "support"

class TestClient < PinyonTest
  def test_get_takes_a_key_and_a_default
    cache = client
    wrong = [[], %w[a b c]].map { |arguments| assert_raises(ArgumentError) { cache.get(*arguments) }.message }
    assert_equal [0, 3].map { |given| "wrong number of arguments (given #{given}, expected 1..2)" }, wrong
    assert_equal [nil, "default"], [cache[key], cache.get(key, "default")]
  end

  def test_what_was_set_is_read
    cache = client
    assert_equal true, cache.set(key, "value")
    assert_equal "value", cache.get(key)
    assert_equal "value", cache[key.to_sym]
    cache[key] = "other"
    assert_equal "other", cache.get(key)
    assert_nil cache.get(key("missing"))
    assert_equal :default, cache.get(key("missing"), :default)
    assert cache.key?(key)
    refute cache.key?(key("missing"))
  end

  def test_a_namespace_is_cleared_and_others_keep_their_items
    cache = client(namespace:, clearable: true)
    other = client(namespace: "other#{namespace}", clearable: true)
    [cache, other].each { |each| each.set_many({ "a" => 1, "b" => 2 }) }
    assert_nil cache.clear_namespace
    assert_equal [{}, { "a" => 1, "b" => 2 }], ([cache, other].map { |each| each.get_many(%w[a b]) })
    assert_match(/clearable/, assert_raises(Pinyon::UsageError) { client.clear_namespace }.message)
  end

  def test_stores_that_depend_on_what_is_there
    cache = client
    assert_equal [false, true, false, true],
                 [cache.replace(key, 1), cache.add(key, 1), cache.add(key, 2), cache.replace(key, 3)]
    assert_equal 3, cache.get(key)
    assert cache.delete(key)
    refute cache.delete(key)
    refute cache.append(key, "c")
    cache.set(key, "b")
    assert cache.append(key, "c")
    assert cache.prepend(key, "a")
    assert_equal "abc", cache.get(key)
  end

  def test_compare_and_set
    cache = client
    assert_nil cache.gets(key)
    assert_nil cache.cas(key, "value", 1)
    cache.set(key, "first")
    value, token = cache.gets(key)
    assert_equal "first", value
    assert_equal true, cache.cas(key, "second", token)
    assert_equal false, cache.cas(key, "third", token)
    assert_equal "second", cache.get(key)
  end

  def test_times_to_live
    cache = client(default_ttl: 1000)
    cache.set(key, "value")
    assert_includes 900..1000, cache.get_with_ttl(key).last
    cache.set(key, "value", ttl: 0)
    assert_equal ["value", nil], cache.get_with_ttl(key)
    assert_equal "value", cache.gat(key, 500)
    assert_includes 400..500, cache.get_with_ttl(key).last
    assert cache.touch(key, 99.2)
    assert_includes 1..100, cache.get_with_ttl(key).last
    cache.set(key, "value", ttl: -1)
    assert_nil cache.get(key)
    refute cache.touch(key, 1)
    error = assert_raises(Pinyon::UnsupportedType) { cache.set(key, "value", ttl: Time.now) }
    assert_match(/number of seconds, not Time/, error.message)
  end

  def test_a_duration_is_a_ttl
    duration = Class.new do
      def to_f = 90.0
      def in_seconds = 90
    end
    cache = client
    cache.set(key, "value", ttl: duration.new)
    assert_includes 80..90, cache.get_with_ttl(key).last
  end

  def test_numbers
    cache = client
    assert_nil cache.incr(key)
    assert_equal 5, cache.incr(key, initial: 5)
    assert_equal 8, cache.incr(key, 3)
    assert_equal 0, cache.decr(key, 100)
    assert_equal 0, cache.get(key)
    assert_raises(Pinyon::UsageError) { cache.incr(key, -1) }
  end

  def test_many_keys
    cache = client
    pairs = (1..50).to_h { |number| [key(number), "value #{number}"] }
    assert_equal [], cache.set_many(pairs)
    assert_equal pairs, cache.get_many(pairs.keys + [key("missing")])
    assert_equal pairs, cache.gets_many(pairs.keys).transform_values(&:first)
    assert_equal({ key(1).to_sym => "value 1" }, cache.get_many([key(1).to_sym].to_set))
    assert_equal pairs, cache.gat_many(pairs.keys + [key("missing")], 1000)
    assert_includes 900..1000, cache.meta(key(50)).ttl
    assert_equal pairs.keys, cache.touch_many(pairs.keys + [key("missing")], 100)
    assert_includes 90..100, cache.meta(key(50)).ttl
    assert_equal 50, cache.delete_many(pairs.keys + [key("missing")])
    error = assert_raises(Pinyon::InvalidKey) { cache.get_many([key, "a key"]) }
    assert_match(/\Akeys\[1\]: the key "a key" has a space/, error.message)
    assert_raises(Pinyon::UnsupportedType) { cache.get_many("key") }
  end

  def test_a_batch_tells_at_its_end_what_failed
    cache = client
    result = cache.quiet do |batch|
      assert_nil batch.set(key, 1)
      batch.incr(key, 2)
      :result
    end
    assert_equal [:result, 3], [result, cache.get(key)]
    error = assert_raises(Pinyon::BatchError) do
      cache.quiet do |batch|
        batch.add(key, "there")
        batch.set(key("other"), "stored")
        batch.delete(key("missing"))
      end
    end
    failed = error.failures.map { |failure| [failure.key, failure.command, failure.reason] }
    assert_equal [[key, "add", "not stored"], [key("missing"), "delete", "not found"]], failed
    assert_equal "stored", cache.get(key("other"))
  end

  def test_a_batch_is_over_with_its_block
    cache = client
    left = nil
    cache.quiet { |batch| left = batch }
    assert_raises(Pinyon::UsageError) { left.set(key, 1) }
    assert_equal "raised", assert_raises(RuntimeError) { cache.quiet { raise "raised" } }.message
  end

  def test_servers
    cache = client
    assert_equal [memcached.address], cache.servers
    assert_equal [memcached.address], cache.servers_of(key)
    assert_match(/\A1\./, cache.version.fetch(memcached.address))
    assert_operator cache.stats.fetch(memcached.address).fetch("curr_connections").to_i, :>=, 1
    cache.get(key)
    assert_equal 1, cache.metrics.fetch(memcached.address)[:commands].fetch("get")[:misses]
    assert_match(/\A#<Pinyon::Client .* up, 1 connected, 1 idle>\z/, cache.inspect)
    assert_equal 5, cache.tap { cache.set(key, 12_345) }.meta(key).size
  end

  def test_how_long_answers_took
    cache = client
    cache.version
    figures = -> { cache.metrics.fetch(memcached.address)[:commands].fetch("get") }
    cache.get(key)
    assert(eventually { cache.get(key) || figures.call[:timed] > 2 })
    of_gets = figures.call
    median, high = of_gets[:percentiles].values_at(50, 99)
    assert_equal of_gets[:timed], of_gets[:buckets].values.sum
    assert_in_delta of_gets[:seconds], of_gets[:mean] * of_gets[:timed]
    assert_operator 0, :<, median
    assert_operator median, :<=, high
    assert_operator high, :<=, of_gets[:buckets].keys.max
  end

  def test_settings_are_checked
    error = assert_raises(ArgumentError) { Pinyon::Client.new(tiemout: 1) }
    assert_equal 'there is no setting "tiemout"; did you mean "timeout"?', error.message
    error = assert_raises(Pinyon::UnsupportedType) { Pinyon::Client.new(timeout: "soon") }
    assert_equal "timeout must be a number, not a String", error.message
    error = assert_raises(ArgumentError) { Pinyon::Client.new(prefix: "shop:") }
    assert_equal 'there is no setting "prefix": use "namespace"', error.message
    assert_raises(Pinyon::InvalidServers) { Pinyon::Client.new("host:port") }
    assert_raises(Pinyon::UsageError) { Pinyon::Client.new(serializer: :yaml) }
    assert_raises(ArgumentError) { Pinyon::Client.new(compression: { algorithmus: :zstd }) }
    assert_raises(ArgumentError) { Pinyon::Client.new(tls: { certficate: "x" }) }
  end

  def test_a_client_is_not_dumped_for_another_process
    [client, Pinyon::Locks.new("redis://127.0.0.1:1")].each do |each|
      error = assert_raises(Pinyon::Unpicklable) { Marshal.dump(each) }
      assert_match(/a Pinyon::(Client|Locks) cannot be dumped: .*make another one in each other process/, error.message)
    end
  end

  def test_a_closed_client_refuses
    cache = client
    view = cache.using(on_failure: :miss)
    cache.set(key, 1)
    cache.close
    [cache, view].each { |closed| assert_raises(Pinyon::Closed) { closed.get(key) } }
    assert cache.closed?
  end

  def test_a_lost_server_is_an_error_or_a_miss_and_an_event
    events = []
    server = Support::Server.new(*Support::MEMCACHED)
    cache = client(server.address, on_event: ->(event) { events << event })
    cache.set("key", "value")
    server.kill
    error = assert_raises(IOError) { 3.times { cache.get("key") } }
    assert_kind_of Pinyon::Error, error
    assert_equal server.address, error.server
    assert_equal :default, cache.using(on_failure: :miss).get("key", :default)
    assert_equal({}, cache.get_many(["key"], failed: failed = {}))
    assert_equal [server.address], failed.keys
    assert_raises(Pinyon::Error) { cache.get("key") } until events.any? { |event| event.kind == :down }
    server.start
    assert(eventually { cache.using(on_failure: :miss).set("key", "again") })
    assert_equal "again", cache.get("key")
    assert(eventually { [cache.get("key"), events.map(&:kind)].last.include?(:up) })
    assert_equal server.address, events.find { |event| event.kind == :up }.server
  ensure
    server.stop
  end

  # Ruby code that looks a class up may let another thread run, and that would wait with the VM lock.
  def test_the_native_classes_are_looked_up_when_the_gem_is_loaded
    program = <<~RUBY
      require "pinyon"
      class << Object
        def const_get(name, ...) = raise("\#{name} is looked up")
      end
      client = Pinyon::Client.new(ARGV[0], timeout: 60, connect_timeout: 60)
      client.set("key", { "a" => ["b"] })
      locks = Pinyon::Locks.new("unix://\#{ARGV[1]}", command_timeout: 60, connect_timeout: 60)
      p client.get("key"), locks.synchronize(ARGV[1]) { |held| held.held? }
    RUBY
    ruby = [RbConfig.ruby, "-I", File.expand_path("../lib", __dir__)]
    said, ended = Open3.capture2e(*ruby, "-e", program, memcached.address, redis.address)
    assert_predicate ended, :success?, said
  end
end
