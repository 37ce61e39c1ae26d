# frozen_string_literal: true

require_relative "support"
require_relative "making"

# fetch_many: missing values are made together, each by one caller, and each key fails by itself.
class TestFetchMany < PinyonTest
  extend Models
  include Making

  # A block that waits until the test lets it continue, and knows with which keys it was called.
  class Makers
    attr_reader :calls
    attr_writer :held

    def initialize(model, held: false, &outcome)
      @model = model
      @held = held
      @outcome = outcome
      @calls = []
    end

    def to_proc
      proc do |keys|
        @calls << keys
        Models.wait_until(@model) { !@held }
        @outcome.call(keys)
      end
    end

    def begun
      Models.wait_until(@model) { @calls.any? }
    end
  end

  NAMED = ->(keys) { keys.to_h { |key| [key, "value of #{key}"] } }
  FAILING = ->(_keys) { raise IndexError, "no database" }

  def named(*keys)
    NAMED.call(keys)
  end

  in_every_model(:what_is_missing_is_made_in_one_call_and_stored) do |model|
    with_server do |server|
      cache = client(server.address)
      cache.set("b", nil)
      maker = Makers.new(model, &NAMED)
      expected = { "a" => "value of a", "b" => nil, c: "value of c" }
      assert_equal expected, cache.fetch_many(["a", "b", :c, "a"], ttl: 60, &maker)
      assert_equal [["a", :c]], maker.calls, "as they were given, in their order"
      assert_equal %w[3 3], counts(cache, server)
      assert_equal expected, cache.fetch_many(Set["a", "b", :c], ttl: 60, &NEVER)
      assert_equal %w[6 3], counts(cache, server)
      assert_equal({ "a" => "value of a", a: "value of a" }, cache.fetch_many(["a", :a], ttl: 60, &NEVER))
      assert_empty cache.fetch_many([], ttl: 60, &NEVER)
    end
  end

  def test_values_survive_the_garbage_collector
    cache = client
    keys = Array.new(20) { |number| key(number) }
    made = keys.to_h { |each| [each, ["of #{each}"]] }
    2.times do
      GC.stress = true
      found = cache.fetch_many(keys, ttl: 60) { keys.to_h { |each| [each, ["of #{each}"]] } }
      GC.stress = false
      assert_equal made, found
    end
  ensure
    GC.stress = false
  end

  in_every_model(:pairs_and_values_with_their_own_ttls) do |_model|
    cache = client
    a, b, z = %w[a b z].map { |name| key(name) }
    made = [[a, Pinyon::Made.new("A", ttl: 500)], [b, Pinyon::Made.new("B", store: false)], [z, "not asked for"]]
    assert_equal({ a => "A", b => "B" }, cache.fetch_many([a, b], ttl: 60) { made })
    assert_operator cache.meta(a).ttl, :>, 400
    assert_empty cache.get_many([b, z])
    assert_equal({ b => "made" }, cache.fetch_many([b], ttl: ->(value) { value.size * 100 }) { { b => "made" } })
    assert_includes 300..400, cache.meta(b).ttl
  end

  in_every_model(:a_key_that_is_left_out_is_missing_and_another_caller_makes_it) do |model|
    cache = client
    keys = %w[a b].map { |name| key(name) }
    assert_equal({ keys[0] => 1 }, cache.fetch_many(keys, ttl: 60, lease: LONG) { { keys[0] => 1 } })
    maker = Makers.new(model, &NAMED)
    assert_equal({ keys[0] => 1, **named(keys[1]) }, cache.fetch_many(keys, ttl: 60, wait: 0, &maker))
  end

  in_every_model(:if_the_block_fails_all_leases_are_given_back) do |_model|
    keys = %w[a b].map { |name| key(name) }
    failed = {}
    error = assert_raises(IndexError) { client.fetch_many(keys, ttl: 60, lease: LONG, failed:, &FAILING) }
    assert_equal "no database", error.message
    assert_empty failed
    assert_equal named(*keys), client.fetch_many(keys, ttl: 60, wait: 0, &NAMED)
  end

  in_every_model(:a_caller_that_is_stopped_gives_back_what_it_won) do |model|
    keys = %w[a b].map { |name| key(name) }
    cache = client
    maker = Makers.new(model, held: true, &NAMED)
    task = Models::Task.new(model) { cache.fetch_many(keys, ttl: 60, lease: LONG, &maker) }
    maker.begun
    task.stop
    assert_equal named(*keys), client.fetch_many(keys, ttl: 60, &NAMED)
    assert_equal 0, following(cache)
  end

  in_every_model(:those_of_one_process_wait_for_each_other_key_by_key) do |model|
    with_server do |server|
      cache = client(server.address)
      first, second = Array.new(2) { Makers.new(model, held: true, &NAMED) }
      tasks = [Models::Task.new(model) { cache.fetch_many(%w[a b c], ttl: 60, &first) }]
      first.begun
      tasks << Models::Task.new(model) { cache.fetch_many(%w[d c b], ttl: 60, &second) }
      second.begun
      assert_equal 2, following(cache)
      first.held = second.held = false
      assert_equal [named("a", "b", "c"), named("d", "c", "b")], tasks.map(&:value)
      assert_equal [[%w[a b c]], [["d"]]], [first.calls, second.calls]
      assert_equal %w[4 4], counts(cache, server)
    end
  end

  in_every_model(:one_key_and_many_wait_for_each_other) do |model|
    cache = client
    maker = Makers.new(model, held: true, &NAMED)
    task = Models::Task.new(model) { cache.fetch_many([key("a"), key("b")], ttl: 60, &maker) }
    maker.begun
    other = Models::Task.new(model) { cache.fetch(key("a"), ttl: 60, &NEVER) }
    Models.wait_until(model) { following(cache) == 1 }
    maker.held = false
    assert_equal [named(key("a"), key("b")), "value of #{key("a")}"], [task, other].map(&:value)
  end

  in_every_model(:those_of_several_processes_make_each_value_once) do |model|
    caches = Array.new(3) { client }
    makers = caches.map { Makers.new(model, &NAMED) }
    wanted = [%w[a b c d], %w[d c b e], %w[e a f b]].map { |names| names.map { |name| key(name) } }
    tasks = caches.zip(makers, wanted).map do |cache, maker, keys|
      Models::Task.new(model) { cache.fetch_many(keys, ttl: 60, &maker) }
    end
    assert_equal(wanted.map { |keys| named(*keys) }, tasks.map(&:value))
    assert_equal wanted.flatten.uniq.sort, makers.flat_map(&:calls).flatten.sort
  end

  in_every_model(:what_others_make_for_too_long_is_named) do |_model|
    cache = client
    a, b = %w[a b].map { |name| key(name) }
    client.lease(b, lease: LONG)
    failed = {}
    assert_equal named(a), cache.fetch_many([a, b], ttl: 60, wait: 0.01, failed:, &NAMED)
    assert_equal [b, Pinyon::LeaseTimeout], failed.transform_values(&:class).first
    error = assert_raises(Pinyon::LeaseTimeout) { cache.fetch_many([a, b], ttl: 60, wait: 0, &NEVER) }
    assert_equal [true, named(a)], [error.message.include?("#{b.inspect} is still being made"), error.partial]
  end

  in_every_model(:a_server_that_is_down_fails_its_own_keys) do |model|
    with_server do |server|
      with_server do |staying|
        cache = client(server.address, staying.address, failover: false)
        keys = Array.new(20) { |number| "key:#{number}" }
        assert_equal named(*keys), cache.fetch_many(keys, ttl: 60, &NAMED)
        server.kill
        failed = {}
        found = cache.fetch_many(keys, ttl: 60, failed:, &NEVER)
        refute_empty found
        assert_equal keys.sort, (found.keys + failed.keys).sort
        assert(failed.each_value.all?(Pinyon::Error))
        maker = Makers.new(model, &NAMED)
        assert_equal named(*keys), cache.using(on_failure: :miss).fetch_many(keys, ttl: 60, &maker)
        assert_equal failed.keys.sort, maker.calls.first.sort, "they are made, and stored nowhere"
      end
    end
  end

  in_every_model(:a_value_that_cannot_be_stored_fails_its_own_key) do |_model|
    cache = client
    a, b = %w[a b].map { |name| key(name) }
    failed = {}
    assert_equal({ a => 1 }, cache.fetch_many([a, b], ttl: 60, lease: LONG, failed:) { { a => 1, b => :symbol } })
    assert_equal [Pinyon::UnsupportedType], failed.values.map(&:class)
    assert_match(/\Athe value of #{b.inspect} cannot be stored: /, failed[b].message)
    assert_equal named(b), client.fetch_many([b], ttl: 60, wait: 0, &NAMED)
  end

  def test_what_cannot_be_made_of_is_refused
    cache = client
    error = assert_raises(Pinyon::UsageError) { cache.fetch_many([key]) }
    assert_equal "fetch_many makes missing values by its block; get_many reads without making any", error.message
    error = assert_raises(Pinyon::UnsupportedType) { cache.fetch_many([key]) { 5 } }
    assert_match(/\Athe block of fetch_many returns a Hash of .*, not Integer\z/, error.message)
    assert_raises(Pinyon::UnsupportedType) { cache.fetch_many(5, &NEVER) }
    error = assert_raises(Pinyon::InvalidKey) { cache.fetch_many([key, ""], &NEVER) }
    assert_match(/keys\[1\]/, error.message)
  end

  def test_a_migrating_client_makes_nothing_that_the_old_pool_has
    old = client(namespace: "#{namespace}old:")
    cache = Pinyon::MigratingClient.new(old, client(namespace: "#{namespace}new:"))
    values = Array.new(40) { |number| ["a#{number}", "of the old pool"] }.to_h
    old.set_many(values, ttl: 60)
    assert_equal({ **values, **named("b") }, cache.fetch_many([*values.keys, "b"], ttl: 60, &NAMED))
    assert_equal values, cache.new.get_many(values.keys)
  end

  private

  def counts(cache, server)
    cache.stats[server.address].values_at("cmd_get", "cmd_set")
  end
end
