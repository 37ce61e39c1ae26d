# frozen_string_literal: true

require "pinyon/held"

module Pinyon
  class Locks
    # A candidate for the leadership of a name, in the background. {Locks#leader} makes it.
    class Leader
      # Those that have been started and have not ended.
      @running = {}.compare_by_identity
      @mutex = Mutex.new

      # How long the end of the program waits for the callbacks of leaders, in seconds.
      LAST = 5
      private_constant :LAST

      class << self
        # @api private
        def running(leader)
          @mutex.synchronize { @running[leader] = true } if Ractor.current == Ractor.main
        end

        # @api private
        def ended(leader)
          @mutex.synchronize { @running.delete(leader) } if Ractor.current == Ractor.main
        end

        # Ends those of a client, before its locks are released: else they would be elected again.
        #
        # @api private
        def stop_all(locks)
          all = of(locks)
          all.each(&:begin_to_stop)
          ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + LAST
          all.each { |leader| leader.stop([0, ends - Process.clock_gettime(Process::CLOCK_MONOTONIC)].max) }
        end

        # Has those of a client see that it is closed.
        #
        # @api private
        def wake_all(locks)
          of(locks).each(&:changed)
        end

        private

        def of(locks)
          return [] unless Ractor.current == Ractor.main

          @mutex.synchronize { @running.keys.select { |leader| leader.of?(locks) } }
        end
      end

      # @return [String, Symbol] the name, as it was given
      attr_reader :name

      # @api private
      def initialize(locks, native, name, on_elected, on_lost, ttl)
        { on_elected:, on_lost: }.each do |argument, callback|
          next if callback.nil? || callback.respond_to?(:call)

          raise UnsupportedType, "#{argument} is called with the token; #{callback.class} has no method call"
        end
        @locks = locks
        @native = native
        @name = name
        @on_elected = on_elected
        @on_lost = on_lost
        @terms = [ttl, Float::INFINITY, true, nil, false]
        @native.ask([name], nil, @terms.dup) # Refuses what makes no sense.
        @candidate = Native::Candidate.new(name)
        @candidate.next(:closed, nil) # Until it is started.
      end

      # Become a candidate: in a fiber, if the calling fiber has a scheduler, and otherwise in a thread.
      #
      # @return [self]
      # @raise [UsageError] it is a candidate already
      def start
        raise UsageError, "the candidate for #{name} has been started before: stop it first" unless state == :stopped

        @candidate = Native::Candidate.new(name)
        @is_over = false
        Leader.running(self)
        carry = proc { campaign }
        if (scheduler = Native.scheduler)
          scheduler.fiber(&carry)
        else
          Thread.new(&carry).name = "pinyon leader"
        end
        self
      end

      # Be a candidate while a block runs.
      #
      # @api private
      def during
        start
        yield self
      ensure
        stop
      end

      # End the candidate. One that leads gives the leadership up first, as {#resign} does. Called from a callback, it
      # does not wait.
      #
      # @param timeout [Numeric, nil] seconds to wait for its end; nil waits until the callbacks have returned
      # @return [Boolean] whether it has ended
      def stop(timeout = nil)
        return true if over?

        begin_to_stop
        return false if @carrier.equal?(Fiber.current)

        until_changed(timeout) { over? }
      end

      # Whether it leads now, as far as this process can know. No server is asked.
      def leader?
        !token.nil?
      end

      # The fencing token with which it leads. No server is asked.
      #
      # @return [Integer, nil] nil if it does not lead
      def token
        token = @candidate.token
        token if token && @held&.held?
      end

      # What it does.
      #
      # @return [Symbol] +:candidate+, +:leader+, +:resigning+, +:paused+ or +:stopped+
      def state
        @candidate.state
      end

      # Give the leadership up, and become a candidate again, behind all others that wait. {#leader?} is false at once.
      # The lock is released after +on_lost+ has returned.
      #
      # @return [Boolean] whether it led
      def resign
        led = @candidate.resign
        changed if led
        led
      end

      # Wait until this candidate leads, or is stopped.
      #
      # @param timeout [Numeric, nil] seconds to wait; nil waits for ever
      # @return [Boolean] whether it leads
      def wait(timeout = nil)
        until_changed(timeout) { leader? || over? }
        leader?
      end

      # Ask the server who leads. It need not be a candidate itself.
      #
      # @return [Status, nil] the leader's +holder+ and +token+; nil if there is no leader
      def current
        status = @locks.status(name).first
        status if status.holder
      end

      # The candidate, for people.
      #
      # @return [String]
      def inspect
        "#<#{self.class} #{name} #{state}>"
      end
      alias to_s inspect

      # @api private
      def of?(locks)
        @locks.equal?(locks)
      end

      # @api private
      def begin_to_stop
        @candidate.stop
        @asking&.native&.stop_waiting
        changed
      end

      # @api private
      def changed
        @candidate.changed
      end

      private

      # How long a wait without a limit waits at a time.
      LONG = 3600
      private_constant :LONG

      # Whether nothing carries it on. A forked child does not go on with its parent's.
      def over?
        @is_over != false || state == :stopped
      end

      def until_changed(timeout)
        ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + timeout if timeout
        loop do
          changes = @candidate.changes
          return true if yield

          left = ends ? ends - Process.clock_gettime(Process::CLOCK_MONOTONIC) : LONG
          return false unless left.positive?

          @candidate.wait(changes, left)
        end
      end

      def campaign
        @carrier = Fiber.current
        play
      ensure
        # What Thread#kill ends, or an interrupt for the second time, does not come to its end.
        @held&.abandon
        @held = @asking = @carrier = nil
        @is_over = true
        Leader.ended(self)
        changed
      end

      def play
        ended = nil
        step, about = @candidate.next(:done, nil)
        until step == :over
          begin
            report = take(step, about)
          rescue Exception => e # rubocop:disable Lint/RescueException
            raise if ended

            ended = e
            report = [:interrupted, said(e)]
          end
          step, about = @candidate.next(*report)
        end
        raise ended if ended
      end

      def take(step, about)
        case step
        when :ask then ask
        when :elected then called(@on_elected, about)
        when :lead then lead(about)
        when :lost then called(@on_lost, about)
        when :release then release
        when :warn then tell(about)
        when :pause then pause(about)
        end
      end

      def ask
        held = @asking = Held.new([name], @native.ask([name], nil, @terms.dup))
        held.native.stop_waiting if @candidate.stopping?
        return [:done, nil] unless held.native.acquire(true)

        @held = held
        held.on_lost { changed } if Ractor.current == Ractor.main
        [:granted, held.token]
      rescue StandardError => e
        refused(e)
      ensure
        held&.abandon unless @held.equal?(held)
        @asking = nil
      end

      def refused(error)
        return [:closed, nil] if @locks.closed?

        [:failed, error.is_a?(Error) ? error.message : said(error)]
      end

      def lead(look_in)
        changes = @candidate.changes
        @candidate.wait(changes, look_in) if leader?
        @held.held? ? [:done, nil] : [:lock_lost, nil]
      end

      def release
        held = @held
        @held = nil
        held&.release
        [:done, nil]
      rescue Error => e
        [:failed, e.message]
      end

      def pause(time)
        until_changed(time) { @candidate.stopping? }
        [:done, nil]
      end

      def called(callback, token)
        changed
        callback&.call(token)
        [:done, nil]
      rescue StandardError, ScriptError => e
        warn("pinyon: a callback of the leader #{name} failed: #{e.full_message(highlight: false)}")
        [:failed, said(e)]
      end

      def tell(line)
        Listening.to_warnings
        @native.warn(line)
        [:done, nil]
      end

      def said(error)
        "#{error.class}: #{error.message}"
      end
    end
  end
end
