# frozen_string_literal: true

# A client for tests of Ruby's harness: its cache is a Hash that all clients of the process share. RUBY_HASH names what
# it does wrongly.
module PinyonBench
  # The client.
  class HashClient
    ITEMS = {} # rubocop:disable Style/MutableConstant

    # Locks that exclude each other. Those that are to fail keep each worker inside until there are two.
    class HashLocks
      def initialize(model, wrong)
        @model = model
        @wrong = wrong
        @mutex = Mutex.new
        @inside = 0
        locks = self
        model.define_singleton_method(:pause) { |_seconds| locks.meet } if wrong
      end

      # Waits for another worker.
      def meet
        @inside += 1
        sleep(0.001) until @inside > 1
      end

      # Holds the only lock there is.
      def lock(_names)
        return yield if @wrong

        @model.pause(0.001) until @mutex.try_lock
        begin
          yield
        ensure
          @mutex.unlock
        end
      end
    end

    def initialize(model)
      @model = model
      @wrong = ENV.fetch("RUBY_HASH", "")
    end

    def version
      "1, #{@model.version}"
    end

    def configuration
      "none"
    end

    def connect(_servers, _kind)
      Calls.new(
        get: ->(key) { @wrong == "get" ? "wrong" : ITEMS[key] },
        set: method(:store),
        close: -> {},
        get_many: ->(keys) { @wrong == "get_many" ? {} : ITEMS.slice(*keys) },
        delete: ->(key) { !ITEMS.delete(key).nil? }
      )
    end

    def connect_locks(_server, _ttl)
      HashLocks.new(@model, @wrong == "lock")
    end

    private

    def store(key, value)
      ITEMS[key] = value unless @wrong == "lost"
      @wrong != "set"
    end
  end

  CLIENT = HashClient
end
