# frozen_string_literal: true

require "set"
require_relative "support"
require_relative "making"

# Values that cannot be read, and values whose loading uses the client.
class TestUnreadable < PinyonTest
  extend Models
  include Making

  KEYS = Array.new(50) { |number| "key#{number}" }

  # A serializer whose loading calls a block.
  class Calling
    attr_writer :call

    def dump(value)
      [value, 7]
    end

    def load(bytes, flags)
      raise LoadError, "no value of ours has the flags #{flags}" unless flags == 7

      @call ? @call.call(bytes) : bytes
    end
  end

  # Reads another value when it is loaded.
  class Nested
    class << self
      attr_accessor :client
    end

    attr_reader :inner

    def marshal_dump
      1
    end

    def marshal_load(_)
      @inner = self.class.client.get("inner")
    end
  end

  in_every_model(:loading_may_use_the_client) do |_model|
    serializer = Calling.new
    cache = client(serializer:, max_connections: 1)
    cache.set_many(KEYS.to_h { |name| [key(name), "value"] })
    serializer.call = ->(bytes) { [bytes, cache.key?(key("key0"))] }
    assert_equal ["value", true], cache.get(key("key1"))
    assert_equal ["value", true], cache.gets(key("key1")).first
    assert_equal ["value", true], cache.fetch(key("key1"), ttl: 60) { "made" }
    assert_equal [["value", true]], cache.get_many(KEYS.map { |name| key(name) }).values.uniq
  end

  def test_marshal_may_use_the_client
    cache = Nested.client = client(namespace: "marshal:", serializer: :marshal, max_connections: 1)
    cache.set("inner", "value")
    cache.set_many(KEYS.to_h { |name| [name, Nested.new] })
    assert_equal ["value"], cache.get_many(KEYS).values.map(&:inner).uniq
    cache.close
    other = client(namespace: "marshal:", serializer: :marshal)
    assert_raises(Pinyon::Closed, "it is not the value's fault") { other.fetch("key1", ttl: 60) { "made" } }
  end

  def test_a_load_that_takes_its_time_keeps_no_connection_from_other_threads
    loading = Queue.new
    go_on = Queue.new
    serializer = Calling.new
    cache = client(serializer:, max_connections: 1)
    cache.set(key, "slow")
    cache.set(key("quick"), "quick")
    serializer.call = lambda do |bytes|
      loading.push(true) && go_on.pop if bytes == "slow"
      bytes
    end
    slow = Thread.new { cache.get(key) }
    loading.pop
    assert_equal "quick", cache.get(key("quick"))
    go_on.push(true)
    assert_equal "slow", slow.value
  end

  in_every_model(:fetch_makes_what_cannot_be_read_anew) do |model|
    with_unreadable do |settings|
      maker = Maker.new(model, "new")
      2.times { assert_equal "new", client(**settings).fetch(key, ttl: 60, &maker) }
      assert_equal 1, maker.calls
      assert_equal "new", client(**settings).get(key)
    end
  end

  in_every_model(:one_caller_of_all_processes_makes_it) do |model|
    with_unreadable do |settings|
      maker = Maker.new(model, "new", held: true)
      first = Models::Task.new(model) { client(**settings).fetch(key, ttl: 60, &maker) }
      maker.begun
      second = Models::Task.new(model) { client(**settings).fetch(key, ttl: 60, &NEVER) }
      maker.held = false
      assert_equal %w[new new], [first.value, second.value]
    end
  end

  def test_a_lease_by_hand_is_won_by_one_caller
    with_unreadable do |settings|
      won = client(**settings).lease(key)
      assert_equal [true, false], [won.won?, won.value?]
      assert_predicate client(**settings).lease(key), :filling?
      assert won.fulfil("new", ttl: 60)
      assert_equal "new", client(**settings).lease(key).value
    end
  end

  def test_it_can_count_as_missing
    with_unreadable do |settings|
      events = []
      cache = client(**settings, on_event: events.method(:push)).using(on_unreadable: :miss)
      cache.set(key("other"), "readable")
      2.times do
        assert_equal [nil, "default", nil], [cache.get(key), cache.get(key, "default"), cache.gets(key)]
        assert_equal({ key("other") => "readable" }, cache.get_many([key, key("other")]))
      end
      assert_equal [:unreadable], events.map(&:kind), "each reason is told once"
      assert_raises(Pinyon::UndecodableValue, LoadError) { cache.using(on_unreadable: :raise).get(key) }
    end
  end

  def test_failed_names_each_key
    with_unreadable do |settings|
      cache = client(**settings)
      cache.set(key("other"), "readable")
      failed = {}
      assert_equal({ key("other") => "readable" }, cache.get_many([key, key("other")], failed:))
      assert_equal [key], failed.keys
      error = assert_raises(Pinyon::UndecodableValue, LoadError) { cache.get_many([key, key("other")]) }
      assert_equal({ key("other") => "readable" }, error.partial) if error.is_a?(Pinyon::Error)
    end
  end

  private

  # Stores values that a client with these settings cannot read.
  def with_unreadable
    [
      [{ serializer: :marshal }, Set[1], {}],
      [{ serializer: :raw }, "not ours", { serializer: Calling.new }]
    ].each do |writes, value, settings|
      client(**writes).set(key, value)
      yield settings
    end
  end
end
