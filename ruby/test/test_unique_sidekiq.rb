# frozen_string_literal: true

require_relative "support"

# Jobs of Sidekiq that are unique, in a process of Sidekiq that the tests stop and kill.
class TestUniqueSidekiq < PinyonTest
  REDIS = Support::Server.new(*Support::REDIS)
  ENV["UNIQUE_REDIS"] = REDIS.address
  require_relative "site/sidekiq_jobs"
  include SidekiqJobs
  Minitest.after_run { REDIS.stop }

  FILE = File.expand_path("site/sidekiq_jobs.rb", __dir__)

  def setup
    SIDEKIQ_LOCKS.execute("FLUSHALL")
  end

  def teardown
    stop(:KILL)
    super
  end

  def start
    environment = { "RUBYLIB" => $LOAD_PATH.join(":"), "UNIQUE_REDIS" => REDIS.address }
    @process = spawn(environment, "sidekiq", "-r", FILE, "-c", "4", "-t", "5", out: File::NULL, err: File::NULL)
  end

  def stop(signal)
    return unless @process

    Process.kill(signal, @process)
    Process.wait(@process)
    @process = nil
  end

  # Ends the process as a supervisor does. No key of a lock is left, except those that say what was replaced.
  def ended
    stop(:TERM)
    assert(eventually { left.empty? }, left.inspect)
  end

  def left
    SIDEKIQ_LOCKS.execute("KEYS", "{jobs}*").grep_v(/:#[fp]\z|:#x:|:replaced:/)
  end

  def open(*names)
    names.each { |name| SIDEKIQ_LOCKS.execute("SET", "open:#{name}", "1") }
  end

  def told
    SIDEKIQ_LOCKS.execute("LRANGE", "told", 0, -1).map { |line| line.split.first }
  end

  def tells(*names)
    assert(eventually { told == names }, told.inspect)
  end

  def test_a_job_that_is_pushed_is_not_pushed_again
    assert Report.perform_async(7, "first")
    assert_nil Report.perform_async(7, "second")
    assert_nil Report.perform_in(60, 7, "third")
    assert Report.perform_in(10_000, 8, "later")
    assert_in_delta 13_600, SIDEKIQ_LOCKS.status("report:8").first.left, 60
    assert_equal 1, SIDEKIQ_LOCKS.force_release("report:8")
    start
    tells "first"
    assert_nil Report.perform_async(7, "fourth")
    open "first", "fifth"
    assert(eventually { !SIDEKIQ_LOCKS.locked?("report:7") })
    assert Report.perform_async(7, "fifth")
    tells "first", "fifth"
    ended
  end

  def test_a_scheduled_job_keeps_its_lock_until_it_runs
    assert Report.perform_in(0.2, 7, "first")
    assert_nil Report.perform_async(7, "second")
    open "first"
    start
    tells "first"
    ended
  end

  def test_a_later_job_replaces_one_that_waits_in_the_queue
    assert Newest.perform_async(7, "first")
    assert Newest.perform_async(7, "second")
    start
    tells "second"
    assert_raises(Pinyon::LockTimeout) { Newest.perform_async(7, "third") }
    open "second"
    ended
    assert_equal ["second"], told
  end

  def test_jobs_that_run_alone_wait_in_the_queue
    start
    Alone.perform_async(7, "first")
    tells "first"
    Alone.perform_async(7, "second")
    sleep 0.5
    assert_equal ["first"], told
    open "first", "second"
    tells "first", "second"
    ended
  end

  def test_a_second_job_does_not_run_beside_the_first
    start
    Single.perform_async(7, "first")
    tells "first"
    assert Single.perform_async(7, "second")
    assert(eventually { Sidekiq::Stats.new.processed == 1 })
    open "first"
    ended
    assert_equal ["first"], told
  end

  def test_a_retry_keeps_the_lock_until_the_last
    start
    assert Again.perform_async(7, "name")
    tells "name"
    open "name"
    assert(eventually { Sidekiq::RetrySet.new.size == 1 })
    assert SIDEKIQ_LOCKS.locked?("again:7")
    assert_nil Again.perform_async(7, "other")
    tells "name", "name"
    assert(eventually { !SIDEKIQ_LOCKS.locked?("again:7") })
    ended
  end

  def test_a_shutdown_puts_a_job_back_with_its_lock
    start
    Report.perform_async(7, "slow")
    tells "slow"
    stop(:TERM)
    assert SIDEKIQ_LOCKS.locked?("report:7")
    assert_nil Report.perform_async(7, "other")
    open "slow"
    start
    tells "slow", "slow"
    ended
  end

  def test_a_process_that_is_killed_leaves_nothing
    start
    Report.perform_async(7, "killed")
    Single.perform_async(7, "killed")
    tells "killed", "killed"
    stop(:KILL)
    assert SIDEKIQ_LOCKS.locked?("report:7")
    assert(eventually { left.empty? }, left.inspect)
    assert Report.perform_async(7, "again")
  end
end
