# frozen_string_literal: true

# The clock around a contestant's work.
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
end
