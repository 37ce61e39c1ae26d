# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# One client in the fibers of any scheduler. Each scenario runs in every reactor of {Reactors::ALL}.
class TestFibers < PinyonTest
  include Reactors::Tests

  # A server for caches. It counts how often something arrived.
  class CountingServer
    attr_reader :address, :arrivals

    def initialize
      @folder = Dir.mktmpdir("pinyon")
      @address = File.join(@folder, "socket")
      @server = UNIXServer.new(@address)
      @arrivals = 0
      @thread = Thread.new { loop { Thread.new(@server.accept) { |connection| serve(connection) } } }
    end

    def stop
      @thread.kill
      @server.close
      FileUtils.rm_rf(@folder)
    end

    private

    def serve(connection)
      loop do
        lines = connection.readpartial(65_536).lines
        @arrivals += 1 if lines.any?(/\A(mg|get) /)
        connection.write(lines.filter_map { |line| answer(line) }.join)
      end
    rescue EOFError, SystemCallError
      nil
    end

    def answer(line)
      case line
      when /\Aversion/ then "VERSION 1.6.18\r\n"
      when /\Amn/ then "MN\r\n"
      when /\Aget / then "END\r\n"
      when /\Amg .* (O\S+)/ then "VA 1 f0 #{Regexp.last_match(1)}\r\nx\r\n"
      end
    end
  end

  in_every_reactor(:every_call) do |reactor|
    cache = client
    reactor.run do
      assert cache.set(key, "value")
      assert_equal ["value", :default], [cache.get(key), cache.get(key("missing"), :default)]
      assert_equal [false, true, true], [cache.add(key, 1), cache.replace(key, "b"), cache.append(key, "c")]
      value, token = cache.gets(key)
      assert_equal ["bc", true, false], [value, cache.cas(key, "d", token), cache.cas(key, "e", token)]
      assert_equal [5, 7, 6], [cache.incr(key("n"), initial: 5), cache.incr(key("n"), 2), cache.decr(key("n"))]
      assert_equal [], cache.set_many({ key("a") => 1, key("b") => 2 })
      assert_equal({ key("a") => 1, key("b") => 2 }, cache.get_many([key("a"), key("b"), key("c")]))
      assert_equal({ key("a") => 1, key("b") => 2 }, cache.gat_many([key("a"), key("b"), key("c")], 60))
      assert_equal [key("a"), key("b")], cache.touch_many([key("a"), key("b"), key("c")], 60)
      assert_equal 2, cache.delete_many([key("a"), key("b"), key("c")])
      assert_equal [memcached.address], [cache.version, cache.stats].flat_map(&:keys).uniq
      assert_raises(Pinyon::InvalidKey) { cache.get("a key") }
      assert cache.delete(key)
    end
  end

  in_every_reactor(:fibers_share_a_connection) do |reactor|
    # With one thread the server counts connections in the order in which they were made.
    server = Support::Server.new(*Support::MEMCACHED, "-t", "1")
    watching = client(server.address)
    before = watching.stats[server.address]["total_connections"].to_i
    cache = client(server.address)
    wrong = in_fibers(reactor, 64) do |number|
      (1..50).reject { |round| cache.set("key #{number}".tr(" ", ":"), round) && cache.get("key:#{number}") == round }
    end
    assert_empty wrong.flatten
    assert_equal before + 1, watching.stats[server.address]["total_connections"].to_i
  ensure
    server.stop
  end

  def test_one_send_and_one_wait_in_each_turn
    server = CountingServer.new
    cache = client(server.address)
    scheduler = nil
    Reactors::Plain.run do
      scheduler = Fiber.scheduler
      16.times { Fiber.schedule { 100.times { cache.get("key") } } }
    end
    assert_equal 1600, cache.metrics[server.address][:commands]["get"].values_at(:hits, :misses).sum
    # A busy machine may deliver a turn's replies in two parts.
    assert_includes 100..400, server.arrivals
    assert_includes 100..400, scheduler.waits
  ensure
    server.stop
  end

  in_every_reactor(:other_fibers_run_meanwhile) do |reactor|
    silent = Support::SilentServer.new
    cache = client(silent.address)
    ran = false
    reactor.run do
      waiting = reactor.start { cache.get("key") }
      reactor.start { ran = true }
      reactor.stop(waiting)
    end
    assert ran
  ensure
    silent.stop
  end

  in_every_reactor(:an_exchange_has_its_timeout) do |reactor|
    silent = Support::SilentServer.new
    cache = client(silent.address, timeout: 0.1)
    errors = in_fibers(reactor, 5) { assert_raises(Pinyon::Timeout) { cache.get("key") } }
    assert_equal [silent.address], errors.map(&:server).uniq
  ensure
    silent.stop
  end

  in_every_reactor(:timeouts_of_the_caller) do |reactor|
    silent = Support::SilentServer.new
    cache = client(silent.address)
    [1, 5].each do |number|
      errors = in_fibers(reactor, number) do
        assert_raises(reactor::EXPIRED) { reactor.with_timeout(0.05) { cache.get("key") } }
      end
      assert_equal number, errors.size
    end
  ensure
    silent.stop
  end

  in_every_reactor(:a_value_that_nobody_awaits_any_more_is_nobodys) do |reactor|
    cache = client(timeout: 3)
    reactor.run { cache.set_many({ key("a") => "a", key("b") => "b" }) }
    reactor.run do
      assert_equal "a", cache.get(key("a"))
      reactor.stop(reactor.start { cache.get(key("a")) })
      reactor.pause(3.5)
      assert_equal "b", cache.get(key("b"))
    end
    assert_empty cache.metrics[memcached.address][:commands]["get"][:errors]
  end

  in_every_reactor(:a_storm_of_stopped_and_late_fibers) do |reactor|
    cache = client
    keys = (0...32).map { |number| key(number) }
    keys.each { |each| cache.set(each, each) }
    wrong = []
    right = stopped = 0
    reactor.run do
      60.times do |round|
        fibers = keys.map.with_index do |each, index|
          reactor.start do
            seconds = index % 4 == 3 ? rand / 100 : GENEROUS
            reactor.with_timeout(seconds) do
              20.times { cache.get(each) == each ? right += 1 : wrong << each }
            end
          rescue reactor::EXPIRED
            stopped += 1
          end
        end
        reactor.pause(rand / 500) if round.odd?
        fibers.each_slice(4) { |first, *| reactor.stop(first) }
      end
    end
    assert_empty wrong
    assert_operator right, :>, 1000
    assert_equal(keys, reactor.run { keys.map { |each| cache.get(each) } })
  end

  in_every_reactor(:a_stopped_fiber_is_not_woken_later) do |reactor|
    cache = client
    cache.set(key, "value")
    early = 0
    reactor.run do
      200.times do
        fibers = Array.new(4) do
          reactor.start do
            cache.get(key)
          ensure
            begun = now
            reactor.pause(0.01)
            early += 1 if now - begun < 0.01
          end
        end
        reactor.pause(0)
        fibers.each { |fiber| reactor.stop(fiber) }
      end
    end
    assert_equal 0, early
  end

  # The first fiber receives for all, and stops the others before they run.
  in_every_reactor(:a_lease_whose_fiber_is_stopped_is_given_back) do |reactor|
    server = Support::Server.new(*Support::MEMCACHED)
    native = client(server.address).instance_variable_get(:@native)
    reactor.run do
      native.version(nil)
      10.times do |round|
        server.pause
        stopped = []
        keys = Array.new(3) { |number| "#{round}:#{number}" }
        won = []
        ended = []
        reactor.start { native.ask_lease("first:#{round}", 600, 0, []) && stopped.each { |fiber| reactor.stop(fiber) } }
        keys.each { |key| stopped << reactor.start { ask(native, key, won, ended) } }
        reactor.pause(0.02)
        server.resume
        waiting_for { ended.size == 3 || reactor.pause(0.005) }
        # A scheduler may let the others run while one is stopped. What they have won then is theirs.
        refute_empty keys - won
        (keys - won).each { |key| won_at_last(reactor, native, key) }
      end
    end
  ensure
    server.stop
  end

  def ask(native, key, won, ended)
    native.ask_lease(key, 600, 0, [])
    won << key
  ensure
    ended << key
  end

  def won_at_last(reactor, native, key)
    waiting_for { native.ask_lease(key, 600, 0, []).first == :won || reactor.pause(0.005) }
  end

  # Repeats the block, which pauses and returns a number until what it waits for has come.
  def waiting_for
    give_up = now + GENEROUS
    assert_operator now, :<, give_up until yield == true
  end

  in_every_reactor(:a_batch) do |reactor|
    cache = client
    result = reactor.run do
      cache.quiet do |batch|
        5000.times { |number| batch.set(key(number), number) }
        :result
      end
    end
    assert_equal :result, result
    assert_equal(5000, reactor.run { cache.get_many((0...5000).map { |number| key(number) }).size })
    error = reactor.run do
      assert_raises(Pinyon::BatchError) do
        cache.quiet do |batch|
          batch.add(key(1), "there")
          batch.delete(key("missing"))
          batch.incr(key(2), 2)
        end
      end
    end
    failed = error.failures.map { |failure| [failure.key, failure.command, failure.reason] }
    assert_equal [[key(1), "add", "not stored"], [key("missing"), "delete", "not found"]], failed
    assert_equal 4, cache.get(key(2))
  end

  in_every_reactor(:a_batch_is_sent_while_its_block_waits) do |reactor|
    cache = client
    reactor.run do
      cache.quiet do |batch|
        10.times { |number| batch.set(key(number), number) }
        give_up = now + GENEROUS
        reactor.pause(0.01) until raw_value(key(9)) == "9" || now > give_up
        assert_equal "9", raw_value(key(9))
      end
    end
  end

  # Read by another client, in a thread.
  def raw_value(key)
    reader = client(serializer: :raw)
    Thread.new { reader.get(key) }.value
  end

  in_every_reactor(:a_batch_belongs_to_its_fibers) do |reactor|
    cache = client
    left = nil
    reactor.run do
      cache.quiet do |batch|
        left = batch
        thread = Thread.new { assert_raises(Pinyon::UsageError) { batch.set(key, 1) } }
        assert_match(/another scheduler/, thread.value.message)
      end
      assert_match(/the batch is over/, assert_raises(Pinyon::UsageError) { left.set(key, 1) }.message)
    end
  end

  in_every_reactor(:a_killed_server) do |reactor|
    server = Support::Server.new(*Support::MEMCACHED)
    cache = client(server.address)
    in_fibers(reactor, 4) { |number| cache.set("key#{number}", number) }
    reactor.run do
      Thread.new { server.kill }.join
      4.times { reactor.start { assert_raises(Pinyon::Error) { 3.times { cache.get("key") } } } }
      Thread.new { server.start }.join
      assert(eventually { cache.using(on_failure: :miss).set("key", "again") })
      assert_equal "again", cache.get("key")
    end
  ensure
    server.stop
  end

  in_every_reactor(:closing_ends_what_waits) do |reactor|
    silent = Support::SilentServer.new
    cache = client(silent.address)
    reactor.run do
      5.times { reactor.start { assert_closed { cache.get("key") } } }
      cache.close
      assert_raises(Pinyon::Closed) { cache.get("key") }
    end
    waits = Queue.new
    other = client(silent.address)
    thread = Thread.new { reactor.run { (waits << :begun) && assert_closed { other.get("key") } } }
    waits.pop
    assert(eventually { other.metrics[silent.address][:connections] == 1 })
    other.close
    assert thread.join(GENEROUS)
  ensure
    silent.stop
  end

  def assert_closed(&block)
    assert_match(/the client was closed/, assert_raises(Pinyon::Error, &block).message)
  end

  in_every_reactor(:connections_end_with_their_reactor) do |reactor|
    server = Support::Server.new(*Support::MEMCACHED)
    cache = client(server.address)
    20.times { reactor.run { cache.get("key") } }
    assert(eventually { GC.start || cache.metrics[server.address][:connections] <= 1 })
  ensure
    server.stop
  end

  in_every_reactor(:a_fork_inside_a_reactor) do |reactor|
    cache = client
    cache.set(key, "value")
    own = reactor.run do
      reactor.start { 200.times { assert_equal "value", cache.get(key) } }
      cache.get(key)
      in_child { Fiber.new(blocking: true) { used_in_child(cache, reactor) }.resume }
    end
    assert_equal ["value", true, "child"], own
    assert_equal("child", reactor.run { cache.get(key("child")) })
  end

  # In a child, the fiber that has forked cannot wait any more. A thread and a reactor of its own can.
  def used_in_child(cache, reactor)
    [cache.get(key), *reactor.run { [cache.set(key("child"), "child"), cache.get(key("child"))] }]
  end

  in_every_reactor(:garbage_collection) do |reactor|
    cache = client(timeout: 5 * GENEROUS, connect_timeout: 5 * GENEROUS)
    values = in_fibers(reactor, 2) do |number|
      GC.stress = true
      cache.set(key(number), number.to_s) && cache.get(key(number))
    ensure
      GC.stress = false
    end
    assert_equal %w[0 1], values
  end

  # In a child: EventMachine, which other tests use, does not survive compaction.
  in_every_reactor(:compaction) do |reactor|
    skip if reactor == Reactors::EventMachine
    cache = client
    values = in_child do
      reactor.run do
        reactor.start { 20.times { cache.set(key, "value") } }
        GC.compact
        cache.get(key)
      end
    end
    assert_equal "value", values
  end
end
