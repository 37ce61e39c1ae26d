# frozen_string_literal: true

require_relative "support"

class TestErrors < PinyonTest
  def test_the_classes_are_a_tree_like_the_kinds_of_every_language
    Pinyon::Native.error_kinds.each do |name, (parents, resembles)|
      kind = Pinyon.const_get(name)
      parents.each { |parent| assert_operator kind, :<, Pinyon.const_get(parent), name }
      next assert_instance_of(Module, kind) if %w[Error LockError].include?(name)

      assert_operator kind, :<, Object.const_get(resembles || "StandardError"), name
      assert_operator kind, :<, Pinyon::Error
    end
  end

  def test_an_error_says_what_happened
    error = assert_raises(Pinyon::ConnectError) { client("127.0.0.1:1").get(key) }
    assert_equal ["127.0.0.1:1", "get", :no], [error.server, error.command, error.sent]
    assert_match(/\A127.0.0.1:1: get: cannot connect: /, error.message)
    assert_nil error.partial
  end

  def test_what_did_arrive_comes_with_the_error
    cache = client(memcached.address, "127.0.0.1:1", failover: false)
    keys = (1..40).map { |number| key(number) }
    there = keys.select { |each| cache.servers_of(each) == [memcached.address] }
    client(memcached.address).set_many(there.to_h { |each| [each, "value"] })
    error = assert_raises(Pinyon::ConnectError, Pinyon::ServerDown) { cache.get_many(keys) }
    assert_equal there.sort, error.partial.keys.sort
  end

  def test_arguments_that_are_no_numbers_or_out_of_range
    cache = client
    { 1.5 => "an Integer, not Float", nil => "an Integer, not NilClass", -1 => "from 0 to 2**64-1, not -1" }
      .each do |bad, words|
        [-> { cache.incr(key, bad) }, -> { cache.quiet { |batch| batch.decr(key, bad) } }].each do |call|
          assert_includes assert_raises(Pinyon::UnsupportedType, Pinyon::UsageError, &call).message,
                          "delta must be #{words}"
        end
      end
    assert_match(/initial must be .* not -1/, assert_raises(Pinyon::UsageError) do
                                                cache.incr(key, initial: -1)
                                              end.message)
    assert_match(/not nil: .* use add/, assert_raises(Pinyon::UnsupportedType) { cache.cas(key, 1, nil) }.message)
    assert_match(/Hash .* not Array/, assert_raises(Pinyon::UnsupportedType) { cache.set_many([1]) }.message)
  end

  def test_keys_that_memcached_does_not_take
    cache = client
    { "" => /empty/, "a key" => /space/, "k" * 251 => /251 bytes/, "line\n" => /control/ }.each do |bad, words|
      error = assert_raises(Pinyon::InvalidKey, bad) { cache.set(bad, 1) }
      assert_match words, error.message
      assert_kind_of ArgumentError, error
    end
    assert_match(/Strings or Symbols, not Integer/, assert_raises(Pinyon::UnsupportedType) { cache.get(5) }.message)
  end

  # What the core says is the same for every language.
  def test_texts_have_no_other_languages_notation
    raw = client(serializer: :raw)
    [1, 8, 512, 513, 1024].each { |flags| store(key(flags), flags) }
    errors = [1, 8, 512, 513, 1024].map { |flags| assert_raises(Pinyon::UnknownFlags) { client.get(key(flags)) } }
    errors << assert_raises(Pinyon::UnsupportedType) { client(dialect: "pymemcache").set(key, []) }
    errors << assert_raises(Pinyon::UnsupportedType) { client(dialect: "dalli").set(key, 1r) }
    errors << assert_raises(Pinyon::UsageError) { client(compression: {}).append(key, "more") }
    errors << assert_raises(Pinyon::UsageError) { raw.fetch(key, ttl: 0, stale: 1) { "value" } }
    errors << assert_raises(Pinyon::UsageError) { raw.fetch(key, ttl: 9) { raw.fetch(key, ttl: 9) { "value" } } }
    own = locks
    errors << own.synchronize(key) { assert_raises(Pinyon::AlreadyHeld) { own.lock(key) } }
    errors.each { |error| refute_match(/True|False|None|\w=|get_or_set|list and dict/, error.message) }
  end

  def store(key, flags)
    UNIXSocket.open(memcached.address) do |socket|
      socket.write("set #{key} #{flags} 0 1\r\n1\r\n")
      assert_equal "STORED\r\n", socket.gets
    end
  end
end
