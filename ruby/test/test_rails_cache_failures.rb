# frozen_string_literal: true

require_relative "rails_caches"

# Servers that are killed, stopped and started again.
class TestRailsCacheFailures < PinyonTest
  include RailsCaches

  def setup
    @server = Server.new(*MEMCACHED)
  end

  def teardown
    super
    @server.stop
  end

  # Every call on a cache whose servers do not answer.
  def check_behaves_as_if_empty(cache)
    assert_nil cache.read("name")
    assert_equal "made", cache.fetch("name") { "made" }
    assert_empty cache.read_multi("name", "other")
    assert_equal({ "name" => "name" }, cache.fetch_multi("name") { |name| name })
    refute cache.exist?("name")
    refute cache.write("name", 1)
    refute cache.write("name", 1, unless_exist: true)
    refute cache.write_multi({ "name" => 1 })
    refute cache.delete("name")
    assert_equal 0, cache.delete_multi(["name"])
    assert_nil cache.increment("counter")
    assert_nil cache.decrement("counter")
    assert_nil cache.clear
    assert_empty cache.stats
  end

  def test_a_server_that_is_killed_and_started_again
    cache = store(@server.address)
    assert cache.write("name", "value")
    @server.kill
    assert_match(/Pinyon::ConnectError/, logged { check_behaves_as_if_empty(cache) })
    @server.start
    assert(eventually { cache.write("name", "again") && cache.read("name") == "again" })
  end

  def test_a_server_that_is_stopped_and_continues
    cache = store(@server.address, timeout: 0.2, connect_timeout: 0.2)
    assert(eventually { cache.write("name", "value") })
    @server.pause
    assert_match(/Pinyon::Timeout/, logged { check_behaves_as_if_empty(cache) })
    @server.resume
    assert(eventually { cache.write("name", "again") && cache.read("name") == "again" })
  end

  def test_the_keys_of_a_server_that_is_down_go_to_another
    other = Server.new(*MEMCACHED)
    cache = store(@server.address, other.address)
    pairs = (1..40).to_h { |number| ["name #{number}", number] }
    assert cache.write_multi(pairs)
    other.kill
    said = logged { assert(eventually { pairs.all? { |name, value| cache.write(name, value) } }) }
    assert_match(/Pinyon: .*#{Regexp.escape(other.address)}/, said)
    assert(eventually { cache.read_multi(*pairs.keys) == pairs })
  ensure
    other.stop
  end

  def test_what_the_other_servers_have
    other = Server.new(*MEMCACHED)
    cache = store(@server.address, other.address, failover: false)
    pairs = (1..40).to_h { |number| ["name #{number}", number] }
    assert cache.write_multi(pairs)
    other.kill
    left = nil
    assert_match(/Pinyon::ConnectError/, logged { left = cache.read_multi(*pairs.keys) })
    assert_operator left.size, :<, 40
    assert_operator left.size, :>, 0
    assert_equal left, pairs.slice(*left.keys)
  ensure
    other.stop
  end

  def test_failures_are_reported
    skip "this version of Rails has no error reporter" unless ActiveSupport.respond_to?(:error_reporter)

    seen = []
    listener = Object.new
    listener.define_singleton_method(:report) { |error, **details| seen << [error, details] }
    reporter = ActiveSupport.error_reporter
    ActiveSupport.error_reporter = ActiveSupport::ErrorReporter.new(listener)
    @server.kill
    assert_nil store(@server.address).read("name")
    error, details = seen.fetch(0)
    assert_kind_of Pinyon::ConnectError, error
    assert_equal [true, :warning], details.values_at(:handled, :severity)
  ensure
    ActiveSupport.error_reporter = reporter if reporter
  end
end
