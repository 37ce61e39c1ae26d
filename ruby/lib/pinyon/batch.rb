# frozen_string_literal: true

module Pinyon
  # Commands that are sent without waiting for each reply. {Client#quiet} yields one. Their outcomes are known at the
  # end of its block.
  class Batch
    # @api private
    def initialize(native)
      @native = native
    end

    # Store a value, like {Client#set}.
    #
    # @return [nil]
    def set(key, value, ttl: nil)
      @native.store(:set, key, value, ttl)
    end

    # Store a value unless the key has one. That it has one is a failure.
    #
    # @return [nil]
    def add(key, value, ttl: nil)
      @native.store(:add, key, value, ttl)
    end

    # Store a value if the key has one. That it has none is a failure.
    #
    # @return [nil]
    def replace(key, value, ttl: nil)
      @native.store(:replace, key, value, ttl)
    end

    # Add bytes to the end of a value. That there is none is a failure.
    #
    # @return [nil]
    def append(key, value)
      @native.store(:append, key, value, 0)
    end

    # Add bytes to the beginning of a value. That there is none is a failure.
    #
    # @return [nil]
    def prepend(key, value)
      @native.store(:prepend, key, value, 0)
    end

    # Delete an item, like {Client#delete}. That there is none is a failure.
    #
    # @return [nil]
    def delete(key, stale: nil)
      stale ? @native.mark_stale(key, stale) : @native.delete(key)
    end

    # Add to an integer. That there is none is a failure.
    #
    # @return [nil]
    def incr(key, delta = 1)
      @native.calculate(true, key, delta)
    end

    # Subtract from an integer. That there is none is a failure.
    #
    # @return [nil]
    def decr(key, delta = 1)
      @native.calculate(false, key, delta)
    end
  end
end
