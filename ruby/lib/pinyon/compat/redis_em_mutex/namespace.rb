# frozen_string_literal: true

module Pinyon
  module Compat
    class RedisEMMutex
      # Makes mutexes in one namespace.
      class NS
        # @return [String]
        attr_reader :ns
        alias namespace ns

        # @param namespace [String]
        # @param options [Hash] +block+ and +expire+, in seconds
        def initialize(namespace, **options)
          @ns = namespace
          @options = options
        end

        # @return [RedisEMMutex]
        def new(*names, **options)
          RedisEMMutex.new(*names, **@options, **options, ns:)
        end

        # @return [RedisEMMutex, nil]
        # @see RedisEMMutex.lock
        def lock(*names, **options)
          RedisEMMutex.lock(*names, **@options, **options, ns:)
        end

        # @return [Object] the block's value
        # @see RedisEMMutex.synchronize
        def synchronize(*names, **options, &block)
          RedisEMMutex.synchronize(*names, **@options, **options, ns:, &block)
        end
      end
    end
  end
end
