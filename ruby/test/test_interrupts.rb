# frozen_string_literal: true

require "open3"
require_relative "support"
require "timeout"

# Whatever ends a wait ends it at once, and never costs another key's value.
class TestInterrupts < PinyonTest
  def setup
    @silent = Support::SilentServer.new
  end

  def teardown
    super
    @silent.stop
  end

  def waiting
    cache = client(@silent.address)
    thread = Thread.new { cache.get("key") }
    thread.report_on_exception = false
    assert(eventually { thread.status == "sleep" })
    thread
  end

  def test_timeout
    cache = client(@silent.address)
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { cache.get("key") } }
  end

  def test_raise
    thread = waiting
    thread.raise(KeyError, "raised")
    assert_raises(KeyError) { thread.join(GENEROUS) }
  end

  def test_kill
    ended = false
    cache = client(@silent.address)
    thread = Thread.new do
      cache.get("key")
    ensure
      ended = true
    end
    assert(eventually { thread.status == "sleep" })
    thread.kill
    assert thread.join(GENEROUS)
    assert ended
  end

  def test_a_signal_is_handled_while_the_wait_goes_on
    handled = false
    before = trap("USR1") { handled = true }
    cache = client(@silent.address)
    signaller = Thread.new { Process.kill(:USR1, Process.pid) until handled || sleep(0.01).nil? }
    assert_raises(Timeout::Error) do
      Timeout.timeout(GENEROUS) do
        raise(Timeout::Error) if handled

        wait_for(cache) do
          handled
        end
      end
    end
    signaller.join
    assert handled
  ensure
    trap("USR1", before)
  end

  def test_ctrl_c
    cache = client(@silent.address)
    mine = locks
    others = locks
    others.synchronize("a") do
      assert_equal("Interrupt", interrupted { cache.get("key") })
      assert_equal("Interrupt", interrupted(-> { others.waiting("a") == 1 }) { mine.lock("a") })
      assert(eventually { others.waiting("a").zero? })
    end
  end

  # The error that ends the block in a program that is interrupted while it waits.
  def interrupted(waits = -> { true }, &block)
    reader, writer = IO.pipe
    child = fork do
      trap(:INT, "DEFAULT")
      writer.puts("begun")
      block.call
    rescue Interrupt => e
      writer.puts(e.class)
    ensure
      exit!(0)
    end
    writer.close
    reader.gets
    assert(eventually { File.read("/proc/#{child}/stat").split[2] == "S" && waits.call })
    Process.kill(:INT, child)
    reader.gets&.chomp.tap { Process.wait(child) }
  end

  def stop(thread, round)
    thread.report_on_exception = false
    round.even? ? thread.kill : thread.raise(KeyError)
    thread.join
  rescue KeyError
    nil
  end

  # Waits in the client until something else has happened.
  def wait_for(cache)
    Timeout.timeout(0.1) { cache.get("key") }
  rescue Timeout::Error
    yield ? raise : retry
  end

  def test_other_threads_run_meanwhile
    thread = waiting
    assert_equal :ran, Thread.new { :ran }.value
    assert_equal "sleep", thread.status
    thread.kill
  end

  # Its caller has it, or nobody has: also where a signal strikes at a condition between a grant and its `return`.
  def test_what_is_acquired_as_a_signal_strikes_is_not_lost
    library = File.expand_path("../lib", __dir__)
    said, = Open3.capture2e(RbConfig.ruby, "-I", library, File.join(__dir__, "struck.rb"), redis.address,
                            memcached.address, "10000")
    assert_equal(%w[lock try_lock lease redlock mutex].map { |way| "#{way}: 0 left, struck\n" }, said.lines)
  end

  def test_threads_that_are_stopped_at_random_never_get_another_keys_value
    cache = client
    keys = (1..20).map { |number| key(number) }
    keys.each { |each| cache.set(each, each) }
    wrong = Queue.new
    300.times do |round|
      threads = (1..6).map { Thread.new { keys.cycle { |each| wrong << each unless cache.get(each) == each } } }
      sleep(rand / 1000)
      threads.each { |thread| stop(thread, round) }
    end
    assert_empty wrong
    keys.each { |each| assert_equal each, cache.get(each) }
  end
end
