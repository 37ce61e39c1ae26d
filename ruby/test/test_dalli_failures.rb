# frozen_string_literal: true

require "async"
require "openssl"
require_relative "dallis"

# Dalli's interface where things fail, are interrupted, or happen at the same time.
class TestDalliFailures < PinyonTest
  include Dallis

  def test_without_a_server
    refusing = { nowhere: [Ours, ours("127.0.0.1:1")] }
    refusing[:theirs] = [Dalli, theirs("127.0.0.1:1")] if defined?(Dalli)
    refusing.each_value do |names, cache|
      [-> { cache.get("k") }, -> { cache.set("k", 1) }, -> { cache.incr("k") }, -> { cache.alive! }].each do |call|
        assert_raises(names::RingError, &call)
      end
      assert_equal({}, cache.get_multi("a", "b"))
      assert_equal({ "127.0.0.1:1" => nil }, cache.version)
      assert_equal({ "127.0.0.1:1" => nil }, cache.stats)
      assert_equal [nil], cache.reset_stats
    end
  end

  def test_errors_of_dalli_are_pinyons_too
    error = assert_raises(Ours::DalliError) { ours("127.0.0.1:1").get("k") }
    assert_kind_of RuntimeError, error
    assert_kind_of Pinyon::Error, error
    assert_kind_of Pinyon::ConnectError, error.cause
    assert_equal ["127.0.0.1:1", "get", :no], [error.server, error.command, error.sent]
  end

  def test_a_server_that_does_not_answer_in_time
    silent = Support::SilentServer.new
    assert_raises(Ours::RingError) { ours(silent.address, socket_timeout: 0.2).get("k") }
    return unless defined?(Dalli)

    assert_raises(Dalli::RingError, Dalli::NetworkError) { theirs(silent.address, socket_timeout: 0.2).get("k") }
  ensure
    silent.stop
  end

  def test_a_server_that_closes_each_connection
    closing = TCPServer.new("127.0.0.1", 0)
    Thread.new { loop { closing.accept.close } }.report_on_exception = false
    assert_raises(Ours::RingError) { ours("127.0.0.1:#{closing.addr[1]}").get("k") }
  ensure
    closing.close
  end

  def test_the_log_says_that_a_server_is_down
    said = StringIO.new
    before = Ours.logger
    Ours.logger = Logger.new(said)
    cache = ours("127.0.0.1:1")
    assert(eventually { cache.get_multi("k") && said.string.include?("marked down") })
    assert_match(/WARN -- : 127.0.0.1:1 is marked down/, said.string)
  ensure
    Ours.logger = before
  end

  def test_what_cannot_be_read
    cache = ours
    plain = client(serializer: Pinyon::Compat::AsStored)
    { "no Marshal" => 1, "no zlib" => 2, Marshal.dump(1)[0, 3] => 1, Zlib.deflate("x" * 100)[0, 9] => 2,
      "\x04\bo:\fNoSuchC\x00" => 1 }.each do |bytes, flags|
      plain.set(key, [bytes, flags])
      assert_raises(Ours::UnmarshalError, bytes) { cache.get(key) }
      cache.set("readable", 1)
      assert_equal({ "readable" => 1 }, cache.get_multi(key, "readable"))
    end
    bomb = Zlib.deflate("\0" * (129 * 1024 * 1024))
    plain.set(key, [bomb, 2])
    assert_match(/more than 134217728 bytes/, assert_raises(Ours::UnmarshalError) { cache.get(key) }.message)
  end

  def test_options_that_make_no_sense
    [5, ["a", 5], "host:port"].each { |servers| assert_raises(ArgumentError) { Ours::Client.new(servers) } }
    [{ digest_class: 5 }, { namespace_separator: "ab" }, { namespace_separator: "a" }, { expires_in: Object.new }]
      .each { |options| assert_raises(ArgumentError, options.inspect) { Ours::Client.new(nil, options) } }
    cache = ours
    assert_raises(ArgumentError) { cache.get(key, p_token: "a") }
    assert_raises(ArgumentError) { cache.delete(key, invalidate: true, drop_value: true) }
    assert_raises(ArgumentError) { cache.fetch_with_lock(key) }
    assert_raises(Ours::MarshalError) { ours(raw: true).set(key, 5) }
  end

  def test_what_is_taken_from_a_context_of_openssl
    tls = ->(context) { Ours::Settings.tls(context) }
    context = OpenSSL::SSL::SSLContext.new
    assert_equal [nil, true, { ca: "file" }], [nil, true, { ca: "file" }].map(&tls)
    assert_equal({ accept_any_certificate_which_is_dangerous: true }, tls.call(context), "OpenSSL's default")
    assert_equal true, tls.call(context.tap(&:set_params))
    assert_equal({ ca: "file" }, tls.call(context.tap { context.ca_file = "file" }))
    context.cert_store = OpenSSL::X509::Store.new
    assert_match(/ssl_context has cert_store/, assert_raises(ArgumentError) { tls.call(context) }.message)
  end

  def test_options_of_values
    ours(raw: true).set(key, "x" * 10_000)
    quick = ours(string_fastpath: true)
    assert_equal ["x" * 10_000, 0], stored(key)
    { "größer" => 4, "\xFF".b => 0, "größer".encode("ISO-8859-1") => 1, "x" * 5000 => 6, 5 => 1 }.each do |value, flags|
      quick.set(key, value)
      assert_equal [flags, value], [stored(key).last, ours.get(key)]
      assert_equal value.encoding, ours.get(key).encoding if value.is_a?(String)
    end
    quick.set(key, "text", nil, string_fastpath: false)
    assert_equal 1, stored(key).last
    keeps = ours(cache_nils: true)
    keeps.set(key, nil)
    assert_nil(keeps.fetch(key) { flunk })
    assert_same Ours::NOT_FOUND, keeps.get("missing", cache_nils: true)
    json = ours(serializer: Ours::JSONSerializer)
    json.set(key, { "a" => [1, nil] })
    assert_equal [{ "a" => [1, nil] }, '{"a":[1,null]}'], [json.get(key), stored(key).first]
  end

  def test_a_namespace_that_changes
    tenant = "one"
    cache = ours(namespace: -> { tenant }, namespace_separator: "/")
    cache.set(key, 1)
    tenant = "two"
    assert_nil cache.get(key)
    assert_equal 1, ours(namespace: "one", namespace_separator: "/").get(key)
  end

  def test_the_block_of_a_lock_that_raises_lets_another_caller_make_the_value
    cache = ours
    assert_raises(IOError) { cache.fetch_with_lock(key, lock_ttl: 100) { raise IOError } }
    assert_equal(2, cache.fetch_with_lock(key) { 2 })
  end

  def test_a_quiet_block_that_raises_has_sent_what_came_before
    cache = ours
    assert_raises(IOError) { cache.quiet { cache.set(key, 1) || raise(IOError) } }
    assert_equal 1, cache.get(key)
    cache.quiet { other = ours and other.set(key, 2) and cache.set(key(2), 3) }
    assert_equal({ key => 2, key(2) => 3 }, cache.get_multi(key, key(2)))
  end

  def test_threads_fibers_and_children_share_a_client
    cache = ours
    threads = Array.new(4) do |of|
      Thread.new { (1..100).map { |number| cache.set("#{of}/#{number}", number) && cache.get("#{of}/#{number}") } }
    end
    threads.each { |thread| assert_equal [*1..100], thread.value }
    Async do |task|
      fibers = Array.new(8) { |of| task.async { cache.quiet { cache.set(key(of), of) } || cache.get(key(of)) } }
      assert_equal [*0..7], fibers.map(&:wait)
    end
    assert_equal([1, 5], in_child { [cache.get("0/1"), cache.set(key, 5) && cache.get(key)] })
  end

  def test_closing_while_others_work
    cache = ours
    cache.set(key, 1)
    working = Array.new(3) { Thread.new { Array.new(100) { cache.get(key) }.uniq } }
    cache.close while working.any?(&:alive?)
    working.each { |thread| assert_equal [1], thread.value }
  end

  # Between the two lines of a call where another thread may close the client.
  def test_a_call_that_meets_closed_connections_opens_new_ones
    cache = ours
    cache.set(key, 1)
    asked = []
    answered = cache.send(:ask) do |below|
      asked << below
      cache.close if asked.one?
      below.gets(key).size
    end
    assert_equal [2, 2], [answered, asked.size]
  end
end
