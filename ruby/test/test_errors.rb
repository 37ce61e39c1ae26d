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
    error = assert_raises(Pinyon::ConnectError) { client("127.0.0.1:1", timeout: 5).get(key) }
    assert_equal ["127.0.0.1:1", "get", :no], [error.server, error.command, error.sent]
    assert_match(/\A127.0.0.1:1: get: cannot connect: /, error.message)
    assert_nil error.partial
  end

  def test_what_did_arrive_comes_with_the_error
    cache = client(memcached.address, "127.0.0.1:1", failover: false, timeout: 5)
    keys = (1..40).map { |number| key(number) }
    there = keys.select { |each| cache.servers_of(each) == [memcached.address] }
    client(memcached.address).set_many(there.to_h { |each| [each, "value"] })
    error = assert_raises(Pinyon::ConnectError, Pinyon::ServerDown) { cache.get_many(keys) }
    assert_equal there.sort, error.partial.keys.sort
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
end
