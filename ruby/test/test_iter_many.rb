# frozen_string_literal: true

require_relative "support"
require_relative "models"

# Reading any number of keys in bounded memory.
class TestIterMany < PinyonTest
  extend Models

  # An endless source of keys that counts those it gave.
  class Taken
    attr_reader :count

    def initialize(prefix, last = nil)
      @prefix = prefix
      @last = last
      @count = 0
    end

    def each
      yield "#{@prefix}:#{@count += 1}" until @count == @last
    end
  end

  def fill(cache, numbers)
    cache.set_many(numbers.to_h { |number| ["#{key}:#{number}", number] })
  end

  in_every_model(:all_values_come_in_the_order_of_their_keys) do |_model|
    cache = client
    fill(cache, 1..25)
    cache.delete_many(["#{key}:3", "#{key}:20"])
    expected = ((1..25).to_a - [3, 20]).map { |number| ["#{key}:#{number}", number] }
    [1, 10, 25, 100].each do |chunk|
      found = []
      assert_nil(cache.iter_many(Taken.new(key, 30), chunk:) { |each, value| found << [each, value] })
      assert_equal expected, found
    end
    assert_equal expected.to_h, cache.iter_many(Taken.new(key, 30)).to_h
    assert_empty cache.iter_many([]).to_a
  end

  in_every_model(:few_keys_are_taken_ahead) do |_model|
    cache = client
    fill(cache, 1..100)
    keys = Taken.new(key)
    cache.iter_many(keys, chunk: 10).each_with_index do |(_, value), index|
      assert_equal index + 1, value
      assert_equal ((index / 10) + 1) * 10, keys.count
      break if value == 55
    end
    assert_equal %W[#{key}:1 #{key}:2], cache.iter_many(Taken.new(key), chunk: 10).lazy.map(&:first).first(2)
  end

  in_every_model(:a_migrating_client_reads_both_pools_in_the_order_of_the_keys) do |_model|
    old, new = %w[old new].map { |pool| client(namespace: "#{namespace}#{pool}:") }
    values = Array.new(50) { |number| ["#{key}:#{number}", number] }
    old.set_many(values.select { |_, number| number.even? }.to_h)
    new.set_many(values.select { |_, number| number.odd? }.to_h)
    assert_equal values, Pinyon::MigratingClient.new(old, new).iter_many(values.map(&:first), chunk: 20).to_a
  end

  def test_an_enumerator_goes_step_by_step
    cache = client
    fill(cache, 1..3)
    pairs = cache.iter_many(Taken.new(key), chunk: 1)
    assert_equal [1, 2, 3], Array.new(3) { pairs.next.last }
  end

  def test_an_error_comes_with_its_chunk
    cache = client
    fill(cache, [1, 3])
    cache.set("#{key}:2", "text")
    cache.append("#{key}:2", "\x80".b)
    found = []
    assert_raises(Pinyon::UndecodableValue) { cache.iter_many(Taken.new(key), chunk: 1) { |_, value| found << value } }
    assert_equal [1], found
    failed = {}
    assert_equal [1, 3], cache.iter_many(Taken.new(key, 3), chunk: 1, failed:).map(&:last)
    assert_equal ["#{key}:2"], failed.keys
  end

  def test_what_makes_no_sense_is_refused_at_once
    ["key", 5, nil].each { |keys| assert_raises(Pinyon::UsageError) { client.iter_many(keys) } }
    [0, -1, 1.5, nil].each { |chunk| assert_raises(Pinyon::UsageError) { client.iter_many([], chunk:) } }
  end
end
