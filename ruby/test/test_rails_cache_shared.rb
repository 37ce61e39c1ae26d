# frozen_string_literal: true

require_relative "rails_caches"
require "cgi"
require "minitest/mock"

# Rails' MemCacheStore, on Dalli, and our store put the same bytes in the same places.
class TestRailsCacheShared < PinyonTest
  include RailsCaches

  VALUES = ["text", "ß", "\x00\xFF".b, "", "long" * 1000, Random.new(1).bytes(5000), 5, 1.5, :symbol, nil, false,
            [1, "a", { b: 2.5 }], (1..500).to_h { |number| [number, "x"] }].freeze
  OPTIONS = [{}, { expires_in: 100 }, { expires_in: 1.hour, race_condition_ttl: 10 }, { expires_in: 90.days },
             { version: "7" }, { compress: false }, { compress_threshold: 1 }, { namespace: "elsewhere" },
             { unless_exist: true }, { raw: true }, { raw: true, expires_in: 100, race_condition_ttl: 10 }].freeze
  NAMES = ["name", "with space", "new\nline", "ß", "100%", "~", "\x7F", "\xFF".b, "x" * 200, "x" * 300, "ß" * 200,
           ["list", 1], { b: 1, a: 2 }, :symbol, 7].freeze

  # A serializer that shows what the server has.
  module Bare
    def self.load(bytes, flags)
      [bytes, flags]
    end

    def self.dump(stored)
      stored
    end
  end

  def setup
    @servers = []
    with_dalli
  end

  def teardown
    super
    @servers.each(&:stop)
  end

  def server(*command)
    Server.new(*command).tap { |server| @servers << server }
  end

  def theirs(*servers, **options)
    ActiveSupport::Cache.lookup_store(:mem_cache_store, *servers, { namespace:, **options })
  end

  # What both stores put on servers of their own, in calls that happen at the same time.
  def stored_by_both
    now = Time.now
    %i[store theirs].map do |kind|
      server = server(*MEMCACHED)
      cache = send(kind, server.address)
      Time.stub(:now, now) { yield cache }
      items(server)
    end
  end

  # The bytes, client flags and ttl of all items of a server, by key.
  def items(server)
    peek = client(server.address, serializer: Bare)
    (eventually { listed(server) } or flunk("the server is always busy")).to_h do |line|
      key = CGI.unescape(line[/key=(\S+)/, 1])
      [key, [*peek.get(key), peek.meta(key).ttl]]
    end
  end

  # A line for each item; nil while the server itself looks for expired ones.
  def listed(server)
    *lines, last = UNIXSocket.open(server.address) do |socket|
      socket.write("lru_crawler metadump all\r\n")
      socket.each_line.slice_after(/\A(?:END|BUSY)/).first
    end
    lines if last.start_with?("END")
  end

  def check_same(ours, theirs, size)
    assert_equal [size] * 2, [ours, theirs].map(&:size)
    assert_equal theirs.keys.sort, ours.keys.sort
    theirs.each do |key, (bytes, flags, ttl)|
      assert_equal [bytes, flags], ours[key].first(2), key
      ttl.nil? ? assert_nil(ours[key].last, key) : assert_in_delta(ttl, ours[key].last, GENEROUS, key)
    end
  end

  def test_the_same_bytes_flags_and_ttls
    cases = VALUES.each_with_index.to_a.product(OPTIONS.each_with_index.to_a)
    ours, theirs = stored_by_both do |cache|
      cases.each { |(value, row), (options, column)| assert cache.write("#{row} #{column}", value, options.dup) }
    end
    check_same(ours, theirs, cases.size)
  end

  def test_the_same_bytes_of_many_at_once
    pairs = VALUES.each_with_index.to_h { |value, number| [number.to_s, value] }
    ours, theirs = stored_by_both do |cache|
      cache.write_multi(pairs, expires_in: 100, race_condition_ttl: 10)
      cache.write_multi(pairs, namespace: "elsewhere", raw: true)
    end
    check_same(ours, theirs, 2 * pairs.size)
  end

  def test_the_same_keys
    ours, theirs = stored_by_both do |cache|
      NAMES.each { |name| assert cache.write(name, 1) }
    end
    check_same(ours, theirs, NAMES.size)
  end

  def test_each_reads_what_the_other_has_written
    address = server(*MEMCACHED).address
    both = [store(address), theirs(address)]
    both.permutation do |writer, reader|
      VALUES.product([{}, { version: "7" }, { compress: false }]) do |value, options|
        writer.write("name", value, options.dup)
        value.nil? ? assert_nil(reader.read("name")) : assert_equal(value, reader.read("name", options.slice(:version)))
        assert_equal({ "name" => value }, reader.read_multi("name"))
      end
      writer.write("counter", 5, raw: true)
      assert_equal [6, 5, 7], [reader.increment("counter"), writer.decrement("counter"), reader.increment("counter", 2)]
      assert_equal "7", reader.read("counter", raw: true)
      writer.delete("name")
      refute reader.exist?("name")
      assert_equal "other", writer.fetch("name") { "other" }
      assert_equal("other", reader.fetch("name") { flunk })
      assert reader.delete("name")
    end
  end

  def test_what_dalli_has_compressed
    address = server(*MEMCACHED).address
    entry = ActiveSupport::Cache::Entry.new("long" * 10_000, compress: false)
    payload = theirs(address, compress: false).send(:serialize_entry, entry)
    Dalli::Client.new(address).set("#{namespace}:name", payload)
    cache = store(address)
    assert_equal 3, cache.client.get("#{namespace}:name").last
    assert_equal 40_000, cache.read("name")&.size
  end

  def test_the_same_server_for_each_key
    command = ["memcached", "-u", Etc.getpwuid.name, "-l", "127.0.0.1", "-p", "PORT"]
    addresses = [1, 2, 3].map { |weight| "#{server(*command).address}:#{weight}" }
    names = (1..200).map { |number| "name #{number}" }
    theirs(*addresses).write_multi(names.to_h { |name| [name, name] })
    assert_equal names, store(*addresses, failover: false).read_multi(*names).keys
  end
end
