# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      # What {Client#get_with_metadata} found, with methods in place of a Hash.
      class CacheResult
        # @return [Object, nil] the value; nil if there is none
        attr_reader :value

        # @return [Integer] its CAS token
        attr_reader :cas

        # @return [Boolean, nil] whether it was read before; nil if that was not asked for
        attr_reader :hit_before

        # @return [Integer, nil] seconds since it was last read; nil if that was not asked for
        attr_reader :last_access

        # @return [Integer, nil] seconds until it expires, -1 for never; nil if that was not asked for
        attr_reader :ttl_remaining

        # @param found [Hash] what {Client#get_with_metadata} returned
        def initialize(found)
          @found = found
          @value, @cas = found.values_at(:value, :cas)
          @hit_before, @last_access, @ttl_remaining = found.values_at(:hit_before, :last_access, :ttl_remaining)
          freeze
        end

        # Whether there is no such item.
        def miss? = @found.fetch(:miss, false)

        # Whether there is such an item.
        def hit? = !miss?

        # Whether the item was marked stale and not yet replaced.
        def stale? = @found.fetch(:stale, false)

        # Whether the caller is to make a new value.
        def won_recache? = @found.fetch(:won_recache, false)

        # Whether another caller is making a new value.
        def lost_recache? = @found.fetch(:lost_recache, false)
      end
    end
  end
end
