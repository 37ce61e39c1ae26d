# frozen_string_literal: true

require "eventmachine"

module PinyonBench
  # Fibers of EventMachine, in one reactor that lives as long as the process.
  module Fibers
    module_function

    # The versions of what it runs on.
    def version
      "Ruby #{RUBY_VERSION}, EventMachine #{EM::VERSION}"
    end

    # Runs the block in a fiber.
    def run
      EM.run do
        Fiber.new do
          yield
          EM.stop
        end.resume
      end
    end

    # Runs all works at once, each in a fiber. Returns their values; raises the first error.
    def together(works)
      waiting = Fiber.current
      left = works.length
      error = nil
      results = []
      works.each_with_index do |work, number|
        Fiber.new do
          results[number] = work.call
        rescue StandardError => e
          error ||= e
        ensure
          left -= 1
          EM.next_tick { waiting.resume } if left.zero?
        end.resume
      end
      Fiber.yield unless works.empty?
      raise error if error

      results
    end

    # Lets the others run for so long.
    def pause(seconds)
      fiber = Fiber.current
      EM.add_timer(seconds) { fiber.resume }
      Fiber.yield
    end
  end

  # The concurrency model of this process.
  MODEL = Fibers
end
