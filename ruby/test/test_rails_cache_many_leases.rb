# frozen_string_literal: true

require_relative "rails_caches"
require_relative "reactors"

# fetch_multi with the option :lease. A store has a client of its own, as another process has.
class TestRailsCacheManyLeases < PinyonTest
  include RailsCaches

  # Longer than any test takes.
  LEASE = 600
  NAMES = %w[a b c d e].freeze
  Versioned = Struct.new(:cache_key, :cache_version)

  # A thread that has begun to make the value of its first name, and what lets it go on. What a block makes is not
  # stored if it is nil.
  def making(cache, *names, **options, &own)
    begun = Queue.new
    finish = Queue.new
    thread = Thread.new do
      cache.fetch_multi(*names, lease: LEASE, skip_nil: !own.nil?, **options) do |name|
        begun << name
        finish.pop
        own ? own.call : "of #{name}"
      end
    end
    thread.report_on_exception = false
    begun.pop
    [thread, finish]
  end

  def of(*names)
    names.to_h { |name| [name, "of #{name}"] }
  end

  def fetched(cache, *names, **options)
    cache.fetch_multi(*names, lease: LEASE, **options) { |name| "of #{name}" }
  end

  def waiting(*threads)
    assert(eventually { threads.all? { |thread| thread.status == "sleep" } })
  end

  def test_each_of_many_names_is_made_by_one_of_20_callers
    caches = Array.new(4) { store }
    made = Queue.new
    values = Array.new(20) do |number|
      Thread.new do
        names = NAMES.rotate(number)
        found = caches[number % 4].fetch_multi(*names, lease: LEASE, expires_in: 100) do |name|
          made << name
          sleep(0.01)
          { of: name }
        end
        assert_equal names, found.keys
        found
      end
    end.map(&:value)
    assert_equal NAMES, Array.new(made.size) { made.pop }.sort
    assert_equal [NAMES.to_h { |name| [name, { of: name }] }], values.uniq
    assert_equal 20, values.map { |found| found["a"].object_id }.uniq.size
    assert_in_delta 100, caches[0].client.meta("#{namespace}:a").ttl, GENEROUS
  end

  def test_each_of_many_names_is_made_by_one_of_several_processes
    reader, writer = IO.pipe
    address = memcached.address
    children = Array.new(4) do |number|
      fork do
        store(address).fetch_multi(*NAMES.rotate(number), lease: LEASE) do |name|
          writer.write(name)
          name
        end
        exit!(0)
      end
    end
    assert(children.all? { |child| Process.wait2(child).last.success? })
    writer.close
    assert_equal NAMES, reader.read.chars.sort
  end

  def test_those_that_want_some_of_the_same_names_wait_for_these_alone
    first, finish = making(store, "a", "b")
    made = Queue.new
    second = Thread.new { store.fetch_multi("c", "b", lease: LEASE) { |name| (made << name) && "of #{name}" } }
    third = Thread.new { store.fetch("a", lease: LEASE) { flunk } }
    waiting(second, third)
    assert(eventually { store.read("c") == "of c" })
    2.times { finish << true }
    assert_equal [of("a", "b"), of("c", "b"), "of a"], [first, second, third].map(&:value)
    assert_equal ["c"], Array.new(made.size) { made.pop }
  end

  def test_it_waits_for_what_fetch_makes
    begun = Queue.new
    finish = Queue.new
    maker = Thread.new { store.fetch("a", lease: LEASE) { (begun << true) && finish.pop } }
    begun.pop
    many = Thread.new { fetched(store, "a", "b") }
    waiting(many)
    finish << "by fetch"
    maker.join
    assert_equal({ "a" => "by fetch", "b" => "of b" }, many.value)
  end

  def test_what_is_sent
    cache = store
    makes = calls_of(cache) { assert_equal of(*NAMES), fetched(cache, *NAMES) }
    assert_equal %i[get_many fetch_many get_many set_many], makes
    reads = calls_of(cache) { assert_equal(of(*NAMES), cache.fetch_multi(*NAMES, lease: LEASE) { flunk }) }
    assert_equal [:get_many], reads
    assert_equal({}, cache.fetch_multi(lease: LEASE) { flunk })
    assert_raises(ArgumentError) { cache.fetch_multi("a", lease: LEASE) }
  end

  def test_nothing_is_made_that_was_written_before_the_lease_was_won
    cache = store
    names = NAMES.to_h { |name| [name, name] }
    late = -> { store.write_multi(names) }
    cache.client.define_singleton_method(:fetch_many) do |*keys, **terms, &block|
      late.call
      super(*keys, **terms, &block)
    end
    assert_equal(names, cache.fetch_multi(*NAMES, lease: LEASE) { flunk })
  end

  def test_a_lease_for_all_calls_of_a_store
    cache = store(lease: LEASE)
    assert_includes(calls_of(cache) { cache.fetch_multi("a") { 1 } }, :fetch_many)
    refute_includes(calls_of(cache) { cache.fetch_multi("b", lease: nil) { 1 } }, :fetch_many)
  end

  def test_force_makes_all_without_leases
    cache = store
    cache.write("a", "old")
    calls = calls_of(cache) { assert_equal(of("a", "b"), fetched(cache, "a", "b", force: true)) }
    assert_equal [:set_many], calls
    assert_equal of("a", "b"), store.read_multi("a", "b")
  end

  def test_nil_is_a_value_unless_it_is_skipped
    cache = store
    2.times do
      made = cache.fetch_multi("a", "b", lease: LEASE, skip_nil: true) { |name| name == "a" ? nil : false }
      assert_equal({ "a" => nil, "b" => false }, made)
    end
    refute cache.exist?("a")
    assert cache.exist?("b")
    cache.fetch_multi("a", lease: LEASE) { nil }
    assert_equal({ "a" => nil, "b" => false }, cache.fetch_multi("a", "b", lease: LEASE) { flunk })
  end

  def test_namespaces_raw_values_and_compression
    cache = store
    fetched(cache, "a", namespace: "#{namespace} elsewhere")
    assert_nil cache.read("a")
    assert_equal "of a", cache.read("a", namespace: "#{namespace} elsewhere")
    2.times { assert_equal({ "n" => "5" }, cache.fetch_multi("n", lease: LEASE, raw: true) { "5" }) }
    assert_equal ["5", 0], cache.client.get("#{namespace}:n")
    { "small" => true, "large" => false }.each do |name, compress|
      cache.fetch_multi(name, lease: LEASE, compress:) { "x" * 100_000 }
      assert_equal compress, cache.client.meta("#{namespace}:#{name}").size < 50_000
    end
    tenant = store(namespace: -> { namespace }, lease: LEASE)
    assert_equal({ "small" => "x" * 100_000 }, tenant.fetch_multi("small") { flunk })
  end

  def test_names_with_the_same_key_are_made_once
    made = []
    values = store.fetch_multi("a", :a, %w[b], "b", "a", lease: LEASE) { |name| (made << name) && "of #{name}" }
    assert_equal({ "a" => "of a", :a => "of a", %w[b] => 'of ["b"]', "b" => 'of ["b"]' }, values)
    assert_equal ["a", %w[b]], made
  end

  def test_versions_and_long_names
    old, new = %w[old new].map { |version| Versioned.new("records/1", version) }
    first, finish = making(store, old)
    assert_equal({ new => "of #{new}" }, fetched(store, new))
    finish << true
    assert_equal({ old => "of #{old}" }, first.value)
    long = "ß" * 300
    2.times { assert_equal of(long), fetched(store, long) }
  end

  def test_expired_values_are_read_while_one_caller_makes_the_next
    store.write_multi({ "a" => "old a", "b" => "old b" }, expires_in: 0.001, race_condition_ttl: 3600)
    store.write("fresh", "fresh")
    names = %w[a fresh b]
    assert(eventually { store.read_multi("a", "b").empty? })
    maker, finish = making(store, *names, race_condition_ttl: 3600, expires_in: 3600)
    found = Array.new(3) { store.fetch_multi(*names, lease: LEASE, race_condition_ttl: 3600) { flunk } }
    assert_equal [{ "a" => "old a", "fresh" => "fresh", "b" => "old b" }] * 3, found
    2.times { finish << true }
    new = { "a" => "of a", "fresh" => "fresh", "b" => "of b" }
    assert_equal [new, new], [maker.value, store.read_multi(*names)]
  end

  def test_what_has_expired_too_long_ago_is_waited_for
    cache = store
    entry = ActiveSupport::Cache::Entry.new("old")
    entry.expires_at = Time.now - 7200
    cache.send(:write_entry, "#{namespace}:a", entry)
    maker, finish = making(store, "a", "b")
    waiter = Thread.new { cache.fetch_multi("a", "b", lease: LEASE, race_condition_ttl: 3600) { flunk } }
    waiting(waiter)
    2.times { finish << true }
    assert_equal [of("a", "b")] * 2, [maker, waiter].map(&:value)
  end

  def test_an_error_is_raised_and_the_next_caller_makes_the_values
    cache = store
    assert_raises(KeyError) { cache.fetch_multi("a", "b", lease: LEASE) { |name| name == "b" ? raise(KeyError) : 1 } }
    calls = 0
    assert_raises(Pinyon::ConnectError) do
      cache.fetch_multi("a", "b", lease: LEASE) { (calls += 1) && raise(Pinyon::ConnectError, "mine") }
    end
    assert_equal 1, calls
    assert_equal "left", catch(:done) { cache.fetch_multi("a", lease: LEASE) { throw :done, "left" } }
    assert_equal of("a", "b"), fetched(store, "a", "b")
  end

  def test_an_error_of_another_caller_of_the_process
    cache = store
    [KeyError, Pinyon::ConnectError].each do |error|
      begun = Queue.new
      finish = Queue.new
      maker = Thread.new { cache.fetch("a", lease: LEASE) { (begun << true) && raise(finish.pop) } }
      maker.report_on_exception = false
      begun.pop
      waiter = Thread.new { fetched(cache, "a", "b") }
      waiter.report_on_exception = false
      waiting(waiter)
      finish << error
      assert_raises(error) { maker.value }
      assert_raises(error) { waiter.value }
    end
  end

  def test_what_is_not_stored_keeps_nobody_waiting
    cache = store
    large = "x" * 2_000_000
    values = { "large" => large, "small" => 1 }
    said = logged do
      made = cache.fetch_multi(*values.keys, lease: LEASE, compress: false) { |name| values[name] }
      assert_equal values, made
      made = cache.fetch_multi(*values.keys, lease: LEASE, compress: false) { large }
      assert_equal values, made
    end
    assert_match(/ValueTooLarge/, said)
    assert_equal({ "small" => 1 }, store.read_multi(*values.keys))
  end

  # The names that are left as made, and as not stored, for those that wait.
  def left_by(cache, values, **options)
    left = {}
    cache.client.define_singleton_method(:fetch_many) do |keys, **terms, &block|
      super(keys, **terms) { |won| block.call(won).tap { |made| left.merge!(made) } }
    end
    logged { cache.fetch_multi(*values.keys, lease: LEASE, **options) { |name| values[name] } }
    values.keys.zip(left.values.map(&:first)).group_by(&:last).transform_values { |pairs| pairs.map(&:first) }
  end

  def test_those_that_wait_are_told_which_values_were_not_stored
    large, *small, nothing = %w[large b c nothing].map { |name| "#{namespace}:#{name}" }
    values = { large => "x" * 2_000_000, small[0] => 1, nothing => nil, small[1] => 2 }
    cache = store(namespace: nil)
    cache.with_local_cache do
      left = left_by(cache, values, compress: false, skip_nil: true)
      assert_equal({ "made" => small, "not stored" => [large, nothing] }, left)
    end
  end

  def test_waiting_callers_make_what_was_not_stored_at_the_same_time
    maker, finish = making(store, "a") { nil }
    making = Queue.new
    waiters = Array.new(2) { store }.map do |cache|
      Thread.new { cache.fetch_multi("a", lease: LEASE) { (making << true) && eventually { making.size == 2 } } }
    end
    waiting(*waiters)
    finish << true
    assert_equal [{ "a" => nil }, { "a" => true }, { "a" => true }], [maker, *waiters].map(&:value)
  end

  def test_what_fails_for_all_names_is_logged_once
    cache = store
    cache.client.define_singleton_method(:fetch_many) do |keys, failed:, **|
      keys.each { |key| failed[key] = Pinyon::ConnectionLost.new("lost") }
      {}
    end
    said = logged { assert_equal of(*NAMES), fetched(cache, *NAMES) }
    assert_equal 1, said.scan("ConnectionLost").size
  end

  def test_a_value_deleted_after_it_was_made_is_made_again_by_one_caller
    NAMES.each do |name|
      lease = store.send(:lease_of, "#{namespace}:#{name}", name, {})
      store.client.set(lease, ["made", 0], ttl: LEASE)
    end
    made = Queue.new
    threads = Array.new(3) do
      Thread.new { store.fetch_multi(*NAMES, lease: LEASE) { |name| (made << name) && "of #{name}" } }
    end
    assert_equal [of(*NAMES)] * 3, threads.map(&:value)
    assert_equal NAMES, Array.new(made.size) { made.pop }.sort
  end

  def test_the_same_notifications_as_without_a_lease
    plain, leased = [nil, LEASE].map do |lease|
      cache = store(namespace: "#{namespace}#{lease}")
      cache.write("b", 1)
      notified { cache.fetch_multi("a", "b", lease:) { 2 } }.sort_by(&:first)
    end
    assert_equal %w[cache_read_multi cache_write_multi], leased.map(&:first)
    payloads = [plain, leased].map { |seen| seen.map { |_, payload| payload.except(:lease, :namespace) } }
    assert_equal(*payloads.map { |seen| seen.inspect.gsub("#{namespace}#{LEASE}", namespace) })
    assert_equal 1, leased[0].last[:hits].size
  end

  def test_the_local_cache_of_a_request
    cache = store
    cache.with_local_cache do
      cache.write("b", "of b")
      maker, finish = making(store, "a")
      waiter = Thread.new { cache.with_local_cache { [cache.exist?("a"), fetched(cache, "a", "c"), cache.read("c")] } }
      waiting(waiter)
      finish << true
      maker.join
      assert_equal [false, of("a", "c"), "of c"], waiter.value
      assert_equal of("a", "b"), fetched(cache, "a", "b")
    end
  end

  def test_a_server_that_is_down
    server = Server.new(*MEMCACHED)
    cache = store(server.address)
    server.kill
    said = logged { assert_equal of(*NAMES), fetched(cache, *NAMES) }
    assert_match(/Pinyon::ConnectError|Pinyon::ConnectionLost/, said)
  ensure
    server.stop
  end

  def test_a_server_that_dies_while_values_are_made
    server = Server.new(*MEMCACHED)
    maker, finish = making(store(server.address), "a", "b")
    waiter = Thread.new { fetched(store(server.address), "a", "b") }
    waiting(waiter)
    logged do
      server.kill
      2.times { finish << true }
      assert_equal [of("a", "b")] * 2, [maker.value, waiter.value]
    end
  ensure
    server.stop
  end

  def test_the_block_must_not_ask_for_its_own_names
    cache = store
    assert_raises(Pinyon::UsageError) { cache.fetch_multi("a", "b", lease: LEASE) { fetched(cache, "b") } }
    assert_raises(Pinyon::UsageError) do
      cache.fetch_multi("a", "b", lease: LEASE) { cache.fetch("b", lease: LEASE) { flunk } }
    end
  end

  Reactors::ALL.each do |name, reactor|
    define_method("test_fibers_in_#{name}") do
      caches = Array.new(2) { store }
      made = []
      found = []
      reactor.run do
        8.times do |number|
          reactor.start do
            names = NAMES.rotate(number)
            found << caches[number % 2].fetch_multi(*names, lease: LEASE) { |each| (made << each) && "of #{each}" }
          end
        end
      end
      assert_equal [of(*NAMES)], found.uniq
      assert_equal NAMES, made.sort
    end
  end
end
