# frozen_string_literal: true

require_relative "support"

class TestLocks < PinyonTest
  def other_thread(&block)
    Thread.new(&block).value
  end

  def test_a_block_holds_the_lock
    mine = locks
    others = locks
    result = mine.synchronize("a", :b) do |held|
      assert held.held?
      assert_equal ["a", :b], held.names
      assert_nil others.try_lock("b")
      assert others.locked?("a")
      held.token
    end
    later = others.try_lock("b")
    assert_operator later.token, :>, result
    assert later.release
    refute later.release
  end

  def test_what_a_program_writes_beside_its_locks
    mine = locks(namespace: "shop")
    assert_equal ["{shop}:".b, :namespace], [mine.prefix, mine.hash_tags]
    assert_equal :names, locks(hash_tags: :names).hash_tags
    first, second = Array.new(2) { mine.synchronize("a", &:itself) }
    assert_equal first.token, first.token_bytes.to_i(16)
    assert_equal 16, first.token_bytes.size
    assert_operator second.token_bytes, :>, first.token_bytes
  end

  def test_a_lock_is_given_back_when_the_block_raises
    mine = locks
    assert_raises(KeyError) { mine.synchronize("a") { raise KeyError } }
    refute mine.locked?("a")
  end

  def test_who_waits_gets_it
    mine = locks
    others = locks
    held = mine.lock("a")
    waiting = Thread.new { others.synchronize("a") { :got } }
    assert(eventually { mine.waiting("a") == 1 })
    assert held.release
    assert_equal :got, waiting.value
  end

  def test_who_waits_too_long_learns_who_holds_it
    mine = locks
    held = other_thread { mine.lock("a") }
    assert(eventually { learns_who_holds_it?(mine) })
    assert_operator Pinyon::LockTimeout, :<, Timeout::Error
    held.release
  end

  def test_a_thread_does_not_wait_for_itself
    mine = locks
    mine.synchronize("a") do
      assert_raises(Pinyon::AlreadyHeld) { mine.lock("a") }
    end
    mine.synchronize("a", reentrant: true) { mine.synchronize("a", reentrant: true) { assert mine.locked?("a") } }
    refute mine.locked?("a")
  end

  def test_threads_that_would_wait_for_each_other
    mine = locks
    steps = Queue.new
    first = Thread.new do
      mine.synchronize("a") do
        steps.pop
        mine.synchronize("b") { :both }
      end
    end
    second = mine.lock("b")
    assert(eventually { mine.locked?("a") })
    steps << :go
    assert(eventually { mine.waiting("b") == 1 })
    error = assert_raises(Pinyon::Deadlock) { mine.lock("a") }
    assert_equal 2, error.cycle.size
    second.release
    assert_equal :both, first.value
  end

  def test_a_lost_lock_tells_its_holder
    mine = locks
    others = locks
    told = Queue.new
    held = mine.lock("a", on_lost: ->(lost) { told << lost })
    assert_equal 1, others.force_release("a", token: held.token)
    assert_same held, told.pop
    assert held.lost?
    assert_equal 0.0, held.remaining
    assert_raises(Pinyon::LockLost) { held.check! }
    held.on_lost { told << :at_once }
    assert_equal :at_once, told.pop
    error = assert_raises(Pinyon::LockLost) { mine.synchronize("a") { others.force_release("a") } }
    assert_match(/"a" was lost before it was released/, error.message)
  end

  def test_a_lock_is_renewed_until_nothing_refers_to_it
    mine = locks(ttl: 6)
    mine.synchronize("a") do |held|
      assert(eventually { mine.status("a").first.age > 6.5 })
      assert held.held?
    end
    Thread.new { mine.lock("forgotten") && nil }.join
    assert(eventually { GC.start || !mine.locked?("forgotten") })
  end

  def test_waiting_for_a_notification
    mine = locks
    others = locks
    held = mine.lock("a")
    refute held.wait(0.01)
    notified = Thread.new { held.wait(GENEROUS) }
    assert(eventually { !mine.locked?("a") })
    others.synchronize("a") { |holder| assert(eventually { holder.notify == 1 }) }
    assert notified.value
    assert held.extend_to(20)
    held.release
  end

  def test_waiting_until_something_is_true
    mine = locks
    others = locks
    looked = Queue.new
    stock = []
    buyer = Thread.new { mine.synchronize("a") { |held| held.wait_until(GENEROUS) { (looked << 1) && stock.shift } } }
    [nil, :bread].each do |delivered|
      looked.pop
      others.synchronize("a") { |held| (stock << delivered) && assert_equal(1, held.notify) }
    end
    assert_equal :bread, buyer.value
    mine.synchronize("a") do |held|
      assert_equal([:now, false], [held.wait_until { :now }, held.wait_until(0.01) { false }])
    end
  end

  def test_status_and_commands
    mine = locks
    mine.synchronize("a") do |held|
      free, taken = mine.status("free", "a")
      assert_equal ["free", nil], [free.name, free.holder]
      assert_equal [held.token, mine.owner("a")], [taken.token, taken.holder]
    end
    assert_equal "OK", mine.execute("SET", "#{namespace}:key", 5)
    assert_equal "5", mine.execute("GET", "#{namespace}:key")
    assert_raises(Pinyon::ServerError) { mine.execute("NOSUCH") }
    assert_raises(Pinyon::InvalidName) { mine.lock("") }
    assert_match(/timeout/, assert_raises(ArgumentError) { Pinyon::Locks.new(tmeout: 1) }.message)
  end

  def test_a_wait_that_is_interrupted_gives_the_lock_up
    mine = locks
    others = locks
    held = others.lock("a")
    waiting = Thread.new { mine.lock("a") }
    assert(eventually { others.waiting("a") == 1 })
    waiting.kill.join
    assert(eventually { others.waiting("a").zero? })
    assert held.release
    refute others.locked?("a")
  end

  def test_a_thread_that_sleeps_while_another_receives_is_interrupted_at_once
    mine = locks
    others = locks
    held = others.lock("a", ttl: 60)
    waiting = Array.new(5) { Thread.new { mine.lock("a", timeout: 120) } }
    # Nothing tells when a thread has joined its client's line.
    sleep 1
    waiting.each { |thread| assert thread.kill.join(GENEROUS) }
    assert(eventually { others.waiting("a").zero? })
    assert held.release
  end

  def test_one_holder_at_a_time
    mine = locks
    inside = 0
    most = 0
    threads = (1..8).map do
      Thread.new do
        25.times do
          mine.synchronize("a") do
            inside += 1
            most = [most, inside].max
            Thread.pass
            inside -= 1
          end
        end
      end
    end
    threads.each(&:join)
    assert_equal [0, 1], [inside, most]
  end

  def test_closing_ends_every_wait
    mine = locks
    others = locks
    held = others.lock("a")
    waiting = Thread.new { mine.lock("a") }
    waiting.report_on_exception = false
    assert(eventually { others.waiting("a") == 1 })
    mine.close
    assert_raises(Pinyon::Closed, Pinyon::ConnectionLost) { waiting.value }
    assert_raises(Pinyon::Closed) { mine.lock("b") }
    held.release
  end

  def test_a_block_is_for_synchronize_alone
    %i[lock try_lock].each do |method|
      error = assert_raises(Pinyon::UsageError) { locks.public_send(method, "a") { flunk } }
      assert_equal "#{method} returns the lock, and runs no block; use synchronize", error.message
    end
    assert_equal 1, locks.synchronize("a") { 1 }
  end

  def test_a_server_that_is_lost_and_found_is_told
    events = []
    server = Support::Server.new(*Support::REDIS)
    mine = locks(server:, on_event: ->(event) { events << event }, command_timeout: 2)
    use(mine)
    assert(eventually { events.any? { |event| event.kind == :connected } })
    assert_equal [:debug, server.address, nil], events[0].to_a.values_at(5, 1, 7)
    server.kill
    use(mine) until events.any? { |event| event.kind == :down }
    down = events.find { |event| event.kind == :down }
    assert_equal :warning, down.level
    assert_kind_of Pinyon::ConnectError, down.error
    assert_match(/cannot be used: cannot connect/, down.message)
    server.start
    use(mine) until events.any? { |event| event.kind == :up }
    assert_operator events.last.seconds, :>, 0
    assert_equal %i[connected disconnected down up], events.map(&:kind)
    assert_equal [2, 1, 0], mine.metrics.values_at(:connects, :disconnects, :switches)
  ensure
    server.stop
  end

  def use(client)
    client.try_lock("a", ttl: 1)&.release
  rescue Pinyon::Error
    sleep 0.02
  end

  def test_what_a_callback_raises_is_reported
    _, written = capture_io do
      mine = locks(on_event: ->(_) { raise KeyError, "of the test" })
      mine.synchronize("a") { nil }
      assert(eventually { $stderr.string.include?("on_event failed") })
      assert mine.try_lock("a").release
    end
    assert_match(/pinyon: on_event failed: .*of the test \(KeyError\)/, written)
  end

  def test_events_are_told_in_a_child_too
    told = Queue.new
    mine = locks(on_event: ->(event) { told << event.kind })
    mine.synchronize("a") { nil }
    assert_equal :connected, told.pop
    reader, writer = IO.pipe
    child = fork do
      mine.synchronize("b") { writer.puts(told.pop) }
      exit!(0)
    end
    Process.wait(child)
    writer.close
    assert_equal "connected\n", reader.read
  end

  def test_what_becomes_of_locks_is_counted
    mine = locks
    others = locks
    assert_equal [0, {}, {}], mine.metrics.values_at(:acquired, :lost, :errors)
    held = mine.lock("a")
    assert_nil others.try_lock("a")
    assert_raises(Pinyon::LockTimeout) { others.lock("a", timeout: 2) }
    assert held.release
    mine.lock("a")
    assert_equal 1, others.force_release("a")
    assert(eventually { mine.metrics[:lost] == { forced: 1 } })
    assert_equal [2, 1, 0], mine.metrics.values_at(:acquired, :released, :queued)
    assert_equal [0, 1, 1, { "LockTimeout" => 1 }], others.metrics.values_at(:acquired, :busy, :queued, :errors)
    assert_operator mine.metrics[:percentiles][50], :>, 0
    assert_equal 2, mine.metrics[:buckets].values.sum
  end
end
