# frozen_string_literal: true

require_relative "calls"
require_relative "clock"

module PinyonBench
  # Does rows of pairs, by threads or fibers that share one client. Keeps the client of each
  # server between requests.
  class Pairs
    def initialize(client, model)
      @client = client
      @model = model
      @connected = {}
    end

    # Times all pairs, then some of them once more with a clock around each call.
    def play(row)
      calls = calls_for(row)
      items = items_of(row)
      operation = row[:operation]
      run(calls, operation, items.first(row[:warmup]), row)
      work = items * row[:passes]
      timing, = PinyonBench.timed { run(calls, operation, work, row) }
      seconds = []
      run(calls, operation, items.first(row[:clocked]), row, seconds)
      { **timing, seconds: }
    end

    private

    def calls_for(row)
      @connected[row[:server]] ||= @client.connect([row[:server]], "bytes")
    end

    def items_of(row)
      values = Hash.new { |found, text| found[text] = text && PinyonBench.value_of({ **row, kind: "bytes" }, text) }
      row[:pairs].map { |key, text| [key, values[text]] }
    end

    def run(calls, operation, items, row, seconds = nil)
      function = calls[operation]
      parts = parts_of(items, row)
      works = parts.map do |part|
        if seconds then -> { clock_each(function, operation, part, seconds) }
        elsif operation == "set" then -> { set_each(function, part) }
        else
          -> { get_each(function, part) }
        end
      end
      works.length == 1 && row[:concurrency].zero? ? works.first.call : @model.together(works)
    end

    # Returns what each thread or fiber does: its own chunk of the items.
    def parts_of(items, row)
      raise CannotDo, "no order #{row[:order].inspect}" unless row[:order] == "chunks"
      return [items] if row[:concurrency].zero?

      items.each_slice([1, (items.length / row[:concurrency].to_f).ceil].max).to_a
    end

    def set_each(function, items)
      items.each do |key, value|
        raise WrongResult, "set #{key} did not store" unless function.call(key, value)
      end
    end

    def get_each(function, items)
      items.each do |key, wanted|
        reply = function.call(key)
        WrongResult.unless_equal("get", key, reply, wanted) unless reply == wanted
      end
    end

    def clock_each(function, operation, items, seconds)
      items.each do |key, value|
        start = PinyonBench.now
        reply = operation == "set" ? function.call(key, value) : function.call(key)
        seconds << (PinyonBench.now - start)
        WrongResult.unless_equal(operation, key, operation == "set" ? !!reply : reply, operation == "set" || value)
      end
    end
  end
end
