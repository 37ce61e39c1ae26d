# frozen_string_literal: true

require "benchmark"
require "pinyon/compat/redis_em_mutex"

# The two tests of redis-em-mutex's BENCHMARK.md, in fibers of EventMachine:
#
#   ruby -I ruby/lib ruby/test/redis_em_mutex_cycles.rb redis://127.0.0.1:6379/0
class RedisEMMutexCycles
  Mutex = Pinyon::Compat::RedisEMMutex
  # So many keys of so many are locked at a time.
  KEYS = [[1, 1], [2, 3], [3, 5], [5, 9], [10, 19]].freeze

  # @return [Integer] how many fibers were found to hold the same key
  attr_reader :overlaps

  def initialize(url)
    Mutex.setup(url:, expire: 60, ns: "cycles")
    @held = Hash.new(0)
    @overlaps = 0
  end

  # Test 1: locks and unlocks so many times, in 10 fibers. Returns the number of cycles.
  def lock_and_unlock(count, keys, of)
    left = count
    done = 0
    in_fibers(10) do
      while (left -= 1) >= 0
        cycle(keys, of) { done += 1 }
      end
    end
    done
  end

  # Test 2: for so many seconds, 100 fibers sleep, lock, write, increase, read and delete a value, and unlock. Returns
  # the number of cycles.
  def work(seconds, keys, of)
    done = 0
    over = false
    in_fibers(100, -> { EM.add_timer(seconds) { over = true } }) do |number|
      until over
        pause(0.001 * (number % 10))
        cycle(keys, of) { done += 1 if written(number) == number + 1 }
      end
    end
    done
  end

  def print_all(count: 1000, seconds: 5)
    puts "lock/unlock #{count} times with concurrency: 10"
    KEYS.each { |keys, of| row(keys, of) { lock_and_unlock(count, keys, of) } }
    puts "lock/write/incr/read/del/unlock in #{seconds} seconds + cooldown period:"
    KEYS.each { |keys, of| row(keys, of) { work(seconds, keys, of) } }
  end

  private

  def row(keys, of)
    done = nil
    times = Benchmark.measure { done = yield }
    puts "keys: #{keys}/#{of} #{done} #{times.format.chomp} cycles/s: #{(done / times.real).round}"
  end

  def cycle(keys, of)
    names = (1..of).to_a.sample(keys)
    Mutex.synchronize(*names) do
      names.each { |name| @overlaps += 1 if (@held[name] += 1) > 1 }
      yield
      names.each { |name| @held[name] -= 1 }
    end
  end

  def written(number)
    key = "cycles:value:#{number}"
    locks = Mutex.locks
    locks.execute("SET", key, number)
    locks.execute("INCR", key)
    locks.execute("GET", key).to_i.tap { locks.execute("DEL", key) }
  end

  def pause(seconds)
    fiber = Fiber.current
    EM.add_timer(seconds) { fiber.resume }
    Fiber.yield
  end

  def in_fibers(number, start = -> {})
    failed = nil
    EM.run do
      start.call
      left = number
      number.times do |index|
        Fiber.new do
          yield index
        rescue StandardError => e
          failed = e
        ensure
          EM.stop if (left -= 1).zero?
        end.resume
      end
    end
    raise failed if failed
  end
end

RedisEMMutexCycles.new(ARGV.first || "redis://127.0.0.1:6379/0").print_all if $PROGRAM_NAME == __FILE__
