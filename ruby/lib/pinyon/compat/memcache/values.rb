# frozen_string_literal: true

module Pinyon
  module Compat
    # Values and times as both older clients store them. The cache does not tell what was marshalled: the caller does.
    #
    # @api private
    module MemcacheValues
      MOST_READ = 128 * 1024 * 1024
      THIRTY_DAYS = 30 * 24 * 60 * 60

      private

      def packed(value, marshalled, flags = 0)
        [marshalled ? Marshal.dump(value) : value.to_s, flags]
      end

      def unpacked(stored, marshalled)
        marshalled ? Marshal.load(stored.first) : stored.first # rubocop:disable Security/MarshalLoad
      end

      # memcached takes what is longer than 30 days for a Unix time.
      def seconds(ttl)
        ttl = ttl.to_i
        ttl > THIRTY_DAYS ? [ttl - Time.now.to_i, -1].max : ttl
      end
    end
    private_constant :MemcacheValues
  end
end
