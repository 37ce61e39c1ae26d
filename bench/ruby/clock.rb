# frozen_string_literal: true

# The clock around a contestant's work, and what single calls took.
module PinyonBench
  module_function

  # Returns a time in seconds; only differences have a meaning.
  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # Returns the seconds that the block takes, by the clock and of this process's processor time, and the block's value.
  #
  # Garbage is collected before. It is also collected within: Ruby frees memory in no other way.
  def timed
    GC.start
    before = Process.times
    start = now
    result = yield
    wall = now - start
    after = Process.times
    [{ wall:, user: after.utime - before.utime, system: after.stime - before.stime }, result]
  end

  # Returns mean, median, 99th percentile and maximum of single calls; nil without any.
  def latency_of(seconds)
    return if seconds.empty?

    ordered = seconds.sort
    count = ordered.length
    {
      mean: ordered.sum / count,
      median: ordered[(count - 1) / 2],
      p99: ordered[(count * 0.99).ceil - 1],
      longest: ordered.last
    }
  end
end
