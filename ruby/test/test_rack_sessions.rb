# frozen_string_literal: true

require_relative "support"
require "rack"
require "rack/session/pinyon"
require "rack/test"

class TestRackSessions < PinyonTest
  # A browser and the application that it visits.
  class Visitor
    include Rack::Test::Methods

    attr_reader :app, :errors

    def initialize(app)
      @app = app
      @errors = StringIO.new
    end

    # The body of the answer.
    def visit(path)
      get(path, {}, "rack.errors" => @errors)
      last_response.body
    end

    def cookie
      rack_mock_session.cookie_jar["rack.session"]
    end
  end

  # /count adds to a number in the session, /say returns it; the others end, renew or spoil the session.
  APPLICATION = lambda do |environment|
    session = environment["rack.session"]
    case environment["PATH_INFO"]
    when "/count" then session["count"] = session["count"].to_i + 1
    when "/out" then session.destroy
    when "/renew" then environment["rack.session.options"][:renew] = true
    when "/drop" then environment["rack.session.options"][:drop] = true
    when "/object" then session["object"] = { symbol: [1.5, nil] }
    when "/large" then session["large"] = "x" * 100_000
    when "/proc" then session["proc"] = proc {}
    when "/wait" then environment["test.wait"].call(session["count"])
    end
    [200, {}, [environment["PATH_INFO"] == "/id" ? session["session_id"] : session["count"].inspect]]
  end

  def sessions(*servers, **options)
    servers = [memcached.address] if servers.empty?
    generous = { timeout: GENEROUS, connect_timeout: GENEROUS }
    made = Rack::Session::Pinyon.new(APPLICATION, { memcache_server: servers, namespace:, **generous, **options })
    closing(made.client)
    made
  end

  def visitor(*servers, **options)
    Visitor.new(sessions(*servers, **options))
  end

  def test_a_session_lasts_over_requests_and_processes
    visitor = visitor()
    assert_equal %w[1 2], [visitor.visit("/count"), visitor.visit("/count")]
    assert_equal("3", in_child { visitor.visit("/count") })
    assert_equal "3", visitor.visit("/say")
    other = Visitor.new(sessions)
    assert_equal "nil", other.visit("/say")
    other.set_cookie("rack.session=#{visitor.cookie}")
    assert_equal "3", other.visit("/say")
  end

  def test_who_only_looks_gets_no_session
    visitor = visitor()
    visitor.visit("/say")
    assert_nil visitor.cookie
  end

  def test_the_server_does_not_have_what_is_in_the_cookie
    visitor = visitor()
    visitor.visit("/count")
    cache = sessions.client
    assert_nil cache.get(visitor.cookie)
    assert_equal({ "count" => 1 }, cache.get(private_id(visitor)))
  end

  def test_an_id_that_the_visitor_has_chosen_is_not_taken
    visitor = visitor()
    visitor.set_cookie("rack.session=chosen")
    assert_equal "1", visitor.visit("/count")
    refute_equal "chosen", visitor.cookie
    assert_equal "2", visitor.visit("/count")
  end

  def test_the_end_of_a_session
    visitor = visitor()
    visitor.visit("/count")
    id = visitor.cookie
    visitor.visit("/out")
    visitor.set_cookie("rack.session=#{id}")
    assert_equal "nil", visitor.visit("/say")
    visitor.visit("/count")
    id = visitor.cookie
    visitor.visit("/drop")
    visitor.set_cookie("rack.session=#{id}")
    assert_equal "nil", visitor.visit("/say")
  end

  def test_a_new_id_for_the_same_session
    visitor = visitor()
    visitor.visit("/count")
    id = visitor.cookie
    assert_equal "1", visitor.visit("/renew")
    refute_equal id, visitor.cookie
    assert_equal "2", visitor.visit("/count")
    visitor.set_cookie("rack.session=#{id}")
    assert_equal "nil", visitor.visit("/say")
  end

  # Another request logs the visitor out while this one is under way.
  def test_a_session_that_has_ended_is_not_stored_again
    app = sessions
    visitor = Visitor.new(app)
    visitor.visit("/count")
    id = visitor.cookie
    log_out = ->(_count) { app.client.delete(Rack::Session::SessionId.new(id).private_id) }
    visitor.get("/wait", {}, "test.wait" => log_out, "rack.errors" => visitor.errors)
    assert_match(/failed to save session/, visitor.errors.string)
    visitor.set_cookie("rack.session=#{id}")
    assert_equal "nil", visitor.visit("/say")
  end

  def test_the_life_of_a_session
    visitor = visitor(expire_after: 100)
    visitor.visit("/count")
    assert_in_delta 101, sessions.client.meta(private_id(visitor)).ttl, GENEROUS
    assert_match(/expires=/i, visitor.last_response.headers["Set-Cookie"])
    visitor.set_cookie("rack.session=#{visitor.cookie}")
    assert_equal "2", visitor.visit("/count")
  end

  def test_objects_and_large_sessions
    visitor = visitor()
    visitor.visit("/object")
    visitor.visit("/large")
    session = sessions.client.get(private_id(visitor))
    assert_equal({ symbol: [1.5, nil] }, session["object"])
    assert_equal 100_000, session["large"].size
  end

  def test_only_data
    visitor = visitor(serializer: :portable)
    assert_equal %w[1 2], [visitor.visit("/count"), visitor.visit("/count")]
    assert_raises(Pinyon::UnsupportedType) { visitor.visit("/object") }
  end

  def test_mistakes_of_sessions_are_raised
    assert_raises(TypeError) { visitor.visit("/proc") }
    said = assert_raises(ArgumentError) { sessions(time_out: 1) }.message
    assert_match(/time_out.*timeout/, said)
  end

  def test_a_session_that_cannot_be_read_is_replaced
    app = sessions
    visitor = Visitor.new(app)
    visitor.visit("/count")
    id = visitor.cookie
    client(serializer: :json, namespace: "#{namespace}:").set(Rack::Session::SessionId.new(id).private_id, [1])
    assert_equal "1", visitor.visit("/count")
    refute_equal id, visitor.cookie
    assert_match(/Pinyon::UnknownFlags/, visitor.errors.string)
  end

  def test_servers_that_fail
    server = Server.new(*MEMCACHED)
    visitor = visitor(server.address)
    visitor.visit("/count")
    id = visitor.cookie
    hurried = visitor(server.address, timeout: 0.2, connect_timeout: 0.2)
    hurried.set_cookie("rack.session=#{id}")
    server.pause
    assert_equal "1", hurried.visit("/count")
    assert_match(/Pinyon::Timeout/, hurried.errors.string)
    assert_match(/failed to save session/, hurried.errors.string)
    assert_equal id, hurried.cookie
    server.resume
    assert(eventually { hurried.visit("/say") == "1" })
    server.kill
    assert_equal "1", hurried.visit("/count")
    assert_equal id, hurried.cookie
    server.start
    assert(eventually { hurried.visit("/count") == "2" })
    refute_equal id, hurried.cookie
  ensure
    server.stop
  end

  def test_the_sessions_of_a_server_that_is_down_begin_anew_on_another
    with_a_paused_server do |server, visitor, id|
      assert(eventually { visitor.visit("/count") == "1" && visitor.cookie != id })
      visitor.set_cookie("rack.session=#{id}")
      visitor.visit("/out")
      server.resume
      assert(eventually { visitor.set_cookie("rack.session=#{id}") && visitor.visit("/say") == "1" })
    end
  end

  def test_the_sessions_of_a_server_that_is_down_wait_for_it_without_failover
    with_a_paused_server(failover: false) do |server, visitor, id|
      assert_equal [["1", id]] * 5, Array.new(5) { [visitor.visit("/count"), visitor.cookie] }
      server.resume
      assert(eventually { visitor.visit("/say") == "1" })
      assert_equal id, visitor.cookie
    end
  end

  # One of two servers is paused, and has the session of a visitor.
  def with_a_paused_server(**options)
    paused, other = Array.new(2) { Server.new(*MEMCACHED) }
    app = sessions(paused.address, other.address, timeout: 2, connect_timeout: 2, **options)
    visitor = nil
    assert(eventually do
      visitor = Visitor.new(app)
      visitor.visit("/count")
      visitor.cookie && app.client.servers_of(private_id(visitor)).first == paused.address
    end)
    paused.pause
    yield paused, visitor, visitor.cookie
  ensure
    [paused, other].each(&:stop)
  end

  # The key of a visitor's session.
  def private_id(visitor)
    Rack::Session::SessionId.new(visitor.cookie).private_id
  end

  # The session could not be read, and must not be replaced by an empty one.
  def test_a_server_that_continues_in_the_middle_of_a_request
    server = Server.new(*MEMCACHED)
    first = visitor(server.address)
    first.visit("/count")
    app = sessions(server.address, timeout: 0.2, connect_timeout: 0.2)
    visitor = Visitor.new(app)
    visitor.set_cookie("rack.session=#{first.cookie}")
    server.pause
    go_on = lambda do |count|
      assert_nil count
      server.resume
      assert(eventually { writes?(app.client) })
    end
    visitor.get("/wait", {}, "test.wait" => go_on, "rack.errors" => visitor.errors)
    assert_equal first.cookie, visitor.cookie
    assert(eventually { visitor.visit("/say") == "1" })
  ensure
    server.stop
  end

  def writes?(client)
    client.set("any", 1)
  rescue Pinyon::Error
    false
  end

  def test_threads
    app = sessions
    counting = Array.new(8) do
      Thread.new do
        visitor = Visitor.new(app)
        Array.new(20) { visitor.visit("/count") }.last
      end
    end
    assert_equal ["20"] * 8, counting.map(&:value)
  end

  def test_values_as_dalli_stores_them
    with_dalli
    visitor = visitor()
    %w[/count /object /large].each { |path| visitor.visit(path) }
    key = private_id(visitor)
    dalli = Dalli::Client.new(memcached.address, namespace:)
    assert_equal({ "count" => 1, "object" => { symbol: [1.5, nil] }, "large" => "x" * 100_000 }, dalli.get(key))
    dalli.set(key, { "count" => 7 })
    assert_equal "7", visitor.visit("/say")
  end

  def test_the_same_sessions_as_dalli
    with_dalli
    require "rack/session/dalli"
    unless Rack::Session::Dalli < Rack::Session::Abstract::PersistedSecure
      skip "this version of Dalli stores sessions under the ids of the cookies"
    end

    both = [sessions, Rack::Session::Dalli.new(APPLICATION, memcache_server: memcached.address, namespace:)]
    visitors = both.map { |app| Visitor.new(app) }
    visitors.permutation do |first, second|
      first.visit("/count")
      first.visit("/object")
      first.visit("/large")
      second.set_cookie("rack.session=#{first.cookie}")
      assert_equal "2", second.visit("/count")
      assert_equal "3", first.visit("/count")
      second.visit("/out")
      assert_equal "nil", first.visit("/say")
    end
  end
end
