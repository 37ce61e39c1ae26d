# frozen_string_literal: true

require "digest"
require_relative "dallis"

# A pool that Dalli itself and Pinyon's client with its interface use at the same time.
class TestDalliSharing < PinyonTest
  include Dallis

  Point = Struct.new(:x, :y)

  VALUES = [
    nil, true, 42, "größer 🌲", "", ["zwei", nil, [1.5]], "a value like any other, " * 1000,
    -7, -2**70, "\x00\xFFbytes".b, "größer".encode("ISO-8859-1"), :ada, { name: "Ada", "age" => 36, 1 => :one },
    Point.new(1, Time.at(0))
  ].freeze
  # How many of them, from the first on, JSON has too.
  PLAIN = 7

  KEYS = [*(1..200).map { |number| "key:#{number}" }, *(1..10).map { |number| "#{"long" * 70}#{number}" },
          "l" * 249, "l" * 250, "l" * 251, "with a space", "schlüssel", "ключ 1", "ƒ©åÍÎ", "a\tb\nc", :symbol,
          17].freeze

  def test_values_of_both_are_the_same_bytes
    [{}, { compress: false }, { compression_min_size: 10 }, { serializer: JSON }].each do |options|
      mine = ours(**options)
      its = theirs(**options)
      (options[:serializer] ? VALUES.take(PLAIN) : VALUES).each do |value|
        mine.set("mine", value)
        its.set("its", value)
        assert_equal stored("its"), stored("mine"), "#{value.inspect[0, 20]} with #{options}"
        [mine.get("its"), its.get("mine")].each { |read| same(value, read) }
      end
    end
  end

  def test_raw_values_in_a_shared_pool
    mine = ours
    its = theirs
    others = FIVE ? [] : [5, :symbol] # which Dalli 5.2 refuses
    ["text", "\xFF".b, "x" * 10_000, "", *others].each do |value|
      [mine, its].each_with_index { |cache, number| cache.set(key(number), value, nil, raw: true) }
      assert_equal stored(key(1)), stored(key(0)), value.inspect[0, 20]
      assert_equal its.get(key(0)).b, mine.get(key(1))
      assert_equal Encoding::BINARY, mine.get(key(1)).encoding
    end
    mine.set(key, "x" * 10_000, nil, raw: true, compress: false)
    assert_equal ["x" * 10_000, 0], stored(key)
  end

  def test_gzip
    mine = ours(compressor: Dallis::Ours::GzipCompressor)
    mine.set(key, "x" * 10_000)
    assert_equal 3, stored(key).last
    assert_equal "x" * 10_000, mine.get(key)
    its = theirs(compressor: Dalli::GzipCompressor)
    assert_equal "x" * 10_000, its.get(key)
    its.set(key, "y" * 10_000)
    assert_equal "y" * 10_000, mine.get(key)
  end

  # Each finds what the other has stored: it asks the same server for the same key.
  def test_keys_are_on_the_same_servers
    fleet = Array.new(3) { Support::Server.new(*Support::MEMCACHED) }
    servers = fleet.each_with_index.map { |server, index| "#{server.address}:#{index + 1}" }
    [{}, { namespace: "app" }, { namespace: -> { "made" } }, { digest_class: Digest::SHA256 },
     { namespace: :app, digest_class: Digest::SHA1 }].each do |options|
      mine = ours(*servers, **options)
      its = theirs(*servers, **options)
      KEYS.each_with_index { |key, number| mine.set(key, [options.size, number]) }
      assert_equal([*0...KEYS.size], KEYS.map { |key| its.get(key)&.last }, options)
      KEYS.each { |key| its.set(key, key.to_s) }
      assert_equal KEYS.to_h { |key| [key.to_s, key.to_s] }, mine.get_multi(KEYS)
      assert(KEYS.all? { |key| mine.delete(key) && its.get(key).nil? })
    end
    assert(client(*servers).stats.values.all? { |of| of["total_items"].to_i > 50 }, "all three have some")
  ensure
    fleet&.each(&:stop)
  end

  def test_keys_of_a_server_that_is_down_go_to_the_same_one
    fleet = Array.new(3) { Support::Server.new(*Support::MEMCACHED) }
    servers = fleet.map(&:address)
    before = ours(*servers)
    KEYS.each { |key| before.set(key, "before") }
    fleet.delete_at(1).stop
    mine = ours(*servers)
    its = theirs(*servers)
    lost = KEYS.reject { |key| its.get(key) }
    refute_empty lost
    lost.each { |key| its.set(key, "after") }
    KEYS.each { |key| assert_equal lost.include?(key) ? "after" : "before", mine.get(key) }
    lost.each { |key| mine.set(key, "mine") }
    assert(lost.all? { |key| its.get(key) == "mine" })
  ensure
    fleet&.each(&:stop)
  end

  # The server's clock may be a second behind.
  def test_times_to_live_in_a_shared_pool
    mine = ours(expires_in: 9000)
    its = theirs(expires_in: 9000)
    plain = client(serializer: :raw)
    days = 24 * 60 * 60
    [[nil, 9000], [800.9, 800], ["700", 700], [40 * days, 40 * days], [Time.now.to_i + (40 * days), 40 * days]]
      .each do |given, seconds|
      [mine, its].each do |cache|
        cache.set(key, 1, given)
        assert_includes seconds - 600..seconds + 2, plain.get_with_ttl(key).last, "#{cache.class}: #{given}"
        cache.touch(key, 500) && cache.gat(key, given)
        assert_includes seconds - 600..seconds + 2, plain.get_with_ttl(key).last, "#{cache.class}: #{given}"
      end
    end
    mine.set(key, 1, 0)
    assert_nil plain.get_with_ttl(key).last
    mine.set(key, 1, -1)
    assert_nil mine.get(key)
  end

  def test_counters_and_tokens
    mine = ours
    its = theirs
    assert_equal [5, 6, 9], [mine.incr(key, 1, 0, 5), its.incr(key), mine.incr(key, 3)]
    assert_equal [7, "7"], [its.decr(key, 2), mine.get(key)]
    assert_equal stored(key), [its.incr(key(2), 1, 0, 7), stored(key(2))].last
    token = mine.set_cas(key, 1, of_theirs(its.get_cas(key).last))
    assert_equal token, of_theirs(its.get_cas(key).last)
    token = of_theirs(its.set_cas(key, 2, of_theirs(token)))
    assert_equal [false, true], [mine.delete_cas(key, token + 1), mine.delete_cas(key, token)]
  end

  # A token of the binary protocol of Dalli 3, which has its bytes in the other order, and back.
  def of_theirs(token)
    FIVE ? token : [token].pack("Q>").unpack1("Q<")
  end

  def same(value, read)
    value.nil? ? assert_nil(read) : assert_equal(value, read)
    assert_equal value.encoding, read.encoding if value.is_a?(String)
  end
end
