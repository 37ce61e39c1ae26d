# frozen_string_literal: true

require "set"
require_relative "support"
require_relative "typed_values"

# Values as every language reads and writes them: the test vectors.
class TestValues < PinyonTest
  Support.vectors("portable")["values"].each do |vector|
    %w[portable json].each do |serializer|
      define_method("test_#{serializer}_#{vector["name"]}") { check_portable(vector, serializer) }
    end
  end

  def check_portable(vector, serializer)
    typed = client(serializer: serializer.to_sym)
    raw = client(serializer: :raw)
    value = TypedValues.made(vector["value"])
    stored = vector[serializer]
    return assert_raises(Pinyon::UnsupportedType) { typed.set(key, value) } unless stored

    typed.set(key, value)
    assert_equal [stored["data_hex"], stored["flags"]], [raw.get(key).unpack1("H*"), typed.meta(key).flags]
    assert_same_value value, typed.get(key)
  end

  def assert_same_value(expected, read)
    return assert_predicate(read, :nan?) if expected.is_a?(Float) && expected.nan?
    return assert_nil(read) if expected.nil?

    assert_equal expected, read
    assert_equal expected.encoding, read.encoding if expected.is_a?(String)
    assert_equal (1 / expected).negative?, (1 / read).negative? if expected.is_a?(Float) && expected.zero?
  end

  def test_what_would_come_back_as_something_else_is_refused_by_name
    cache = client
    indifferent = Class.new(Hash)
    {
      :symbol => "Symbol", { key: 1 } => "Symbol", 1r => "Rational", Set[1] => "Set", indifferent[1, 2] => "Class",
      Class.new(String).new("html") => "Class"
    }.each do |value, name|
      error = assert_raises(Pinyon::UnsupportedType, value.inspect) { cache.set(key, value) }
      assert_match(/does not take .*#{name}/, error.message)
    end
    refute cache.key?(key)
  end

  def test_text_is_utf8_and_bytes_are_binary
    cache = client
    assert_raises(Pinyon::UnsupportedType) { cache.set(key, "caf\xE9".dup.force_encoding("ISO-8859-1")) }
    assert_raises(Pinyon::UnsupportedType) { cache.set(key, "\xFF") }
    cache.set(key, "caf\xE9".b)
    assert_equal ["caf\xE9".b, Encoding::BINARY], [cache.get(key), cache.get(key).encoding]
    cache.set(key, "ascii".encode("US-ASCII"))
    assert_equal Encoding::UTF_8, cache.get(key).encoding
  end

  def test_marshal_takes_text_in_any_encoding
    cache = client(serializer: :marshal)
    strings = ["\u00e9".encode("ISO-8859-1"), "\u00e9".encode("UTF-16LE"), (+"\xff").force_encoding("UTF-8")]
    strings.each do |string|
      cache.set(key, string)
      assert_equal [string, string.encoding], [cache.get(key), cache.get(key).encoding]
      assert_raises(Pinyon::UnsupportedType) { client.set(key, string) }
    end
  end

  def test_marshal_where_it_is_asked_for
    cache = client(serializer: :marshal)
    value = { symbol: [:a, 1r, Set[2]] }
    cache.set(key, value)
    assert_equal value, cache.get(key)
    error = assert_raises(Pinyon::UnknownFlags) { client.get(key) }
    assert_match(/\A"#{key}": .*the serializer "marshal"/, error.message)
    assert_raises(Pinyon::Unpicklable) { cache.set(key, proc {}) }
    cache.set(key, "text")
    assert_equal "text", client.get(key), "Strings are what every client reads"
  end

  def test_a_serializer_of_the_users_own
    reverse = Class.new do
      def dump(value) = [value.to_s.reverse, 7]
      def load(bytes, flags) = [bytes.reverse, flags]
    end
    cache = client(serializer: reverse.new)
    cache.set(key, :value)
    GC.start
    assert_equal ["value", 7], cache.get(key)
    assert_raises(Pinyon::UnsupportedType) { Pinyon::Client.new(serializer: Object.new) }
  end

  def test_compression
    cache = client(compression: { algorithm: :zstd, threshold: 100 })
    cache.set(key, "x" * 10_000)
    assert_operator cache.meta(key).size, :<, 100
    assert_equal "x" * 10_000, cache.get(key)
    assert_equal "x" * 10_000, client.get(key), "every client reads what is compressed"
  end

  def test_large_values
    cache = client(max_value_size: 2_000_000)
    [20_000, 900_000].each do |size|
      value = Random.bytes(size)
      cache.set(key, value)
      assert_equal value, cache.get(key)
      assert_equal({ key => value }, cache.get_many([key]))
    end
    error = assert_raises(Pinyon::ValueTooLarge) { client.set(key, "x" * 2_000_000) }
    assert_match(/2000000 bytes/, error.message)
  end

  def test_the_dialect_of_dalli
    cache = client(dialect: "dalli")
    cache.set(key, { "a" => [1, nil, "text"] })
    assert_equal({ "a" => [1, nil, "text"] }, cache.get(key))
    assert_equal Marshal.dump({ "a" => [1, nil, "text"] }), client(serializer: :raw).get(key)
    assert_raises(Pinyon::UnsupportedType) { cache.set(key, :symbol) }
    marshals = client(dialect: "dalli", serializer: :marshal)
    marshals.set(key, :symbol)
    assert_equal :symbol, marshals.get(key)
  end
end
