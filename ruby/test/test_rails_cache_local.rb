# frozen_string_literal: true

require_relative "rails_caches"

# The local cache of a request: nothing that the caller changes reaches its values, and what is missing stays missing.
class TestRailsCacheLocal < PinyonTest
  include RailsCaches

  VALUES = { "list" => [1], "text" => "text", "nested" => { list: ["text"] }, "long" => ["x" * 2000] }.freeze

  # Keeps payloads as the local cache of Rails 7 does, in Rails 6.1, whose own keeps copies of entries. Its payloads are
  # entries, like those of Rails 7.0 and 7.1 in the format of Rails 6.1.
  module KeptPayloads
    attr_reader :local_cache

    def with_local_cache
      @local_cache = {}
      yield
    ensure
      @local_cache = nil
    end

    private

    def local_cache_keeps_payloads?
      !local_cache.nil?
    end

    def read_entry(key, **options)
      deserialize_entry(@local_cache[key] ||= read_serialized_entry(key, **options), **options)
    end

    def write_entry(key, entry, **options)
      payload = @local_cache[key] = serialize_entry(entry, **options)
      write_serialized_entry(key, payload, **options)
    end
  end

  def spoil(value)
    value.is_a?(Hash) ? value[:list] << "spoiled" : value << "spoiled"
  end

  def own(value)
    Marshal.load(Marshal.dump(value))
  end

  def check_values_are_the_callers_own(cache)
    VALUES.each do |name, value|
      cache.with_local_cache do
        written = own(value)
        cache.write(name, written)
        spoil(written)
        2.times { spoil(cache.read(name).tap { |read| assert_equal(value, read) }) }
      end
      cache.with_local_cache do
        2.times { spoil(cache.fetch(name) { flunk }.tap { |read| assert_equal(value, read) }) }
        assert_equal value, cache.read(name)
      end
      assert_equal value, store.read(name)
    end
  end

  # Without a coder, payloads are entries in every version of Rails.
  def test_values_are_the_callers_own
    [{}, { compress: false }, { coder: nil }, { coder: nil, compress: false }].each do |options|
      check_values_are_the_callers_own(store(**options))
    end
  end

  def test_many_values_are_the_callers_own
    [{}, { coder: nil }].each do |options|
      cache = store(**options)
      cache.with_local_cache do
        cache.write_multi(written = own(VALUES))
        written.each_value { |value| spoil(value) }
        2.times do
          read = cache.read_multi(*VALUES.keys)
          assert_equal VALUES, read
          read.each_value { |value| spoil(value) }
        end
      end
    end
  end

  def test_what_was_missing_before_is_missing_among_many
    cache = store
    cache.with_local_cache do
      assert_nil cache.read("a")
      assert_empty cache.read_multi("a")
      assert_equal({ "a" => 1 }, cache.fetch_multi("a") { 1 })
      assert_nil cache.read("b")
      assert_equal({ "b" => 2 }, cache.fetch_multi("b", lease: 10) { 2 })
      assert_equal({ "a" => 1, "b" => 2 }, cache.read_multi("a", "b"))
    end
  end

  def test_values_are_the_callers_own_where_entries_are_kept_as_payloads
    skip "this version of Rails keeps payloads itself" if ActiveSupport::VERSION::MAJOR > 6
    [{}, { compress: false }].each do |options|
      check_values_are_the_callers_own(store(**options).extend(KeptPayloads))
    end
  end
end
