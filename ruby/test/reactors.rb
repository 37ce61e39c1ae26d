# frozen_string_literal: true

require "async"
require "pinyon/eventmachine"
require_relative "plain_scheduler"

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
