# frozen_string_literal: true

require_relative "rails_caches"
require_relative "reactors"

class TestRailsCache < PinyonTest
  include RailsCaches

  Record = Struct.new(:id, :version) do
    def cache_key
      "records/#{id}"
    end

    def cache_version
      version.to_s
    end
  end

  def test_values_of_any_class
    cache = store
    values = [1, 1.5, "text", "ß", "\xFF".b, :symbol, nil, true, false, [1, { a: 2 }], Record.new(1, 2), "long" * 1000]
    values.each do |value|
      assert cache.write("value", value)
      read = cache.read("value")
      value.nil? ? assert_nil(read) : assert_equal(value, read)
      assert cache.exist?("value")
    end
    refute cache.exist?("missing")
    assert_nil cache.read("missing")
  end

  def test_fetch_makes_a_missing_value_once
    cache = store
    assert_equal "made", cache.fetch("name") { "made" }
    assert_equal "made", cache.fetch("name") { flunk }
    assert_equal "again", cache.fetch("name", force: true) { "again" }
    assert_nil cache.fetch("nothing", skip_nil: true) { nil }
    refute cache.exist?("nothing")
    assert_equal({ "name" => "again", "other" => "OTHER" }, cache.fetch_multi("name", "other", &:upcase))
    assert_equal "OTHER", cache.read("other")
  end

  def test_any_name
    cache = store
    names = ["with space", "new\nline", "ß", "100%", "x" * 300, "#{"x" * 299}y", ["a", 1], { b: 2 }, :symbol, "\xFF".b]
    names.each_with_index { |name, number| assert cache.write(name, number) }
    assert_equal names.each_with_index.to_h, cache.read_multi(*names)
    names.each { |name| assert cache.delete(name) }
    assert_empty cache.read_multi(*names)
  end

  def test_namespaces
    tenant = "a"
    cache = store(namespace: -> { namespace + tenant })
    cache.write("name", 1)
    assert_equal 1, cache.read("name")
    assert_nil cache.read("name", namespace: "elsewhere")
    tenant = "b"
    assert_nil cache.read("name")
  end

  def test_versions_of_a_record
    cache = store
    cache.write(Record.new(1, "old"), "about the old one")
    assert_equal "about the old one", cache.read(Record.new(1, "old"))
    assert_nil cache.read(Record.new(1, "new"))
    assert_equal "about the new one", cache.fetch(Record.new(1, "new")) { "about the new one" }
    assert_nil cache.read("records/1", version: "old")
    assert_empty cache.read_multi(Record.new(1, "old"))
  end

  def test_ttls
    cache = store(expires_in: 1.hour)
    cache.write("usual", 1)
    cache.write("own", 1, expires_in: 2.hours)
    cache.write("raced", 1, expires_in: 100, race_condition_ttl: 10)
    cache.write("raw", 1, expires_in: 100, race_condition_ttl: 10, raw: true)
    cache.write_multi({ "many" => 1 }, expires_in: 100, race_condition_ttl: 10)
    { "usual" => 3600, "own" => 7200, "raced" => 400, "raw" => 100, "many" => 400 }.each do |name, ttl|
      assert_in_delta ttl, cache.client.meta("#{namespace}:#{name}").ttl, GENEROUS
    end
    cache.write("endless", 1, expires_in: nil)
    assert_nil cache.client.meta("#{namespace}:endless").ttl
  end

  def test_an_expired_value_is_served_to_others_while_one_caller_makes_it
    cache = store
    cache.write("name", "old", expires_in: 0.001, race_condition_ttl: 3600)
    assert(eventually { cache.read_multi("name").empty? })
    made = cache.fetch("name", race_condition_ttl: 3600, expires_in: 3600) do
      assert_equal("old", cache.fetch("name") { flunk })
      "new"
    end
    assert_equal %w[new new], [made, cache.read("name")]
  end

  def test_raw_values
    cache = store
    assert cache.write("name", 5, raw: true)
    assert_equal "5", cache.read("name", raw: true)
    assert_equal ["5", 0], cache.client.get("#{namespace}:name")
    assert_equal 6, cache.increment("name")
    assert_equal({ "name" => "6" }, cache.read_multi("name", raw: true))
    cache.write_multi({ "text" => "ß", "bytes" => "\xFF".b }, raw: true)
    assert_equal({ "text" => "ß", "bytes" => "\xFF".b }, cache.read_multi("text", "bytes", raw: true))
  end

  def test_counters
    cache = store
    assert_equal 5, cache.increment("up", 5, expires_in: 1.hour)
    assert_in_delta 3600, cache.client.meta("#{namespace}:up").ttl, GENEROUS
    assert_equal 4, cache.decrement("up")
    assert_equal 0, cache.decrement("up", 100)
    assert_equal 0, cache.decrement("down")
    assert_raises(Pinyon::UsageError) { cache.increment("up", -1) }
    cache.write("text", "not a number", raw: true)
    assert_match(/Pinyon::ServerError/, logged { assert_nil cache.increment("text") })
  end

  def test_unless_exist
    cache = store
    assert cache.write("name", 1, unless_exist: true)
    refute cache.write("name", 2, unless_exist: true)
    cache.write_multi({ "name" => 3, "other" => 3 }, unless_exist: true)
    assert_equal({ "name" => 1, "other" => 3 }, cache.read_multi("name", "other"))
  end

  def test_many_keys_are_one_call
    cache = store
    names = (1..50).map(&:to_s)
    pairs = names.to_h { |name| [name, "value #{name}"] }
    assert_equal([:set_many], calls_of(cache) { assert cache.write_multi(pairs) })
    assert_equal([:get_many], calls_of(cache) { assert_equal(pairs, cache.read_multi(*names, "missing")) })
    assert_equal([:delete_many], calls_of(cache) { assert_equal(50, cache.delete_multi([*names, "missing"])) })
    assert_empty cache.read_multi(*names)
  end

  def test_the_local_cache_of_a_request
    cache = store
    cache.with_local_cache do
      cache.write("one", 1)
      cache.write_multi({ "two" => 2, "three" => 3 })
      assert_empty(calls_of(cache) { assert_equal([1, 2, 3], %w[one two three].map { |name| cache.read(name) }) })
      store.write("one", "elsewhere")
      assert_equal 1, cache.read("one")
      cache.delete_multi(%w[two three])
      assert_equal 5, cache.increment("counter", 5)
      assert_equal 5, cache.read("counter", raw: true).to_i
      assert_equal [nil, nil], [cache.read("two"), cache.read("three")]
    end
    assert_equal "elsewhere", cache.read("one")
  end

  def test_a_value_that_cannot_be_read_is_missing
    cache = store
    cache.write("good", 1)
    { "\x04\bo:\fUnknownClass".b => 1, "not zlib".b => 2, "\x04\b[".b => 1 }.each do |stored|
      cache.client.set("#{namespace}:bad", stored)
      assert_match(/UndecodableValue/, logged { assert_nil cache.read("bad") })
      told_before = logged { assert_equal({ "good" => 1 }, cache.read_multi("good", "bad")) }
      refute_match(/UndecodableValue/, told_before, "each reason is told once")
    end
    assert_equal 2, cache.fetch("bad") { 2 }
  end

  def test_a_value_that_is_too_large_is_not_written
    cache = store
    said = logged { refute cache.write("name", Random.bytes(2 << 20), compress: false) }
    assert_match(/ValueTooLarge/, said)
  end

  def test_a_value_that_is_too_large_does_not_prevent_writing_others
    cache = store
    pairs = { "a" => 1, "name" => Random.bytes(2 << 20), "b" => 2 }
    said = logged { refute cache.write_multi(pairs, compress: false) }
    assert_equal 1, said.scan("ValueTooLarge").size
    assert_equal({ "a" => 1, "b" => 2 }, cache.read_multi(*pairs.keys))
  end

  def test_mistakes_are_raised
    assert_raises(TypeError) { store.write("name", proc {}) }
    said = assert_raises(ArgumentError) { store(time_out: 1) }.message
    assert_match(/time_out.*timeout/, said)
    assert_raises(NotImplementedError) { store.delete_matched(/x/) }
    assert_raises(NotImplementedError) { store.cleanup }
  end

  def test_a_pool_needs_no_size
    assert store(pool: { size: 5 }, pool_size: 5, pool_timeout: 1).write("name", 1)
  end

  def test_notifications
    cache = store
    seen = notified do
      cache.fetch("name") { 1 }
      cache.read("name")
      cache.increment("counter", 2)
      cache.delete("name")
    end
    assert_equal %w[cache_read cache_generate cache_write cache_read cache_increment cache_delete], seen.map(&:first)
    assert(seen.all? { |_name, payload| payload[:store] == "ActiveSupport::Cache::PinyonStore" })
    assert_equal([false, true], seen.select { |name,| name == "cache_read" }.map { |_name, payload| payload[:hit] })
    assert_equal 2, seen.to_h["cache_increment"][:amount]
  end

  Reactors::ALL.each do |name, reactor|
    define_method("test_fibers_in_#{name}") do
      cache = store
      made = []
      reactor.run do
        16.times do |number|
          reactor.start do
            made << cache.fetch("name #{number}") { number }
            made << cache.fetch("name #{number}") { flunk }
          end
        end
      end
      assert_equal (0..15).flat_map { |number| [number, number] }, made.sort
    end
  end

  def test_clear_and_stats
    server = Server.new(*MEMCACHED)
    cache = store(server.address)
    cache.write("name", 1)
    assert_equal "1", cache.stats.fetch(server.address)["curr_items"]
    assert cache.clear
    assert_nil cache.read("name")
  ensure
    server.stop
  end

  def test_clear_of_a_clearable_namespace_keeps_what_others_have
    settings = { clearable: true, generation_ttl: 0 }
    one, same = Array.new(2) { store(**settings) }
    plain = store
    other = store(namespace: "#{namespace}s", **settings)
    [one, other, plain].each { |cache| cache.write("name", 1) }
    one.write("name", 2, namespace: "of a call")
    assert_equal [1, 2], [same.read("name"), same.read("name", namespace: "of a call")]
    assert one.clear
    assert_equal [nil, nil, nil], [one.read("name"), same.read("name"), one.read("name", namespace: "of a call")]
    assert_equal [1, 1], [other.read("name"), plain.read("name")]
    assert_equal [3, { "name" => 3 }], [same.fetch("name") { 3 }, one.read_multi("name", "another")]
    assert_equal 1, one.increment("count")
  end

  def test_only_a_namespace_of_text_is_clearable
    [{ namespace: nil }, { namespace: -> { "shop" } }].each do |settings|
      error = assert_raises(Pinyon::UsageError) { store(clearable: true, **settings) }
      assert_match(/clearable needs a namespace/, error.message)
    end
  end

  def test_the_password_is_not_shown
    cache = store("127.0.0.1:1", username: "ada", password: "secret")
    refute_match(/secret/, cache.inspect + cache.options.inspect)
  end

  def test_servers_in_one_string
    assert_equal %w[a:1 b:2 c:3], store("a:1, b:2", "c:3").client.servers
    assert_equal %w[127.0.0.1:11211], ActiveSupport::Cache.lookup_store(:pinyon_store).client.servers
  end
end
