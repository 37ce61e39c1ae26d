# frozen_string_literal: true

module Pinyon
  class Locks
    # How many permits a name gives in a time, counted on the server for all processes. {Locks#rate} makes one. It can
    # be used many times, and by many threads and fibers at once.
    class Rate
      # Whether a rate allows something, and when it does.
      #
      # @!attribute allowed [Boolean] whether the permits were given
      # @!attribute limit [Integer] how many permits the rate gives in its period
      # @!attribute remaining [Integer] how many permits it would give at once now
      # @!attribute retry_after [Float, nil] seconds until it gives as many as were asked for; nil if it gave them
      # @!attribute reset [Float] seconds until the whole burst is there again, if no permits are taken until then
      Result = Struct.new(:allowed, :limit, :remaining, :retry_after, :reset) do
        alias_method :allowed?, :allowed
      end

      # @return [String, Symbol]
      attr_reader :name
      # @return [Integer] how many permits it gives in +per+ seconds
      attr_reader :limit
      # @return [Numeric] seconds
      attr_reader :per

      # @api private
      def initialize(native, name, limit, per)
        @native = native
        @name = name
        @limit = limit
        @per = per
      end

      # How many permits it gives at once.
      #
      # @return [Integer]
      def burst
        @native.burst
      end

      # Take permits if they are there. It is one command, and never waits for permits. If the connection breaks
      # meanwhile, the permits may have been taken: nothing is repeated.
      #
      # @param count [Integer] how many, at most {#burst}; all of them are taken, or none
      # @return [Result] says when they are there, if they were not
      # @raise [UsageError] +count+ is more than {#burst}, so that the answer would never be yes
      def allow(count = 1)
        Result.new(*@native.allow(count)).freeze
      end

      # Whether there are permits; takes them.
      #
      # @param count [Integer]
      # @see #allow
      def allow?(count = 1)
        allow(count).allowed
      end

      # Wait for permits, first come, first served, and take them. They are reserved at once, with one command, and this
      # returns when their time has come. An interrupted wait has used its permits.
      #
      # @param count [Integer] how many, at most {#burst}
      # @param timeout [Numeric, nil] seconds to wait; 0 does not wait, +Float::INFINITY+ waits for ever; nil is the
      #   client's setting
      # @return [Result]
      # @raise [LockTimeout] the permits are not there in time; it is raised at once, and nothing is taken
      # @raise [UsageError] +count+ is more than {#burst}
      def wait(count = 1, timeout: nil)
        Result.new(*@native.wait(count, timeout)).freeze
      end

      # The rate, for people.
      #
      # @return [String]
      def inspect
        "#<#{self.class} #{name.inspect}: #{limit} per #{per} s, #{burst} at once>"
      end
      alias to_s inspect
    end
  end
end
