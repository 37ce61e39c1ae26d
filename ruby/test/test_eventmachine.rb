# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# How EventMachine's reactor is used. What fibers see of every reactor, other tests say.
class TestEventMachine < PinyonTest
  def reactor
    Reactors::EventMachine
  end

  # All of them are resumed from one event.
  def test_other_fibers_go_on_when_the_error_of_one_was_handled
    cache = client
    cache.set(key, "value")
    handled = []
    ended = []
    EM.error_handler { |error| handled << error.message }
    reactor.run do
      8.times do |number|
        reactor.start do
          2.times { cache.get(key) }
          raise number.to_s if number == 3

          ended << cache.get(key)
        end
      end
    end
    assert_equal [["3"], ["value"] * 7], [handled, ended]
  ensure
    EM.error_handler(nil)
  end

  # EventMachine keeps even cancelled timers until their time.
  def test_waits_share_a_timer
    cache = client
    timers = reactor.run do
      20.times { cache.get(key) }
      EM.instance_variable_get(:@timers).size
    end
    assert_operator timers, :<, 5
  end

  # Else the reactor would not rest: the end of a connection remains to be read.
  def test_a_descriptor_is_not_watched_after_something_has_happened_that_no_fiber_waits_for
    server = Support::Server.new(*Support::MEMCACHED)
    cache = client(server.address)
    watches = -> { EM.instance_variable_get(:@conns).size }
    reactor.run do
      cache.get(key)
      assert_equal 1, watches.call
      server.kill
      give_up = now + GENEROUS
      reactor.pause(0.005) until watches.call.zero? || now > give_up
      assert_equal 0, watches.call
    end
  ensure
    server.stop
  end
end
