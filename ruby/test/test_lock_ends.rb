# frozen_string_literal: true

require "open3"
require_relative "support"

# How locks end: jobs that run once, hand-overs, shutdown and the end of a program.
class TestLockEnds < PinyonTest
  # Longer than any test.
  LONG = 3600
  PYTHON = File.join(Support::ROOT, ".venv", "bin", "python")
  PROGRAM = File.join(Support::ROOT, "python", "tests", "beside_others.py")

  def test_a_job_runs_once_per_period
    mine = locks
    others = locks
    made = mine.once("nightly", per: LONG) do |held|
      assert_nil(others.once("nightly", per: LONG) { flunk })
      held.token
    end
    assert_operator made, :>, 0
    [mine, others].each { |again| assert_nil(again.once("nightly", per: LONG) { flunk }) }
    assert others.locked?("nightly")
    assert_equal 1, others.force_release("nightly")
    assert_raises(Pinyon::UsageError) { mine.once("nightly", per: LONG) }
  end

  def test_a_job_that_fails_may_run_again_at_once
    mine = locks
    assert_raises(KeyError) { mine.once("nightly", per: LONG) { raise KeyError } }
    assert_equal(:made, mine.once("nightly", per: LONG) { :made })
    assert mine.locked?("nightly")
  end

  def test_a_job_that_lost_its_lock_is_told
    mine = locks
    assert_raises(Pinyon::LockLost) { mine.once("nightly", per: LONG) { mine.force_release("nightly") } }
  end

  def test_a_block_that_goes_on_after_the_loss_of_its_lock_ends_quietly
    mine = locks
    certain = mine.synchronize("a", on_failure: :proceed) do |held|
      mine.execute("DEL", "#{mine.prefix}l:a")
      refute held.extend_to(5)
      held.certain?
    end
    refute certain
    assert_raises(Pinyon::LockLost) { mine.synchronize("a", on_failure: :proceed) { mine.force_release("a") } }
    assert_equal(1, mine.metrics[:proceeded])
    assert_raises(Pinyon::UsageError) { mine.lock("a", on_failure: :ignore) }
    assert_raises(Pinyon::UnsupportedType) { mine.lock("a", on_failure: "proceed") }
  end

  def test_a_lock_stays_locked_for_its_least_time
    mine = locks
    mine.synchronize("a", at_least: LONG) { :done }
    assert mine.locked?("a")
    assert_nil mine.try_lock("a")
  end

  def test_a_block_whose_lock_was_handed_over_ends_quietly
    mine = locks
    others = locks
    first = nil
    ticket = mine.synchronize("a", "é") do |held|
      first = held.token
      handed_over = held.hand_over
      refute held.held?
      refute held.lost?
      handed_over
    end
    assert others.locked?("a")
    later = others.adopt(ticket, ttl: 60) do |held|
      assert_equal %w[a é], held.names.sort
      held.token
    end
    assert_operator later, :>, first
    refute others.locked?("a", "é")
    error = assert_raises(Pinyon::LockLost) { others.adopt(ticket) }
    assert_match(/ticket was used/, error.message)
    assert_raises(Pinyon::UsageError) { others.adopt(ticket[0..-3]) }
  end

  def test_a_ticket_passes_between_ruby_and_python
    mine = locks(namespace: key)
    python(key) do |input, output|
      held = mine.lock("a")
      input.puts("adopt #{held.hand_over}")
      assert_operator output.gets.to_i, :>, held.token
      assert mine.locked?("a")
      input.puts
      assert(eventually { !mine.locked?("a") })
      input.puts("hand b")
      adopted = mine.adopt(output.gets)
      assert_equal ["b"], adopted.names
      assert adopted.check!.release
    end
  end

  def test_all_are_released_whoever_holds_them
    mine = locks
    told = Queue.new
    held = Thread.new { mine.lock("a", on_lost: told.method(:<<)) }.value
    error = assert_raises(Pinyon::LockLost) do
      mine.synchronize("b") { assert_equal 2, mine.release_all(60) }
    end
    assert_match(/released with all/, error.message)
    assert_same held, told.pop
    assert_equal 0, mine.release_all
    refute mine.locked?("a", "b")
  end

  def test_closing_releases_what_is_held_if_asked_to
    mine = locks
    held = mine.lock("a")
    mine.close(release: true)
    assert mine.closed?
    assert held.lost?
    refute locks.locked?("a")
  end

  ENDING = <<~RUBY
    require "pinyon"
    locks = Pinyon::Locks.new(ARGV[0], namespace: ARGV[1], ttl: 3600, command_timeout: 60, connect_timeout: 60)
    $held = locks.lock("a")
    $kept = locks.lock("b", at_least: 3600)
    Process.wait(fork { exit }) if ARGV[2] == "fork"
    print $held.check!.held?
  RUBY

  def test_the_end_of_a_program_releases_what_it_holds
    watching = locks(namespace: key)
    ["", "fork"].each do |how|
      output, status = Open3.capture2e(RbConfig.ruby, *$LOAD_PATH.map { |path| "-I#{path}" }, "-e", ENDING,
                                       "unix://#{redis.address}", key, how)
      assert_equal ["true", true], [output, status.success?]
      refute watching.locked?("a")
      assert_equal 1, watching.force_release("b")
    end
  end

  private

  def python(namespace)
    Open3.popen2(PYTHON, PROGRAM, memcached.address, "unix://#{redis.address}", namespace) do |input, output, process|
      yield input, output
    ensure
      Process.kill(:KILL, process.pid) if process.alive?
    end
  end
end
