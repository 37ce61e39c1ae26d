# frozen_string_literal: true

require_relative "calls"
require_relative "clock"

module PinyonBench
  # Does rows of locks. Keeps its client between requests.
  class Locks
    # How long a worker stays inside during verification: long enough for another to come in, if it could.
    INSIDE_SECONDS = 1e-4
    # The key of the second test, whose values have so many digits.
    VALUE_KEY = "__TEST__"
    LARGE = 10**14

    # What the workers of a row share: how long single calls took, and when each was inside.
    Tally = Struct.new(:seconds, :inside)

    def initialize(client, model)
      @client = client
      @model = model
      @connected = {}
    end

    # Times the row's cycles, after those that warm up.
    def play(row)
      @model.together(works({ **row, count: row[:warmup] }, Tally.new([], []))) if row[:warmup].positive?
      tally = Tally.new([], [])
      work = works(row, tally)
      timing, = PinyonBench.timed { @model.together(work) }
      { **timing, cycles: tally.seconds.length, **tally.to_h }
    end

    private

    def calls_for(row)
      raise CannotDo, "no locks" unless @client.respond_to?(:connect_locks)

      @connected[row[:server]] ||= @client.connect_locks(row[:server], row[:ttl])
    end

    # Returns each worker's work.
    def works(row, tally)
      calls = calls_for(row)
      draws = row[:draws].map { |places| row[:names].values_at(*places) }
      case row[:workload]
      when "pair", "mutex"
        left = draws.first(row[:count])
        Array.new(row[:workers]) { -> { row[:check] ? checked(calls, left, tally) : cycle(calls, left, tally) } }
      when "section"
        limit = PinyonBench.now + row[:seconds]
        row[:delays].map.with_index { |delay, number| -> { write(calls, draws.rotate(number), delay, limit, tally) } }
      else raise CannotDo, "no workload #{row[:workload].inspect}"
      end
    end

    # Locks, counts, unlocks. Reads the clock before each lock and within.
    def cycle(calls, draws, tally)
      while (names = draws.pop)
        start = PinyonBench.now
        calls.lock(names) { tally.seconds << (PinyonBench.now - start) }
      end
    end

    # The same, and stays inside for a while, so that others have time to enter.
    def checked(calls, draws, tally)
      while (names = draws.pop)
        within(calls, names, tally) { @model.pause(INSIDE_SECONDS) }
      end
    end

    # The seed's second test: sleeps, locks, writes, increases, reads, deletes and unlocks, until the time is up.
    def write(calls, draws, delay, limit, tally)
      draws.cycle do |names|
        break if PinyonBench.now >= limit

        @model.pause(delay)
        within(calls, names, tally) { change(calls, tally.seconds.length * LARGE) }
      end
    end

    def within(calls, names, tally)
      start = PinyonBench.now
      calls.lock(names) do
        entered = PinyonBench.now
        tally.seconds << (entered - start)
        yield
        tally.inside << [entered, PinyonBench.now]
      end
    end

    def change(calls, value)
      calls.execute("SET", VALUE_KEY, value.to_s)
      calls.execute("INCR", VALUE_KEY)
      WrongResult.unless_equal("GET", VALUE_KEY, calls.execute("GET", VALUE_KEY).to_i, value + 1)
      calls.execute("DEL", VALUE_KEY)
    end
  end
end
