# frozen_string_literal: true

require "async"
require "pinyon/eventmachine"

# A Fiber::Scheduler by select alone. It resumes what was unblocked whether or not it is still parked.
class PlainScheduler
  # Raised by {#with_timeout}.
  class Expired < StandardError; end

  Timer = Struct.new(:at, :action)

  # How often a fiber waited for a descriptor.
  attr_reader :waits

  def initialize
    @readable = {}.compare_by_identity
    @timers = []
    @unblocked = Queue.new
    @blocked = 0
    @held = {}.compare_by_identity
    @bell, @ring = IO.pipe
    @waits = 0
  end

  def close
    turn until @readable.empty? && @timers.empty? && @unblocked.empty? && @blocked.zero?
    [@bell, @ring].each(&:close)
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  # Holds the fibers that wait for Ruby's own locks. The others must be held by what they wait for.
  def block(blocker, timeout = nil)
    fiber = Fiber.current
    @blocked += 1
    @held[fiber] = true unless blocker.is_a?(IO)
    within(timeout, -> { fiber.resume(false) }) { Fiber.yield }
  ensure
    @blocked -= 1
    @held.delete(fiber)
  end

  def unblock(_blocker, fiber)
    @unblocked << fiber
    @ring.write_nonblock(".", exception: false)
  end

  def io_wait(io, events, timeout = nil)
    raise NotImplementedError unless events == IO::READABLE

    @waits += 1
    fiber = Fiber.current
    @readable[fiber] = io
    within(timeout, -> { fiber.resume(false) }) { Fiber.yield }
  ensure
    @readable.delete(fiber)
  end

  def kernel_sleep(seconds = nil)
    block(nil, seconds)
  end

  def with_timeout(seconds, &block)
    fiber = Fiber.current
    within(seconds, -> { fiber.raise(Expired) }, &block)
  end

  private

  def turn
    wait
    Array.new(@unblocked.size) { @unblocked.pop }.each { |fiber| fiber.resume if fiber.alive? }
    @timers.select { |timer| timer.at <= now }.each { |timer| timer.action.call if @timers.delete(timer) }
  end

  def wait
    due = @timers.map(&:at).min
    left = due && [due - now, 0].max
    ready, = IO.select([@bell, *@readable.values.uniq], nil, nil, @unblocked.empty? ? left : 0)
    @bell.read_nonblock(4096, exception: false) if ready&.include?(@bell)
    @readable.to_a.each { |fiber, io| fiber.resume(IO::READABLE) if ready&.include?(io) }
  end

  def within(seconds, action)
    timer = Timer.new(now + seconds, action) if seconds
    @timers << timer if timer
    yield
  ensure
    @timers.delete_if { |each| each.equal?(timer) }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

# Ways to run fibers, in one vocabulary.
module Reactors
  # Raised in a fiber that is stopped.
  class Stopped < Exception; end # rubocop:disable Lint/InheritException

  # Fibers of {PlainScheduler}.
  module Plain
    EXPIRED = PlainScheduler::Expired

    module_function

    # Runs the block in a fiber, until all fibers have ended.
    def run
      Thread.new do
        Thread.current.report_on_exception = false
        Fiber.set_scheduler(PlainScheduler.new)
        result = nil
        Fiber.schedule { result = yield }
        Fiber.set_scheduler(nil)
        result
      end.value
    end

    def start(&block)
      Fiber.schedule do
        block.call
      rescue Stopped
        nil
      end
    end

    def stop(fiber)
      fiber.raise(Stopped) if fiber.alive?
    end

    def pause(seconds)
      sleep(seconds)
    end

    def with_timeout(seconds, &block)
      Fiber.scheduler.with_timeout(seconds, &block)
    end
  end

  # Tasks of the gem async.
  module Asynchronous
    EXPIRED = Async::TimeoutError

    module_function

    def run(&block)
      Thread.new do
        Thread.current.report_on_exception = false
        tasks = []
        Thread.current.thread_variable_set(:tasks, tasks)
        Async { [block.call] }.wait.tap { tasks.each(&:wait) }.first
      end.value
    end

    def start(&block)
      Async::Task.current.async { block.call && nil }.tap { |task| Thread.current.thread_variable_get(:tasks) << task }
    end

    def stop(task)
      task.stop
    end

    def pause(seconds)
      sleep(seconds)
    end

    def with_timeout(seconds, &block)
      Async::Task.current.with_timeout(seconds, &block)
    end
  end

  # Fibers in EventMachine.
  module EventMachine
    EXPIRED = PlainScheduler::Expired

    module_function

    # A thread runs EventMachine's only reactor. It ends with its last fiber.
    def run(&block)
      result = nil
      Thread.new do
        Thread.current.report_on_exception = false
        @running = 0
        EM.run { start { result = block.call } }
      end.join
      result
    end

    def start
      @running += 1
      Fiber.new do
        yield
      rescue Stopped
        nil
      ensure
        EM.stop if (@running -= 1).zero?
      end.tap(&:resume)
    end

    def stop(fiber)
      fiber.raise(Stopped) if fiber.alive?
    end

    def pause(seconds)
      fiber = Fiber.current
      timer = EM.add_timer(seconds) { fiber.resume }
      Fiber.yield
    ensure
      EM.cancel_timer(timer)
    end

    def with_timeout(seconds)
      fiber = Fiber.current
      timer = EM.add_timer(seconds) { fiber.raise(EXPIRED) }
      yield
    ensure
      EM.cancel_timer(timer) if timer
    end
  end

  ALL = { plain: Plain, async: Asynchronous, eventmachine: EventMachine }.freeze

  # For classes of tests.
  module Tests
    def self.included(tests)
      tests.extend(Table)
    end

    # What their bodies may use.
    module Table
      # Defines a test for each reactor.
      def in_every_reactor(name, &block)
        ALL.each do |kind, reactor|
          define_method("test_#{name}_#{kind}") { instance_exec(reactor, &block) }
        end
      end
    end

    # Runs the block for each reactor at the same time, for tests that mostly wait.
    def in_all_reactors(&block)
      ALL.each_value.map { |reactor| Thread.new { block.call(reactor) } }.each(&:join)
    end

    # Runs the block in so many fibers. Returns the block's values when all have ended.
    def in_fibers(reactor, number)
      values = []
      reactor.run { number.times { |index| reactor.start { values[index] = yield(index) } } }
      assert(eventually { values.compact.size == number })
      values
    end

    # Whether the block comes true in time, while the other fibers run.
    def eventually_in(reactor)
      give_up = now + Support::GENEROUS
      until (outcome = yield)
        return false if now > give_up

        reactor.pause(0.005)
      end
      outcome
    end
  end
end
