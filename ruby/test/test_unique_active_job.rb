# frozen_string_literal: true

require_relative "support"
require "active_job"
require "pinyon/unique"

# Jobs of ActiveJob that are unique, in its own adapters: in threads, at once, and in the queue of its tests.
class TestUniqueActiveJob < PinyonTest
  TOLD = Queue.new

  class << self
    # The locks of the test that runs.
    attr_accessor :current
  end

  class Job < ActiveJob::Base
    include Pinyon::Unique
    self.logger = nil

    LOCKS = -> { TestUniqueActiveJob.current }
    OPEN = {} # rubocop:disable Style/MutableConstant

    def perform(number, name: "job")
      TOLD << [name, unique_lock.names]
      sleep(0.01) until OPEN[name]
      number
    end
  end

  class Report < Job
    unique "report:{number}", locks: Job::LOCKS
    def perform(number, name: "report") = super
  end

  class Newest < Job
    unique(locks: Job::LOCKS, on_conflict: :replace, timeout: 0.05) { |number, **| "newest:#{number}" }
  end

  class Alone < Job
    unique "alone:{0}", locks: Job::LOCKS, when: :running, on_conflict: :wait, timeout: 0.05, retry_in: 0.1
  end

  class Single < Job
    unique "single:{number}", locks: Job::LOCKS, when: :running
  end

  class Again < Job
    unique "again:{number}", locks: Job::LOCKS
    retry_on KeyError, wait: 1, attempts: 2
    discard_on IOError

    def perform(number)
      TOLD << executions
      raise KeyError if number == 1 && executions == 1
      raise IOError if number == 2
      raise ArgumentError if number == 3
    end
  end

  def setup
    made = locks
    # The Procs of the classes return it on first use, and each test has its own.
    [Report, Newest, Alone, Single, Again].each { |kind| kind.unique_by.instance_variable_set(:@locks, nil) }
    self.class.current = made
    @locks = made
    Job::OPEN.clear
    TOLD.clear
    @adapters = []
  end

  def teardown
    Job::OPEN.default = true
    @adapters.each { |adapter| adapter.shutdown(wait: true) }
    assert(eventually { nothing_left? })
    Job::OPEN.default = nil
    super
  end

  def nothing_left?
    @locks.execute("KEYS", "#{@locks.prefix}*").grep_v(/:#[fp]\z|:#x:|:replaced:/).empty?
  end

  def in_threads
    adapter = ActiveJob::QueueAdapters::AsyncAdapter.new(min_threads: 4, max_threads: 4)
    @adapters << adapter
    ActiveJob::Base.queue_adapter = adapter
  end

  def queued
    ActiveJob::Base.queue_adapter = ActiveJob::QueueAdapters::TestAdapter.new
  end

  def work(job)
    ActiveJob::Base.execute(job)
  end

  def test_a_job_that_is_enqueued_is_not_enqueued_again
    in_threads
    assert_kind_of Report, Report.perform_later(7, name: "first")
    assert_equal ["first", ["report:7"]], TOLD.pop
    refute Report.perform_later(7)
    assert Report.perform_later(8, name: "other")
    assert_equal ["other", ["report:8"]], TOLD.pop
    Job::OPEN.merge!("first" => true, "other" => true, "report" => true)
    assert(eventually { !@locks.locked?("report:7", "report:8") })
    assert Report.perform_later(7)
    assert_equal "report", TOLD.pop.first
  end

  def test_a_job_that_waits_in_the_queue_is_locked
    queue = queued.enqueued_jobs
    assert Report.perform_later(7)
    refute Report.set(wait: 60).perform_later(7)
    assert Report.set(wait: 10_000).perform_later(8)
    assert_in_delta 13_600, @locks.status("report:8").first.left, 60
    assert_equal 2, queue.size
    Job::OPEN["report"] = true
    queue.each { |job| work(job) }
    assert_equal 2, TOLD.size
  end

  def test_a_later_job_replaces_one_that_waits_in_the_queue
    queue = queued.enqueued_jobs
    assert Newest.perform_later(7, name: "first")
    assert Newest.perform_later(7, name: "second")
    Job::OPEN["second"] = true
    queue.each { |job| work(job) }
    assert_equal [["second", ["newest:7"]]], Array.new(TOLD.size) { TOLD.pop }
  end

  def test_a_job_that_runs_is_not_replaced
    in_threads
    Newest.perform_later(7, name: "first")
    TOLD.pop
    assert_raises(Pinyon::LockTimeout) { Newest.perform_later(7, name: "second") }
    Job::OPEN["first"] = true
  end

  def test_jobs_that_run_alone_wait_in_the_queue
    in_threads
    Job::OPEN["second"] = true
    Alone.perform_later(7, name: "first")
    assert_equal "first", TOLD.pop.first
    assert Alone.perform_later(7, name: "second")
    sleep 0.3
    assert_empty TOLD
    Job::OPEN["first"] = true
    assert_equal "second", TOLD.pop.first
  end

  def test_a_second_job_does_not_run_beside_the_first
    in_threads
    Single.perform_later(7, name: "first")
    TOLD.pop
    assert_nil Single.perform_now(7, name: "second")
    assert_empty TOLD
    Job::OPEN["first"] = true
    Job::OPEN["second"] = true
    assert(eventually { !@locks.locked?("single:7") })
    assert_equal 7, Single.perform_now(7, name: "second")
  end

  def test_a_retry_keeps_the_lock
    in_threads
    assert Again.perform_later(1)
    assert_equal 1, TOLD.pop
    10.times do
      assert @locks.locked?("again:1")
      refute Again.perform_later(1)
      sleep 0.01
    end
    assert_equal 2, TOLD.pop
  end

  def test_jobs_that_fail_release
    ActiveJob::Base.queue_adapter = :inline
    Again.perform_later(2)
    refute @locks.locked?("again:2")
    assert_raises(ArgumentError) { Again.perform_later(3) }
    refute @locks.locked?("again:3")
    assert_equal [1, 1], Array.new(TOLD.size) { TOLD.pop }
  end

  def test_a_job_that_could_not_be_enqueued_is_not_locked
    failing = ActiveJob::QueueAdapters::TestAdapter.new
    failing.define_singleton_method(:enqueue) { |_job| raise IOError }
    ActiveJob::Base.queue_adapter = failing
    assert_raises(IOError) { Report.perform_later(7) }
    refute @locks.locked?("report:7")
  end

  def test_while_the_server_of_locks_is_away_a_job_waits_in_the_queue
    queue = queued.enqueued_jobs
    away = closing(Pinyon::Locks.new("redis://127.0.0.1:1", timeout: 0.1, command_timeout: 0.1))
    Report.unique_by.instance_variable_set(:@locks, away)
    work(Report.new(7).serialize)
    assert_equal 1, queue.size
    assert_empty TOLD
    assert_raises(Pinyon::ConnectError) { Report.perform_later(7) }
  end

  def test_what_makes_no_sense_is_refused
    error = assert_raises(Pinyon::UsageError) do
      Class.new(Job) do
        unique "report:{other}", locks: Job::LOCKS
        def perform(number) = number
      end
    end
    assert_match(/no argument of .*perform fills "other"/, error.message)
    assert_raises(Pinyon::UsageError) { Class.new(Job) { unique locks: Job::LOCKS } }
    assert_raises(Pinyon::UsageError) { Class.new(Job) { unique "a", locks: Job::LOCKS, wen: :running } }
    assert_raises(Pinyon::UsageError) { Class.new(Job) { unique "a:job:{number}", locks: Job::LOCKS } }
    assert_raises(Pinyon::UsageError) { Class.new { include Pinyon::Unique } }
    assert_equal "report:7", Report.unique_name(7)
    assert_equal "newest:7", Class.new(Newest).unique_name(7, name: "x")
  end
end
