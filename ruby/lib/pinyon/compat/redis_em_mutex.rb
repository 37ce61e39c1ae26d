# frozen_string_literal: true

require "pinyon"
require "pinyon/compat/redis_em_mutex/setup"
require "pinyon/compat/redis_em_mutex/macro"
begin
  require "pinyon/eventmachine"
rescue LoadError => e
  raise unless e.path == "eventmachine"
end

module Pinyon
  # The interfaces of other clients, on Pinyon's own.
  module Compat
    # The interface of Redis::EM::Mutex, in fibers of EventMachine, in those of any +Fiber::Scheduler+, and in threads.
    #
    #   require "pinyon/compat/redis_em_mutex"
    #
    #   RedisMutex = Pinyon::Compat::RedisEMMutex
    #   RedisMutex.setup(url: "redis://127.0.0.1:6379/0", expire: 60)
    #   RedisMutex.synchronize("resource1", "resource2", block: 10) { work }
    #
    # <tt>require "pinyon/compat/redis_em_mutex/replace"</tt> makes +::Redis::EM::Mutex+ this class.
    class RedisEMMutex
      # A lock is used wrongly, or is lost.
      class MutexError < RuntimeError; end

      # A lock could not be acquired in time.
      class MutexTimeout < MutexError; end

      # A fiber that sleeps. +until_time+: nil for as long as it takes.
      Sleeper = Struct.new(:scheduler, :until_time, :is_parked, :is_woken)
      # Seconds between two tries to acquire what another owner in the same fiber holds.
      PAUSE = 0.01
      private_constant :Sleeper, :PAUSE

      extend Setup

      class << self
        # Acquire a lock.
        #
        # @param names [Array<String>]
        # @param options [Hash] those of {#initialize}
        # @return [RedisEMMutex, nil] nil if others held it for all the time
        # @raise [MutexError] this fiber holds one of the names
        def lock(*names, **options)
          mutex = new(*names, **options)
          got = []
          given = passes = 0 # As in Locks#lock.
          passed = false
          begin
            begin
              if mutex.send(:acquired, got, nil)
                given = 1
                return mutex
              end
              nil
            ensure
              got.each(&:release) if (passes += 1) > given
              passed = true
            end
          ensure
            got.each(&:release) if !passed || passes > 1
          end
        end

        # Hold a lock for a block.
        #
        # @yieldparam mutex [RedisEMMutex]
        # @return [Object] the block's value
        # @raise [MutexTimeout] others held it for all the time
        def synchronize(*names, **options)
          mutex = new(*names, **options)
          mutex.synchronize { yield mutex }
        end
      end

      # @return [Array<String>] the names, as they were given
      attr_reader :names

      # @return [String, nil] the namespace
      attr_reader :ns
      alias namespace ns

      # @return [Numeric, nil] seconds to wait; nil waits for ever
      attr_accessor :block_timeout

      # @return [Numeric] seconds after which the lock expires unless it is refreshed
      attr_reader :expire_timeout

      # @param names [Array<String>] what to lock together; without any, a name is made up
      # @param name [String, Array<String>, nil] further names
      # @param block [Numeric, nil] seconds to wait; nil waits for ever
      # @param expire [Numeric, nil] seconds after which it expires unless it is refreshed
      # @param ns [String, nil] the namespace, unless it is that of {Setup#setup}
      # @param owner [Object, nil] who owns it, instead of the fiber
      def initialize(*names, name: nil, block: nil, expire: nil, ns: self.class.ns, owner: nil)
        names += Array(name)
        names << self.class.next_name if names.empty?
        @ns = ns
        @names = names.map(&:to_s).freeze
        @keys = @names.map { |each| ns ? "#{ns}:#{each}" : each }.uniq.sort.freeze
        @block_timeout = block
        @owner = owner
        @sleeping = {}.compare_by_identity
        self.expire_timeout = expire || self.class.default_expire
      end

      # @param seconds [Numeric]
      # @raise [ArgumentError] not a positive number
      def expire_timeout=(seconds)
        raise ArgumentError, "expire is a positive number of seconds, not #{seconds.inspect}" unless seconds.positive?

        @expire_timeout = seconds
      end

      # Acquire it.
      #
      # @param block_timeout [Numeric, nil] seconds to wait, unless as long as the mutex says; 0 does not wait
      # @return [Boolean] false if others held it for all the time
      # @raise [MutexError] its owner holds one of the names
      def lock(block_timeout = nil)
        got = []
        given = passes = 0 # As in Locks#lock.
        passed = false
        begin
          begin
            if acquired(got, block_timeout)
              given = 1
              return true
            end
            false
          ensure
            got.each(&:release) if (passes += 1) > given
            passed = true
          end
        ensure
          got.each(&:release) if !passed || passes > 1
        end
      end

      # Acquire it if it is free now.
      #
      # @return [Boolean]
      def try_lock
        got = []
        given = passes = 0 # As in Locks#lock.
        passed = false
        begin
          begin
            if acquired_at_once(got)
              given = 1
              return true
            end
            false
          ensure
            got.each(&:release) if (passes += 1) > given
            passed = true
          end
        ensure
          got.each(&:release) if !passed || passes > 1
        end
      end

      # Release it.
      #
      # @return [self, false] false unless it was held until then
      def unlock!
        kept = owned[@keys]&.release
        owned.delete(@keys)
        self.class.forget(@owner) if owned.empty?
        kept ? self : false
      end

      # The same.
      #
      # @return [self]
      def unlock
        unlock!
        self
      end

      # Let it expire later.
      #
      # @param expire [Numeric, nil] seconds from now, unless {#expire_timeout}
      # @return [Boolean] whether it is held
      def refresh(expire = nil)
        held = owned[@keys]
        held ? held.extend_to(expire || expire_timeout) : false
      end

      # Whether any of the names is locked.
      def locked?
        locks.locked?(*@keys)
      end

      # Whether the caller holds it, as the server says.
      def owned?
        held = owned[@keys]
        held&.held? ? locks.status(*@keys).all? { |status| status.token == held.token } : false
      end

      # Whether it expired before the caller released it.
      #
      # @return [Boolean, nil] nil if the caller has not acquired it
      def expired?
        held = owned[@keys]
        held && !held.held?
      end

      # @return [Float, nil] the seconds until it expires; nil if the caller has not acquired it
      def expires_in
        owned[@keys]&.remaining
      end

      # @return [Time, nil] when it expires; nil if the caller has not acquired it
      def expires_at
        seconds = expires_in
        seconds && (Time.now + seconds)
      end

      # @return [Float, nil] the same, in seconds since 1970
      def expiration_timestamp
        expires_at&.to_f
      end

      # Hold it for a block.
      #
      # @param block_timeout [Numeric, nil] seconds to wait, unless as long as the mutex says
      # @return [Object] the block's value
      # @raise [MutexTimeout] others held it for all the time
      def synchronize(block_timeout = nil)
        got = []
        begin
          acquired(got, block_timeout) or raise MutexTimeout, "#{names.join(", ")}: others held it for all the time"
          yield self
        ensure
          # The block may have slept, and acquired it again.
          unlock unless got.each(&:release).empty?
        end
      end

      # Release it, wait until {#wakeup}, and acquire it again.
      #
      # @param timeout [Numeric, nil] seconds to wait at most
      # @yield before it is acquired again
      # @return [Float] the seconds that it took
      # @raise [MutexTimeout] others held it for all the time
      def sleep(timeout = nil)
        begun = now
        sleeper = Sleeper.new(scheduler, timeout && (begun + timeout))
        # Before the release: whoever acquires the lock next may wake this fiber.
        @sleeping[Fiber.current] = sleeper
        unlock! or raise MutexError, "#{names.join(", ")} is not held: acquire it before you sleep"
        park(sleeper)
        yield if block_given?
        lock or raise MutexTimeout, "#{names.join(", ")}: others held it for all the time"
        now - begun
      ensure
        @sleeping.delete(Fiber.current)
      end

      # Wake a fiber that sleeps by this mutex.
      #
      # @param fiber [Fiber]
      def wakeup(fiber)
        sleeper = @sleeping.delete(fiber) or return
        sleeper.is_woken = true
        sleeper.scheduler.unblock(self, fiber) if sleeper.is_parked
      end
      # What EM::Synchrony::Thread::ConditionVariable calls.
      alias _wakeup wakeup

      # Never: a lock that has expired is lost.
      def can_refresh_expired?
        self.class.can_refresh_expired?
      end

      # @see Setup#watching?
      def watching?
        self.class.watching?
      end

      # The mutex, with its names, for people.
      #
      # @return [String]
      def inspect
        "#<#{self.class} #{names.join(", ")}>"
      end

      private

      def locks
        self.class.locks
      end

      # What this owner has acquired, by names.
      def owned
        self.class.owned(@owner)
      end

      # Acquires it. `got`: takes it, before an interrupt can come.
      def acquired(got, block_timeout)
        refuse_recursion
        ends = now + (block_timeout || @block_timeout || Float::INFINITY)
        begin
          got << locks.lock(*@keys, ttl: expire_timeout, timeout: [ends - now, 0].max, renew: false)
          owned[@keys] = got.first
        rescue AlreadyHeld
          # Another owner in this fiber holds it.
          return if now >= ends

          pause([ends - now, PAUSE].min)
          retry
        end
      rescue LockTimeout
        nil
      rescue Deadlock => e
        raise MutexError, "deadlock; recursive locking (#{e.message})"
      end

      def pause(seconds)
        here = self.class.scheduler
        here ? here.block(self, seconds) : Kernel.sleep(seconds)
      end

      def acquired_at_once(got)
        return unless overlapping.empty?

        got.push(*locks.try_lock(*@keys, ttl: expire_timeout, renew: false))
        owned[@keys] = got.first if got.any?
      rescue AlreadyHeld
        nil
      end

      def overlapping
        owned.delete_if { |_, held| !held.held? }
        owned.keys.flatten & @keys
      end

      def refuse_recursion
        mine = overlapping
        return if mine.empty?

        raise MutexError, "deadlock; recursive locking: #{mine.join(", ")} is held by its owner already"
      end

      def scheduler
        self.class.scheduler or raise MutexError, "sleep needs a fiber with a scheduler, or of EventMachine"
      end

      def park(sleeper)
        until sleeper.is_woken
          left = sleeper.until_time && (sleeper.until_time - now)
          return if left&.negative?

          sleeper.is_parked = true
          sleeper.scheduler.block(self, left)
          sleeper.is_parked = false
        end
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end
  end
end

require "pinyon/compat/redis_em_mutex/namespace"
