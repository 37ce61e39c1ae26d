# frozen_string_literal: true

require_relative "rails_caches"
require "rack"
require "rack/attack"
require "rack/test"

# Rack::Attack counts requests in the cache.
class TestRackAttack < PinyonTest
  include RailsCaches
  include Rack::Test::Methods

  def app
    @app ||= Rack::Attack.new(->(_environment) { [200, {}, ["welcome"]] })
  end

  def setup
    Rack::Attack.cache.store = store
    Rack::Attack.throttle(name, limit: 3, period: 1_000_000_000) { |request| request.params["visitor"] }
  end

  def teardown
    Rack::Attack.clear_configuration
    super
  end

  def statuses(visitor, number)
    Array.new(number) { get("/", visitor:).status }
  end

  def test_the_fourth_request_of_a_visitor_is_refused
    assert_equal [200, 200, 200, 429], statuses("one", 4)
    assert_equal([429], in_child { statuses("one", 1) })
    assert_equal [200], statuses("two", 1)
  end

  def test_servers_that_fail_refuse_no_request
    Rack::Attack.cache.store = store("127.0.0.1:1")
    assert_equal [200] * 5, statuses("one", 5)
  end
end
