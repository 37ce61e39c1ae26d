# frozen_string_literal: true

module Pinyon
  # A lock that was acquired. {Locks#synchronize}, {Locks#lock} and {Locks#try_lock} make them.
  #
  # A lock is renewed as long as its process lives and something refers to it.
  class Held
    # @return [Array<String, Symbol>] the names that it writes or reads, as they were asked for
    attr_reader :names

    # @api private
    attr_reader :native

    # @api private
    def initialize(names, native)
      @names = names
      @native = native
      @callbacks = []
      @mutex = Mutex.new
    end

    # The fencing token: a number that is higher than that of any earlier lock on any of the names.
    #
    # A process that was stopped for longer than the ttl does not know that it has lost the lock. So storage that is
    # written under the lock should refuse writers with a lower token.
    #
    # @return [Integer]
    def token
      @native.token
    end

    # The token as 16 hexadecimal digits, which sort like the numbers.
    #
    # @return [String]
    def token_bytes
      format("%016x", token)
    end

    # What its holder says about it, for people who look who holds it.
    #
    # @return [String, nil]
    def note
      @native.note
    end

    # Whether it is held, as far as this process knows.
    def held?
      !@native.remaining.nil?
    end

    # Whether it ended before it was released.
    def lost?
      !held? && !@native.given_back?
    end

    # How long it remains held if nothing renews it.
    #
    # @return [Float] seconds; 0.0 if it is not held
    def remaining
      @native.remaining || 0.0
    end

    # Raise an error unless it is held still.
    #
    # @return [self]
    # @raise [LockLost]
    def check!
      @native.check
      self
    end

    # Release it. Releasing it twice does nothing.
    #
    # @return [Boolean] whether it was held until then
    def release
      @native.release
    end

    # Hand it over to another process, in any language. It is never free meanwhile.
    #
    # From then on it is not held here: it is neither renewed nor released, and a block that it was acquired for ends
    # quietly. If no process adopts it by {Locks#adopt}, it expires.
    #
    # @param ttl [Numeric, nil] seconds in which it must be adopted; nil for its own ttl
    # @return [String] the ticket, which works once; whoever has it can take the lock over
    # @raise [LockLost] it is not held
    # @raise [UsageError] it was acquired more than once, or is on a quorum of servers
    def hand_over(ttl = nil)
      @native.hand_over(ttl)
    end

    # Write names that it reads. Nobody else writes them in between.
    #
    # If nobody else reads them, this is granted at once. Otherwise it waits for the others, and those who come later
    # wait for it. It gets a new token, which is higher than all before.
    #
    # @param names [Array<String, Symbol>] names that it reads; none: all of them
    # @param timeout [Numeric, nil] seconds to wait for others that read them; nil for as long as the lock was to wait,
    #   and 0 does not wait
    # @return [self]
    # @raise [LockTimeout] others still read them; it reads them as before
    # @raise [Deadlock] another that reads them waits to write them, or for something else that is held here
    # @raise [LockLost] it is not held
    # @raise [UsageError] it does not read one of the names
    # @raise [Unsupported] it is on a quorum of servers
    def upgrade(*names, timeout: nil)
      @native.upgrade(names, timeout)
      self
    end

    # Read names that it writes. Nobody else writes them in between, and readers that wait go on. It keeps its token.
    #
    # @param names [Array<String, Symbol>] names that it writes; none: all of them
    # @return [self]
    # @raise [LockLost] it is not held
    # @raise [UsageError] it does not write one of the names
    # @raise [Unsupported] it has +at_least+, or is on a quorum of servers
    def downgrade(*names)
      @native.downgrade(names)
      self
    end

    # Extend it to +ttl+ seconds from now.
    #
    # @return [Boolean] whether it is held still
    def extend_to(ttl)
      @native.extend_to(ttl)
    end

    # Release the names until another holder notifies, then take them again: the wait of a condition variable.
    #
    # @param timeout [Numeric, nil] seconds to wait at most; nil waits for ever
    # @return [Boolean] whether it was notified
    # @raise [LockTimeout] the names could not be taken again in time
    def wait(timeout = nil)
      @native.park(timeout)
    end

    # Wait until the block is true. It is called while the names are held, and again after each notification.
    #
    # @param timeout [Numeric, nil] seconds to wait at most; nil waits for ever
    # @yieldreturn [Object] whether to continue
    # @return [Object] the block's last value; it is false or nil only if the time is over
    # @raise [LockTimeout] the names could not be taken again in time
    def wait_until(timeout = nil)
      ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + timeout if timeout
      until (given = yield)
        left = ends - Process.clock_gettime(Process::CLOCK_MONOTONIC) if ends
        break if left && left <= 0

        wait(left)
      end
      given
    end

    # Wake holders that {#wait} on the same names, the one that has waited longest first.
    #
    # @return [Integer] how many there were
    def notify(count = 1)
      raise UsageError, "notify wakes 1 or more, not #{count.inspect}; notify_all wakes all" unless count.positive?

      @native.notify(count)
    end

    # Wake all holders that {#wait} on the same names.
    #
    # @return [Integer] how many there were
    def notify_all
      @native.notify(0)
    end

    # Whether the lock has been held from its acquisition until now, or until its release. It is not if it was lost, or
    # if <tt>on_failure: :proceed</tt> let the work go on without it while the servers were away: then the work may not
    # have been alone. No server is asked.
    def certain?
      @native.certain?
    end

    # Call a block when the lock is lost, in a thread of Pinyon's own. It is called at once if it is lost already.
    #
    # @yieldparam held [Held]
    # @return [self]
    def on_lost(&callback)
      raise UsageError, "on_lost takes a block" unless callback

      known = @mutex.synchronize do
        @callbacks << callback
        @callbacks.size > 1 || Listening.to(self, @native)
      end
      lost! unless known
      self
    end

    # Calls the callbacks.
    #
    # @api private
    def lost!
      callbacks = @mutex.synchronize { @callbacks.slice!(0..) }
      callbacks.each { |callback| callback.call(self) }
    end

    # Ends the block that it was acquired for. An error of the block goes first. The first call releases it, whatever
    # interrupts the others.
    #
    # @api private
    def leave(failed)
      kept = @native.leave
      @native.lost_early if kept == false && !failed
    rescue Error
      raise unless failed
    end

    # Ends the block as {#leave} does. If it failed, the names do not stay locked for longer.
    #
    # @api private
    def leave_early(failed)
      return leave(false) unless failed

      begin
        @native.leave_early
      rescue Error
        nil # The block's own error goes first.
      end
    end

    # Releases it without waiting, because its caller does not get it.
    #
    # @api private
    def abandon
      @native.cancel
    end

    # The lock, with its names and token, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{"#{names.join(", ")} " if names.any?}token=#{token}#{" lost" if lost?}>"
    end
    alias to_s inspect
  end
end
