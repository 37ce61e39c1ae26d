# frozen_string_literal: true

require_relative "rails_caches"

# fetch with the option :lease. A store has a client of its own, as another process has.
class TestRailsCacheLeases < PinyonTest
  include RailsCaches

  # Longer than any test takes.
  LEASE = 600

  # A thread, and whether the block it was given has begun.
  def making(cache, **options)
    begun = Queue.new
    finish = Queue.new
    thread = Thread.new do
      cache.fetch("name", lease: LEASE, **options) do
        begun << true
        finish.pop
      end
    end
    thread.report_on_exception = false
    begun.pop
    [thread, finish]
  end

  def test_one_caller_makes_a_missing_value
    caches = Array.new(3) { store }
    made = Queue.new
    values = caches.cycle(8).map do |cache|
      Thread.new do
        cache.fetch("name", lease: LEASE, expires_in: 100) do
          made << true
          sleep(0.05)
          { a: 1 }
        end
      end
    end.map(&:value)
    assert_equal [{ a: 1 }], values.uniq
    assert_equal 24, values.uniq(&:object_id).size
    assert_equal 1, made.size
    assert_equal({ a: 1 }, store.read("name"))
  end

  def test_a_lease_for_all_calls_of_a_store
    first = store(lease: LEASE)
    second = store(lease: LEASE)
    begun = Queue.new
    finish = Queue.new
    maker = Thread.new { first.fetch("name") { (begun << true) && finish.pop } }
    begun.pop
    waiter = Thread.new { second.fetch("name") { flunk } }
    finish << "made"
    assert_equal %w[made made], [maker.value, waiter.value]
    assert_equal(%w[again again], [second.fetch("name", force: true) { "again" }, first.read("name")])
  end

  # Programs with MemCacheStore share the server: they must never find a placeholder where a value belongs.
  def test_nothing_is_under_the_key_while_the_value_is_made
    server = Server.new(*MEMCACHED)
    maker, finish = making(store(server.address))
    assert_nil client(server.address).meta("#{namespace}:name")
    assert_nil store(server.address).read("name")
    refute store(server.address).exist?("name")
    assert store(server.address).write("name", "other", unless_exist: true)
    finish << "made"
    assert_equal "made", maker.value
    assert_equal "made", store(server.address).read("name")
  ensure
    server.stop
  end

  def test_mem_cache_store_reads_no_placeholder
    with_dalli
    server = Server.new(*MEMCACHED)
    theirs = ActiveSupport::Cache.lookup_store(:mem_cache_store, server.address, { namespace: })
    maker, finish = making(store(server.address))
    assert_nil theirs.read("name")
    assert_empty theirs.read_multi("name")
    finish << "made"
    maker.join
    assert_equal "made", theirs.read("name")
  ensure
    server.stop
  end

  def test_an_error_is_raised_and_the_next_caller_makes_the_value
    cache = store
    assert_raises(KeyError) { cache.fetch("name", lease: LEASE) { raise KeyError } }
    calls = 0
    assert_raises(Pinyon::ConnectError) do
      cache.fetch("name", lease: LEASE) { (calls += 1) && raise(Pinyon::ConnectError, "mine") }
    end
    assert_equal 1, calls
    assert_equal "left", catch(:done) { cache.fetch("name", lease: LEASE) { throw :done, "left" } }
    assert_equal "made", store.fetch("name", lease: LEASE) { "made" }
  end

  def test_a_value_deleted_after_it_was_made_is_made_again_by_one_caller
    lease = store.send(:lease_of, "#{namespace}:name", "name", {})
    store.client.set(lease, ["made", 0], ttl: LEASE)
    maker, finish = making(store)
    waiters = Array.new(2) { store }.map { |cache| Thread.new { cache.fetch("name", lease: LEASE) { flunk } } }
    assert(eventually { waiters.all? { |waiter| waiter.status == "sleep" } })
    finish << "made"
    assert_equal ["made"] * 3, [maker, *waiters].map(&:value)
  end

  def test_a_value_that_was_made_before_the_lease_was_won
    store.write("name", "made")
    options = { lease: LEASE }
    late = store.send(:save_block_result_to_cache, "name", *("key" if rails_passes_the_key?), options) { flunk }
    assert_equal "made", late
  end

  def test_what_is_not_stored_keeps_nobody_waiting
    cache = store
    nothing = Array.new(3) { cache.fetch("name", lease: LEASE, skip_nil: true) { nil } }
    assert_equal [nil] * 3, nothing
    large = "x" * 2_000_000
    logged { assert_equal([large] * 3, Array.new(3) { cache.fetch("large", lease: LEASE, compress: false) { large } }) }
    refute cache.exist?("large")
  end

  def test_waiting_callers_make_what_was_not_stored_at_the_same_time
    maker, finish = making(store, skip_nil: true)
    making = Queue.new
    waiters = Array.new(2) { store }.map do |cache|
      Thread.new { cache.fetch("name", lease: LEASE) { (making << true) && eventually { making.size == 2 } } }
    end
    assert(eventually { waiters.all? { |waiter| waiter.status == "sleep" } })
    finish << nil
    assert_equal [nil, true, true], [maker, *waiters].map(&:value)
  end

  def test_nil_and_false_are_values
    [nil, false].each do |value|
      made = 0
      values = Array.new(3) { store.fetch("#{value.inspect} name", lease: LEASE) { (made += 1) && value } }
      assert_equal [[value] * 3, 1], [values, made]
    end
  end

  def test_callers_that_want_another_version_do_not_wait
    maker, finish = making(store, version: "old")
    assert_equal("new", store.fetch("name", lease: LEASE, version: "new") { "new" })
    finish << "old"
    assert_equal "old", maker.value
  end

  def test_an_expired_value_is_read_while_one_caller_makes_the_next
    store.write("name", "old", expires_in: 0.001, race_condition_ttl: 3600)
    assert(eventually { store.read_multi("name").empty? })
    maker, finish = making(store, race_condition_ttl: 3600, expires_in: 3600)
    values = Array.new(3) { store.fetch("name", lease: LEASE, race_condition_ttl: 3600) { flunk } }
    assert_equal ["old"] * 3, values
    finish << "new"
    assert_equal %w[new new], [maker.value, store.read("name")]
  end

  # It has found the expired value before another caller has put it back.
  def test_a_caller_that_comes_too_late_for_the_lease_reads_the_expired_value
    maker, finish = making(store)
    store.write("name", "old")
    options = { lease: LEASE, race_condition_ttl: 3600, namespace: }
    late = store.send(:save_block_result_to_cache, "name", *("key" if rails_passes_the_key?), options) { flunk }
    assert_equal "old", late
    finish << "new"
    assert_equal %w[new new], [maker.value, store.read("name")]
  end

  def rails_passes_the_key?
    ActiveSupport::Cache::Store.instance_method(:save_block_result_to_cache).arity == 3
  end

  def test_leases_and_the_local_cache_of_a_request
    cache = store
    cache.with_local_cache do
      assert_nil cache.read("name")
      maker, finish = making(store)
      waiter = Thread.new { cache.with_local_cache { [cache.read("name"), fetched(cache), cache.read("name")] } }
      assert(eventually { waiter.status == "sleep" })
      finish << "made"
      maker.join
      assert_equal [nil, "made", "made"], waiter.value
    end
  end

  def fetched(cache)
    cache.fetch("name", lease: LEASE) { flunk }
  end

  def test_long_names
    name = "ß" * 300
    assert_equal("made", store.fetch(name, lease: LEASE) { "made" })
    assert_equal("made", store.fetch(name, lease: LEASE) { flunk })
  end

  def test_a_maker_that_dies
    child = fork do
      store.fetch("name", lease: 1) { Process.kill(:KILL, Process.pid) }
    end
    Process.wait(child)
    assert_equal("made", store.fetch("name", lease: 1) { "made" })
  end

  def test_a_server_that_dies_while_a_value_is_made
    server = Server.new(*MEMCACHED)
    maker, finish = making(store(server.address))
    waiter = Thread.new { store(server.address).fetch("name", lease: LEASE) { "made too" } }
    assert(eventually { waiter.status == "sleep" })
    said = logged do
      server.kill
      finish << "made"
      assert_equal ["made", "made too"], [maker.value, waiter.value]
    end
    assert_match(/Pinyon::ConnectError|Pinyon::ConnectionLost/, said)
    assert_equal("made", logged_fetch(server))
  ensure
    server.stop
  end

  def logged_fetch(server)
    value = nil
    logged { value = store(server.address).fetch("name", lease: LEASE) { "made" } }
    value
  end

  def test_the_block_must_not_ask_for_its_own_name
    cache = store
    assert_raises(Pinyon::UsageError) do
      cache.fetch("name", lease: LEASE) { cache.fetch("name", lease: LEASE) { flunk } }
    end
  end
end
