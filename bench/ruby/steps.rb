# frozen_string_literal: true

require_relative "calls"
require_relative "clock"

module PinyonBench
  # Does rows of steps.
  class Steps
    def initialize(client)
      @client = client
    end

    # Does the row's phases on a new client: times them, or returns every reply.
    def play(row)
      return { replies: replies(row) } if row[:check]

      row[:connect] == "inside" ? time_with_connect(row) : time_warm(row)
    end

    private

    def connected(row)
      calls = @client.connect(row[:servers], row[:kind])
      yield calls
    ensure
      calls&.close&.call
    end

    def within_batch(calls, row, &block)
      return yield calls unless row[:quiet]
      raise CannotDo, "no quiet mode" unless calls.quietly

      calls.quietly.call(&block)
    end

    def replies(row)
      found = []
      connected(row) do |client|
        within_batch(client, row) do |calls|
          row[:phases].each { |phase| phase[:iterations].times { found.concat(calls.replies(phase[:steps], row)) } }
        end
      end
      found
    end

    def time_with_connect(row)
      timing, = PinyonBench.timed do
        connected(row) do |client|
          within_batch(client, row) do |calls|
            row[:phases].each { |phase| repeat(calls.bind(phase[:steps], row), phase[:iterations]) }
          end
        end
      end
      timing
    end

    def time_warm(row)
      connected(row) do |calls|
        work = row[:phases].map { |phase| [calls.bind(phase[:steps], row), phase[:iterations]] }
        work.each { |steps, _| repeat(steps, row[:warmup]) }
        timing, = PinyonBench.timed { work.each { |steps, iterations| repeat(steps, iterations) } }
        timing
      end
    end

    def repeat(steps, times)
      return repeat_one(*steps.first, times) if steps.length == 1

      times.times { steps.each { |function, arguments| function.call(*arguments) } }
    end

    def repeat_one(function, arguments, times)
      times.times { function.call(*arguments) }
    end
  end
end
