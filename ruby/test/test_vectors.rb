# frozen_string_literal: true

require "base64"
require_relative "support"
require_relative "typed_values"

# The test vectors of rings, of keys and of other clients' values. The vectors of Pinyon's own values are in TestValues.
class TestVectors < PinyonTest
  # A plain connection.
  def connection
    @connection ||= UNIXSocket.new(memcached.address)
  end

  def teardown
    @connection&.close
    super
  end

  def test_each_key_is_on_the_server_where_another_client_looks_for_it
    rings = Support.vectors("rings")["by_name"]
    rings["rings"].each do |ring|
      name, servers, namespace = ring.values_at("ring", "servers", "namespace")
      cache = closing(Pinyon::Client.new(*servers, ring: name, namespace:))
      up = cache.servers - cache.servers.values_at(*ring["down"])
      places = rings["keys"].map { |key| cache.servers.index((cache.servers_of(key) & up).first) }
      assert_equal ring["places"], places, "#{name} on #{servers.inspect} without #{ring["down"]}"
    end
  end

  def test_keys_are_stored_under_the_names_that_another_client_gives_them
    Support.vectors("keys").each do |vector|
      namespace, key, stored = vector.values_at("namespace_hex", "key_hex", "stored_hex").map { |hex| bytes(hex) }
      cache = client(namespace: namespace.force_encoding("UTF-8"), key_rule: vector["rule"])
      next assert_raises(Pinyon::InvalidKey, vector.inspect) { cache.set(key, "value") } unless stored

      assert cache.set(key, vector.inspect)
      assert_equal vector.inspect, value_under(stored), vector.inspect
    end
  end

  def test_values_are_read_as_another_client_has_stored_them
    Support.vectors("values").each do |dialect, exchanged|
      cache = client(dialect:)
      exchanged["values"].each do |vector|
        store(key, bytes(vector["data_hex"]), vector["flags"])
        read = in_unicode(cache.get(key))
        expected = TypedValues.made(vector["value"])
        assert_equal [expected, encodings(expected)], [read, encodings(read)], "#{dialect}: #{vector["name"]}"
      end
    end
  end

  def bytes(hex)
    [hex].pack("H*") if hex
  end

  # The value under any bytes, of which some are no key in text.
  def value_under(key)
    name = key.match?(/[\x00-\x20\x7F]/n) ? "#{Base64.strict_encode64(key)} v b" : "#{key} v"
    connection.write("mg #{name}\r\n")
    answer = connection.gets
    answer.start_with?("VA") && connection.read(Integer(answer.split[1]) + 2).chomp.force_encoding("UTF-8")
  end

  def store(key, value, flags)
    connection.write("set #{key} #{flags} 0 #{value.bytesize}\r\n", value, "\r\n")
    assert_equal "STORED\r\n", connection.gets
  end

  # Text in an encoding that only Ruby has for it.
  def in_unicode(value)
    value.is_a?(String) && value.encoding != Encoding::BINARY ? value.encode("UTF-8") : value
  end

  def encodings(value)
    [value].flatten.grep(String).map(&:encoding)
  end
end
