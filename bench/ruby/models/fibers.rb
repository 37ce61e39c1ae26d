# frozen_string_literal: true

module PinyonBench
  # A Fiber::Scheduler that is as small as one can be, so that what is counted is the client. It has no timers, and
  # waits only until descriptors are readable.
  class SmallScheduler
    def initialize
      @unblocked = []
      @readable = {}.compare_by_identity
    end

    # The hooks that Ruby calls.

    def fiber(&block)
      Fiber.new(blocking: false, &block).tap(&:resume)
    end

    def block(_blocker, _timeout = nil)
      Fiber.yield
    end

    def unblock(_blocker, fiber)
      @unblocked << fiber
    end

    def io_wait(io, _events, _timeout = nil)
      @readable[io] = Fiber.current
      Fiber.yield
    end

    def kernel_sleep(*)
      raise NotImplementedError, "a scheduler without timers cannot sleep"
    end

    def close; end

    # Runs the fibers until none waits.
    def turn_until_idle
      until @unblocked.empty? && @readable.empty?
        turn until @unblocked.empty?
        next if @readable.empty?

        ready, = IO.select(@readable.keys)
        ready.each { |io| @readable.delete(io).resume(IO::READABLE) }
      end
    end

    private

    def turn
      fibers = @unblocked
      @unblocked = []
      fibers.each(&:resume)
    end
  end

  # The fibers of one {SmallScheduler}.
  module Fibers
    SCHEDULER = SmallScheduler.new

    module_function

    # Runs the block.
    def run
      Fiber.set_scheduler(SCHEDULER)
      yield
    end

    # Runs all works at once, each in a fiber.
    def together(works)
      works.each { |work| Fiber.schedule(&work) }
      SCHEDULER.turn_until_idle
    end
  end

  # The concurrency model of this process.
  MODEL = Fibers
end
