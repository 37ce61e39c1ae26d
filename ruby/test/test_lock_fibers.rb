# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# Locks in the fibers of any scheduler. Each test runs in every reactor of {Reactors::ALL}.
class TestLockFibers < PinyonTest
  include Reactors::Tests

  # Threads of a test share the server.
  def setup
    locks
  end

  # Runs the block while no other fiber of this thread can run.
  def held_up(&block)
    Fiber.new(blocking: true, &block).resume
  end

  in_every_reactor(:every_call) do |reactor|
    mine = locks
    reactor.run do
      others = locks
      token = mine.synchronize("a", :b) do |held|
        assert_equal [true, false, ["a", :b]], [held.held?, held.lost?, held.names]
        assert_nil others.try_lock("b")
        free, taken = others.status("free", "a")
        assert_equal [nil, held.token, others.owner("b")], [free.holder, taken.token, taken.holder]
        assert held.extend_to(20)
        assert_same held, held.check!
        held.token
      end
      later = mine.try_lock("b")
      assert_operator later.token, :>, token
      assert_equal [true, false], [later.release, later.release]
      refute mine.locked?("a", "b")
      assert_raises(Pinyon::LockLost) { later.check! }
      assert_equal %w[OK 5], [mine.execute("SET", "#{namespace}:key", 5), mine.execute("GET", "#{namespace}:key")]
      assert_raises(Pinyon::ServerError) { mine.execute("NOSUCH") }
      assert_raises(KeyError) { mine.synchronize("a") { raise KeyError } }
      refute mine.locked?("a")
    end
  end

  in_every_reactor(:a_fiber_that_waits_gets_the_lock_and_others_run_meanwhile) do |reactor|
    mine = locks
    others = locks
    steps = []
    reactor.run do
      [mine, others].each do |holder|
        held = holder.lock("a")
        reactor.start { mine.synchronize("a") { steps << holder } }
        await_queue(reactor, others, mine == holder ? 0 : 1)
        assert_empty steps
        assert held.release
        assert(eventually_in(reactor) { steps == [holder] })
        steps.clear
      end
    end
  end

  # Attempts of one client queue in the client until the server grants it the lock.
  def await_queue(reactor, watching, number)
    assert(eventually_in(reactor) { watching.waiting("a") == number })
  end

  in_every_reactor(:waiting_for_a_lock_of_a_thread) do |reactor|
    mine = locks
    held = mine.lock("a")
    got = nil
    reactor.run do
      reactor.start { got = mine.synchronize("a", &:token) }
      assert(eventually_in(reactor) { mine.waiting("a") == 1 })
      assert Thread.new { held.release }.value
    end
    assert_operator got, :>, held.token
  end

  in_every_reactor(:one_holder_at_a_time) do |reactor|
    mine = [locks, locks]
    inside = most = 0
    rounds = in_fibers(reactor, 8) do |number|
      15.times do
        mine[number % 2].synchronize("a") do
          inside += 1
          most = [most, inside].max
          reactor.pause(0)
          inside -= 1
        end
      end
    end
    assert_equal [8, 0, 1], [rounds.size, inside, most]
  end

  in_every_reactor(:a_fiber_that_waits_too_long_learns_who_holds_it) do |reactor|
    mine = locks
    held = locks.lock("a")
    reactor.run do
      assert(eventually_in(reactor) { learns_who_holds_it?(mine) })
      assert_equal 0, mine.waiting("a")
    end
    held.release
  end

  in_every_reactor(:each_fiber_is_an_owner_of_its_own) do |reactor|
    mine = locks
    reactor.run do
      mine.synchronize("a") do
        assert_raises(Pinyon::AlreadyHeld) { mine.lock("a") }
        reactor.start { assert_raises(Pinyon::LockTimeout) { mine.lock("a", timeout: 0, reentrant: true) } }
      end
      mine.synchronize("a", reentrant: true) { mine.synchronize("a", reentrant: true) { assert mine.locked?("a") } }
      refute mine.locked?("a")
    end
  end

  in_every_reactor(:fibers_that_would_wait_for_each_other) do |reactor|
    mine = locks
    both = nil
    reactor.run do
      second = mine.lock("b")
      first = nil
      reactor.start do
        first = mine.lock("a")
        both = mine.synchronize("b") { :both }
        first.release
      end
      assert(eventually_in(reactor) { mine.waiting("b") == 1 })
      assert_equal 2, assert_raises(Pinyon::Deadlock) { mine.lock("a") }.cycle.size
      second.release
    end
    assert_equal :both, both
  end

  in_every_reactor(:waiting_for_a_notification) do |reactor|
    mine = locks
    others = locks
    notified = nil
    reactor.run do
      held = mine.lock("a")
      refute held.wait(0.01)
      reactor.start { notified = held.wait && held.release }
      assert(eventually_in(reactor) { !mine.locked?("a") })
      others.synchronize("a") { |holder| assert(eventually_in(reactor) { holder.notify == 1 }) }
    end
    assert notified
  end

  in_every_reactor(:a_lost_lock_tells_its_holder) do |reactor|
    mine = locks
    others = locks
    told = Queue.new
    reactor.run do
      held = mine.lock("a", on_lost: ->(lost) { told << lost })
      assert_equal 1, others.force_release("a", token: held.token)
      assert(eventually_in(reactor) { held.lost? })
      assert_raises(Pinyon::LockLost) { held.check! }
      error = assert_raises(Pinyon::LockLost) do
        mine.synchronize("a") do |lost|
          others.force_release("a")
          assert(eventually_in(reactor) { lost.lost? })
        end
      end
      assert_match(/"a" was lost before it was released/, error.message)
    end
    assert_predicate told.pop, :lost?
  end

  # The loss is noticed although no fiber asks for anything.
  def test_a_loss_in_a_reactor_that_is_held_up
    in_all_reactors do |reactor|
      lock = reactor.name
      mine = locks
      told = Queue.new
      reactor.run do
        mine.lock(lock, on_lost: ->(lost) { told << lost.names })
        held_up { locks.force_release(lock) && assert_equal([lock], told.pop) }
      end
    end
  end

  def test_locks_are_renewed_while_their_reactor_is_held_up_and_after_its_end
    in_all_reactors do |reactor|
      mine = locks(ttl: 6)
      kept, other = reactor.run { [1, 2].map { |number| mine.lock("#{reactor.name} #{number}") } }
      reactor.run do
        mine.synchronize(reactor.name) do |held|
          reactor.start { mine.lock(reactor.name).release }
          held_up { assert(eventually { mine.status(reactor.name).first.age > 6.2 }) }
          assert_equal [true, true], [held.held?, other.release]
        end
      end
      assert_equal [true, true, false], [kept.held?, kept.release, kept.release]
      refute mine.locked?(reactor.name, *kept.names)
    end
  end

  def test_a_lock_that_nothing_refers_to_is_not_renewed
    mine = locks(ttl: 1)
    in_all_reactors { |reactor| reactor.run { reactor.start { mine.lock(reactor.name) && nil } } }
    assert(eventually { GC.start || !mine.locked?(*Reactors::ALL.values.map(&:name)) })
  end

  in_every_reactor(:threads_use_a_lock_of_a_fiber) do |reactor|
    mine = locks
    others = locks
    reactor.run do
      held = mine.lock("a")
      waiting = Thread.new { held.wait }
      assert(eventually_in(reactor) { !mine.locked?("a") })
      others.synchronize("a") { |holder| assert(eventually_in(reactor) { holder.notify == 1 }) }
      assert waiting.value
      killed = Thread.new { held.wait }
      assert(eventually_in(reactor) { !mine.locked?("a") })
      killed.kill.join
      held = mine.lock("a")
      assert Thread.new { held.release }.value
    end
  end

  in_every_reactor(:a_stopped_fiber_leaves_the_queue) do |reactor|
    mine = locks
    others = locks
    reactor.run do
      [mine, others].each do |holder|
        held = holder.lock("a")
        waiting = Array.new(3) { reactor.start { mine.lock("a") } }
        await_queue(reactor, others, mine == holder ? 0 : 1)
        waiting.each { |fiber| reactor.stop(fiber) }
        await_queue(reactor, others, 0)
        assert held.release
        refute others.locked?("a")
      end
    end
  end

  in_every_reactor(:a_fiber_that_times_out_leaves_the_queue) do |reactor|
    mine = locks
    others = locks
    reactor.run do
      held = others.lock("a")
      assert_raises(reactor::EXPIRED) { reactor.with_timeout(0.05) { mine.lock("a") } }
      assert(eventually_in(reactor) { others.waiting("a").zero? })
      assert held.release
      parked = mine.lock("a")
      assert_raises(reactor::EXPIRED) { reactor.with_timeout(0.05) { parked.wait } }
      refute parked.held?
      refute mine.locked?("a")
    end
  end

  # A grant that arrives as its fiber is stopped is given back.
  in_every_reactor(:a_storm_of_stopped_and_late_fibers) do |reactor|
    mine = [locks, locks]
    inside = most = entered = 0
    reactor.run do
      12.times do |round|
        fibers = Array.new(12) do |number|
          reactor.start do
            reactor.with_timeout(number % 4 == 3 ? rand / 50 : GENEROUS) do
              mine[number % 2].synchronize("a", "b#{number % 3}") do
                entered += 1
                inside += 1
                most = [most, inside].max
                number.even? ? reactor.pause(0) : nil
              ensure
                inside -= 1
              end
            end
          rescue reactor::EXPIRED, Pinyon::LockLost
            nil
          end
        end
        reactor.pause(rand / 200) if round.odd?
        fibers.each_slice(3) { |first, *| reactor.stop(first) }
      end
    end
    assert_equal [0, 1], [inside, most]
    assert_operator entered, :>, 12
    reactor.run do
      assert(eventually_in(reactor) { !mine.first.locked?("a", "b0", "b1", "b2") })
      assert_equal 0, mine.first.waiting("a", "b0", "b1", "b2")
    end
  end

  in_every_reactor(:fibers_share_a_connection) do |reactor|
    server = Support::Server.new(*Support::REDIS)
    mine, watching = Array.new(2) { locks(server:) }
    count = -> { watching.execute("INFO", "stats")[/total_connections_received:(\d+)/, 1].to_i }
    before = count.call
    in_fibers(reactor, 16) { |number| 10.times { mine.synchronize("a#{number % 3}") { number } } }
    assert_equal before + 1, count.call
  ensure
    server.stop
  end

  in_every_reactor(:closing_ends_every_wait) do |reactor|
    mine = locks
    others = locks
    error = nil
    reactor.run do
      held = others.lock("a")
      kept = mine.lock("b")
      reactor.start { error = assert_raises(Pinyon::Closed, Pinyon::ConnectionLost) { mine.lock("a") } }
      assert(eventually_in(reactor) { others.waiting("a") == 1 })
      mine.close
      assert_raises(Pinyon::Closed) { mine.lock("b") }
      assert_equal [false, false], [kept.held?, kept.release]
      assert held.release
    end
    assert error
  end

  in_every_reactor(:a_killed_server) do |reactor|
    server = Support::Server.new(*Support::REDIS)
    mine = locks(server:, command_timeout: 0.5, connect_timeout: 0.5)
    failed = 0
    reactor.run do
      assert(eventually_in(reactor) { unless_it_fails { mine.synchronize("a") { true } } })
      held_up { server.kill }
      4.times { reactor.start { assert_raises(Pinyon::Error) { mine.lock("a", timeout: 0) } && failed += 1 } }
      assert(eventually_in(reactor) { failed == 4 })
      held_up { server.start }
      assert(eventually_in(reactor) { unless_it_fails { mine.synchronize("a") { true } } })
    end
  ensure
    server.stop
  end

  def unless_it_fails
    yield
  rescue Pinyon::Error
    nil
  end

  in_every_reactor(:a_fork_inside_a_reactor) do |reactor|
    mine = locks
    answers = reactor.run do
      held = mine.lock("a")
      reactor.start { mine.lock("a", timeout: GENEROUS).release }
      answers = in_child { Fiber.new(blocking: true) { used_in_child(mine, held, reactor) }.resume }
      answers << held.release
    end
    assert_equal [false, false, true, "child", true], answers
  end

  # The child does not hold its parent's locks.
  def used_in_child(mine, held, reactor)
    [held.held?, held.release, *reactor.run { [mine.locked?("a"), mine.synchronize("child") { "child" }] }]
  end

  in_every_reactor(:garbage_collection) do |reactor|
    mine = locks
    tokens = in_fibers(reactor, 6) do
      Array.new(2) { mine.synchronize("a") { |held| GC.start || held.token } }
    end
    assert_equal 12, tokens.flatten.uniq.size
  end
end
