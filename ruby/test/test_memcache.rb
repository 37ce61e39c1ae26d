# frozen_string_literal: true

require "pinyon/compat/memcache"
require_relative "dallis"

# The methods of memcache-client and of the gem memcached, with the results that those have.
class TestMemcache < PinyonTest
  include Dallis

  Memcached = Pinyon::Compat::Memcached
  MemCache = Pinyon::Compat::MemCache

  STORED = "STORED\r\n"
  NOT_STORED = "NOT_STORED\r\n"

  def setup
    client.flush_all
  end

  def test_memcache_client
    cache = mem_cache(namespace: "app")
    assert_equal [STORED, { a: 1 }, nil], [cache.set("k", { a: 1 }, 100), cache["k"], cache.get("missing")]
    assert_equal [NOT_STORED, STORED, STORED], [cache.add("k", 1), cache.replace("k", 2), cache.add("l", 3)]
    assert_equal [NOT_STORED, { "k" => 2, "l" => 3 }], [cache.replace("m", 1), cache.get_multi("k", ["l", :m])]
    assert_equal([5, 5], [5, 6].map { |made| cache.fetch("f") { made } })
    assert_equal [nil, 5], [cache.fetch("g"), cache.get("f")]
    assert_equal [STORED, 3, nil], [cache.cas("k") { |old| old + 1 }, cache.get("k"), cache.cas("missing") { flunk }]
    assert_equal ["EXISTS\r\n", 7], [cache.cas("k") { cache.set("k", 7) && 8 }, cache.get("k")]
    assert_equal ["NOT_FOUND\r\n", nil], [cache.cas("k") { cache.delete("k") && 8 }, cache.get("k")]
    assert_equal ["DELETED\r\n", "NOT_FOUND\r\n"], [cache.delete("l"), cache.delete("l")]
    assert_equal [Integer, String], cache.stats.fetch(memcached.address).values_at("pid", "version").map(&:class)
    cache["k"] = 1
    assert_equal [1, nil], [cache.gets("k").first, cache.tap(&:flush_all).get("k")]
  end

  def test_memcache_client_tells_which_servers_are_alive
    live, dead = MemCache.new(memcached.address, "127.0.0.1:1").servers
    assert_equal({ memcached.address => true, "127.0.0.1:1" => false }, [live, dead].to_h { [_1.to_s, _1.alive?] })
    assert_equal "#<Pinyon::Compat::MemCache::Server 127.0.0.1:1>", dead.inspect
    assert_empty MemCache.new.servers
  end

  def test_memcache_client_with_raw_values
    cache = mem_cache
    assert_equal [STORED, 6, 4, nil],
                 [cache.set(key, 5, 0, true), cache.incr(key), cache.decr(key, 2), cache.incr("no")]
    assert_equal [STORED, STORED, NOT_STORED], [cache.append(key, 5), cache.prepend(key, 3), cache.append("no", 1)]
    assert_equal ["345", { key => "345" }], [cache.get(key, true), cache.get_multi(key, raw: true)]
    assert_equal ["345", 0], stored(key)
    assert_raises(MemCache::MemCacheError) { cache.get(key) }
  end

  def test_memcache_client_and_dalli_find_each_others_keys
    fleet = Array.new(3) { Support::Server.new(*Support::MEMCACHED) }
    servers = fleet.each_with_index.map { |server, index| "#{server.address}:#{index + 1}" }
    cache = mem_cache(servers, namespace: "app")
    its = theirs(*servers, namespace: "app")
    keys = (1..100).map(&:to_s)
    keys.each { |key| cache.set(key, key, 0, true) }
    assert_equal(keys, keys.map { |key| its.get(key) })
  ensure
    fleet&.each(&:stop)
  end

  def test_memcache_client_refuses
    cache = mem_cache(readonly: true)
    assert_predicate cache, :readonly?
    assert_raises(MemCache::MemCacheError) { cache.set(key, 1) }
    assert_raises(MemCache::MemCacheError) { mem_cache.set(key, "x" * 1_100_000) }
    assert_raises(MemCache::MemCacheError) { MemCache.new.get(key) }
    error = assert_raises(MemCache::MemCacheError) { mem_cache("127.0.0.1:1").get(key) }
    assert_kind_of Pinyon::ConnectError, error.cause
    assert_raises(ArgumentError) { mem_cache.get("a key") }
    fixing = mem_cache(autofix_keys: true)
    fixing.set("a key", 1)
    assert_equal 1, mem_cache.get("#{Digest::SHA1.hexdigest("a key")}-autofixed")
    fixing.servers = []
    refute_predicate fixing, :active?
  end

  def test_the_gem_memcached
    cache = gem_memcached(prefix_key: "gem:")
    assert_nil cache.set("k", { a: 1 })
    assert_equal [{ a: 1 }, { "k" => { a: 1 } }], [cache.get("k"), cache.get(%w[k missing])]
    assert_includes 604_000..604_800, client(serializer: :raw).get_with_ttl("gem:k").last
    [-> { cache.get("no") }, -> { cache.delete("no") }, -> { cache.exist("no") }, -> { cache.incr("no") },
     -> { cache.cas("no") { flunk } }].each { |call| assert_raises(Memcached::NotFound, &call) }
    [-> { cache.add("k", 1) }, -> { cache.replace("no", 1) }, -> { cache.append("no", 1) }]
      .each { |call| assert_raises(Memcached::NotStored, &call) }
    assert_nil(cache.cas("k", &:size))
    assert_equal [1, nil], [cache.get("k"), cache.exist("k")]
    assert_raises(Memcached::ConnectionDataExists) { cache.cas("k") { cache.set("k", 2) } }
    cache.set("n", 5, 0, false, 9)
    assert_equal [7, 6, "6"], [cache.increment("n", 2), cache.decrement("n"), cache.get("n", false)]
    assert_equal [nil, nil, "465"], [cache.append("n", 5), cache.prepend("n", 4), cache.get("n", false)]
    assert_equal ["465", 9], stored("gem:n")
  end

  def test_the_gem_memcached_changes_several_values
    cache = gem_memcached
    %w[a b c].each { |each| cache.set(each, 1) }
    changed = cache.cas(%w[a b c missing]) do |values|
      assert_equal({ "a" => 1, "b" => 1, "c" => 1 }, values)
      cache.set("b", 5)
      { "a" => 2, "b" => 2, "missing" => 2 }
    end
    assert_equal [{ "a" => 2 }, { "a" => 2, "b" => 5, "c" => 1 }], [changed, cache.get(%w[a b c missing])]
    assert_raises(Pinyon::UnsupportedType) { cache.get(5) }
    %i[SystemError ProtocolError SomeErrorsWereReported].each do |name|
      assert_operator Memcached.const_get(name), :<, Memcached::Error
    end
  end

  def test_the_gem_memcached_waits_no_longer_than_its_timeout
    settings = Memcached.new(memcached.address, timeout: 0.5, connect_timeout: 4).send(:settings)
    assert_equal [0.5, 0.5], settings.values_at(:timeout, :connect_timeout)
  end

  def test_the_gem_memcached_names_its_servers_and_failures
    cache = gem_memcached
    assert_equal [[memcached.address], memcached.address], [cache.servers, cache.server_by_key("k")]
    other = cache.clone
    other.set_prefix_key("other:")
    other.set("k", 1)
    assert_raises(Memcached::NotFound) { cache.get("k") }
    assert_equal [1, "other:", nil], [cache.get("other:k"), other.prefix_key, cache.prefix_key]
    assert_equal [nil, 1], [other.reset, other.get("k")]
    assert_match(/\A\d+\z/, cache.stats.fetch(memcached.address)["pid"])
    cache.flush
    assert_raises(Memcached::NotFound) { other.get("k") }
    assert_raises(Memcached::ABadKeyWasProvidedOrCharactersOutOfRange) { cache.get("a key") }
    assert_raises(Memcached::ServerIsMarkedDead) { gem_memcached("127.0.0.1:1").get("k") }
    silent = Support::SilentServer.new
    assert_raises(Memcached::ATimeoutOccurred) do
      gem_memcached(silent.address, timeout: 0.1, connect_timeout: 0.1).get("k")
    end
  ensure
    silent&.stop
  end

  def teardown
    @older&.each(&:reset)
    super
  end

  def mem_cache(servers = memcached.address, **options)
    older(MemCache.new(servers, timeout: Support::GENEROUS, **options))
  end

  def gem_memcached(servers = memcached.address, **options)
    generous = { timeout: Support::GENEROUS, connect_timeout: Support::GENEROUS }
    older(Memcached.new(servers, { **generous, **options }))
  end

  def older(cache)
    (@older ||= []) << cache
    cache
  end

  # A server of these tests alone, as they flush it.
  def memcached
    Support::SERVERS[:memcache] ||= Support::Server.new(*Support::MEMCACHED)
  end
end
