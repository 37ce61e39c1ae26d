# frozen_string_literal: true

require_relative "calls"
require_relative "clock"
require_relative "tally"

module PinyonBench
  # Verifies and times a lock library on rows of locks. Keeps its client between requests.
  class Locks
    # Of the choices of names.
    DRAWS_SEED = 19
    # The i-th worker of the second test sleeps i steps, plus the shortest sleep.
    DELAY_STEP = 1e-5
    SHORTEST_DELAY = 1e-3
    LARGEST_VALUE = 10**18
    # How long a worker stays inside during verification: long enough for another to come in, if it could.
    INSIDE_SECONDS = 1e-4
    # The key of the second test.
    VALUE_KEY = "__TEST__"

    def initialize(client, model)
      @client = client
      @model = model
      @connected = {}
    end

    # Does the row's cycles. Raises WrongResult if two workers were inside at once.
    def verify(row)
      return run(row, Tally.new) if row[:workload] == "section"

      tally = Tally.new
      calls = calls_for(row)
      draws = draws_of(row, row[:count])
      start = PinyonBench.now
      @model.together(Array.new(row[:workers]) { -> { checked(calls, draws, tally) } })
      tally.require_alone
      tally.require_count(row[:count])
      { wall: PinyonBench.now - start, cycles: tally.count }
    end

    # Times the row's cycles, after those that warm up.
    def time(row)
      @model.together(works({ **row, count: row[:warmup] }, Tally.new)) if row[:warmup].positive?
      run(row, Tally.new)
    end

    private

    def calls_for(row)
      raise CannotDo, "no locks" unless @client.respond_to?(:connect_locks)

      @connected[row[:server]] ||= @client.connect_locks(row[:server], row[:ttl])
    end

    def run(row, tally)
      work = works(row, tally)
      timing, = PinyonBench.timed { @model.together(work) }
      tally.require_alone
      tally.require_count(row[:count]) if row[:count].positive?
      { **timing, cycles: tally.count, latency: PinyonBench.latency_of(tally.seconds) }
    end

    # Returns each worker's work.
    def works(row, tally)
      calls = calls_for(row)
      case row[:workload]
      when "pair", "mutex"
        draws = draws_of(row, row[:count])
        Array.new(row[:workers]) { -> { cycle(calls, draws, tally) } }
      when "section"
        limit = PinyonBench.now + row[:seconds]
        delays_of(row[:workers]).map { |delay| -> { write(calls, row, delay, limit, tally) } }
      else raise CannotDo, "no workload #{row[:workload].inspect}"
      end
    end

    # Returns the names of each cycle, random but the same every time. Workers take them from it.
    def draws_of(row, count)
      source = Random.new(DRAWS_SEED)
      Array.new(count) { row[:names].sample(row[:keys], random: source) }
    end

    def delays_of(workers)
      (1..workers).map { |number| (number * DELAY_STEP) + SHORTEST_DELAY }.shuffle(random: Random.new(DRAWS_SEED))
    end

    # Locks, counts, unlocks. Reads the clock before each lock and within.
    def cycle(calls, draws, tally)
      while (names = draws.pop)
        start = PinyonBench.now
        calls.lock(names) { tally.add(PinyonBench.now - start) }
      end
    end

    # The same, and stays inside for a while, so that others have time to enter.
    def checked(calls, draws, tally)
      while (names = draws.pop)
        start = PinyonBench.now
        calls.lock(names) do
          entered = PinyonBench.now
          tally.add(entered - start)
          @model.pause(INSIDE_SECONDS)
          tally.note(entered, PinyonBench.now)
        end
      end
    end

    # The seed's second test: sleeps, locks, writes, increases, reads, deletes and unlocks, until the time is up.
    def write(calls, row, delay, limit, tally)
      source = Random.new((delay / DELAY_STEP).round)
      while PinyonBench.now < limit
        names = row[:names].sample(row[:keys], random: source)
        @model.pause(delay)
        start = PinyonBench.now
        calls.lock(names) do
          entered = PinyonBench.now
          tally.add(entered - start)
          change(calls, source.rand(LARGEST_VALUE))
          tally.note(entered, PinyonBench.now)
        end
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
