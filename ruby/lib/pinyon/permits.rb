# frozen_string_literal: true

module Pinyon
  # Permits of a pool, to be held while a block runs. {Locks#permits} makes them.
  #
  # Any number of threads and fibers can use the same object, each for permits of its own. What a dead holder had is
  # available again after its ttl.
  class Permits
    # @return [String, Symbol] the name of the pool
    attr_reader :pool

    # @return [Integer] how many permits there are, as this object was told
    attr_reader :limit

    # @return [Integer] how many of them {#synchronize} holds
    attr_reader :n

    # @api private
    def initialize(locks, native, pool, limit, count, terms)
      native.tell_limit(pool, count, limit)
      @locks = locks
      @native = native
      @pool = pool
      @limit = limit
      @n = count
      @terms = terms
    end

    # Hold the permits for a block.
    #
    # @yieldparam held [Held]
    # @return [Object] the block's value
    # @raise [LockTimeout] others held too many for all this time
    # @raise [LockLost] they were lost before the block ended
    def synchronize(&block)
      @locks.synchronize(permits: { @pool => [@n, @limit] }, **@terms, &block)
    end

    # How many permits nobody holds now. Who waits may take them first.
    #
    # @return [Integer]
    def available
      taken, limit = @native.permits_taken(@pool)
      taken ? [limit - taken, 0].max : @limit
    end

    # The permits, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{@pool} n=#{@n} limit=#{@limit}>"
    end
    alias to_s inspect
  end
end
