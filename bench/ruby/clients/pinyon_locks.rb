# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../../../ruby/lib", __dir__))
require "pinyon"
require "pinyon/eventmachine" if defined?(EventMachine)

module PinyonBench
  # Pinyon's locks, by scripts.
  class PinyonLocks
    # Of the keys of locks.
    NAMESPACE = "bench"
    # For which a worker waits for its lock.
    TIMEOUT_SECONDS = 60

    # Connected locks, whose locks live so many seconds.
    class Calls
      def initialize(server, ttl)
        @locks = Pinyon::Locks.new("redis://#{server}/0", namespace: NAMESPACE)
        @ttl = ttl
      end

      # Holds a lock of some names for a block.
      def lock(names, &block)
        @locks.synchronize(*names, ttl: @ttl, timeout: TIMEOUT_SECONDS, &block)
      end

      # Sends any command and returns its reply.
      def execute(*parts)
        @locks.execute(*parts)
      end
    end

    def initialize(model)
      @model = model
    end

    # The versions of the client and of what it runs on.
    def version
      "#{Pinyon::VERSION}, #{@model.version}"
    end

    def configuration
      "Locks, handler: \"script\", otherwise defaults (one connection)"
    end

    # Returns the calls of new locks.
    def connect_locks(server, ttl)
      Calls.new(server, ttl)
    end
  end

  # The client of this process.
  CLIENT = PinyonLocks
end
