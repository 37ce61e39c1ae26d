# frozen_string_literal: true

require_relative "calls"

module PinyonBench
  # What the workers of a cell share: how many cycles they have done, and when each was inside.
  class Tally
    # How long each acquisition took.
    attr_reader :seconds
    # The number of cycles.
    attr_reader :count

    def initialize
      @seconds = []
      @count = 0
      @inside = []
      @mutex = Mutex.new
    end

    # Records a cycle and how long its lock took to acquire.
    def add(seconds)
      @seconds << seconds
      @count += 1
    end

    # Records when a worker was inside.
    def note(entered, left)
      @mutex.synchronize { @inside << [entered, left] }
    end

    # Raises WrongResult if two workers were inside at the same time.
    def require_alone
      overlap = @inside.sort.each_cons(2).any? { |(_, left), (entered, _)| entered < left }
      raise WrongResult, "two workers were inside at once" if overlap
    end

    # Raises WrongResult if the number of cycles is wrong.
    def require_count(count)
      raise WrongResult, "the counter is #{@count} instead of #{count}" unless @count == count
    end
  end
end
