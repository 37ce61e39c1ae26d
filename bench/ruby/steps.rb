# frozen_string_literal: true

require_relative "calls"
require_relative "clock"
require_relative "cache_model"

module PinyonBench
  # Verifies and times a client on rows of steps.
  class Steps
    def initialize(client)
      @client = client
    end

    # Runs the row once against a model of a cache, then reads everything back with a new client.
    def verify(row)
      model = CacheModel.new(row)
      connected(row) { |calls| check(model, calls, row[:prepare], row) }
      connected(row) do |client|
        within_batch(client, row) do |calls|
          row[:phases].each { |phase| phase[:iterations].times { check(model, calls, phase[:steps], row) } }
        end
      end
      connected(row) { |calls| read_back(model, calls, row) }
      {}
    end

    # Prepares the servers, then times the row's phases on a new client.
    def time(row)
      connected(row) { |calls| repeat(calls.bind(row[:prepare], row), 1) }
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

    def check(model, calls, steps, row)
      steps.zip(calls.bind(steps, row)) do |step, (function, arguments)|
        model.check(step, function.call(*arguments))
      end
    end

    def read_back(model, calls, row)
      steps = row[:phases].flat_map { |phase| phase[:steps] }
      counters = steps.filter_map { |step| step[1] if %w[incr decr].include?(step[0]) }
      model.items.each do |key, value|
        WrongResult.unless_equal("get", key, calls.get.call(key), value) unless counters.include?(key)
      end
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
