# frozen_string_literal: true

require "eventmachine"
require "pinyon"

module Pinyon # :nodoc:
  # After <tt>require "pinyon/eventmachine"</tt>, fibers wait inside EventMachine's reactor without blocking it. The
  # reactor's own callbacks wait as threads do: start a fiber in them.
  #
  #   EM.run { Fiber.new { p cache.get("key") }.resume }
  module EventMachine
    # What stands for a +Fiber::Scheduler+ in a reactor.
    # @api private
    class Adapter
      # The fiber that waits for a descriptor, those that it wakes, and the one that sends what all of them submit.
      ROUNDS = 3
      private_constant :ROUNDS

      attr_reader :generation

      def initialize(generation)
        @generation = generation
        @is_over = false
        @ready = []
        @is_due = false
        @watches = {}.compare_by_identity
      end

      # The reactor has ended. The next one has other fibers.
      def end
        @is_over = true
      end

      def block(_blocker, timeout = nil)
        return Fiber.yield unless timeout

        fiber = Fiber.current
        timer = EM.add_timer(timeout) { fiber.resume(false) }
        begin
          Fiber.yield
        ensure
          EM.cancel_timer(timer)
        end
      end

      def unblock(_blocker, fiber)
        EM.next_tick { self << fiber } unless @is_over
      end

      # The same from the reactor's own thread.
      def <<(fiber)
        @ready << fiber
        go_on_later unless @is_due
      end

      def io_wait(io, _events, timeout = nil)
        watch = @watches[io] || start_watch(io)
        watch.wait(timeout)
      ensure
        stop_watch(watch) if watch && !watch.stays?
      end

      # Resumes a fiber, and those that can go on then, from the reactor itself: a tick of its own for each would cost
      # system calls.
      def go_on_with(fiber)
        @ready.unshift(fiber)
        go_on
      end

      # Ends the watch of a descriptor for which no fiber waits. Else it would not rest after the server has closed an
      # idle connection.
      def stop_watch(watch)
        @watches.delete(watch.io)
        watch.detach
      end

      def fiber(&block)
        Fiber.new(&block).tap(&:resume)
      end

      private

      # A descriptor that a driver keeps stays watched between waits: to start and stop costs system calls.
      def start_watch(io)
        watch = EM.watch(io, Watch, self, io)
        watch.notify_readable = true
        @watches[io] = watch if watch.stays?
        watch
      end

      # An error of a fiber ends the reactor, or goes to its handler of errors. The others go on in its next tick then.
      def go_on
        @is_due = true
        ROUNDS.times do
          @ready.size.times do
            fiber = @ready.shift
            fiber.resume(true) if fiber.alive?
          end
        end
      ensure
        @ready.empty? ? @is_due = false : go_on_later
      end

      def go_on_later
        @is_due = true
        EM.next_tick { go_on unless @is_over }
      end
    end

    # A watched descriptor, and the one fiber that may wait for it.
    # @api private
    class Watch < ::EventMachine::Connection
      # What keeps the descriptor open. The native half sets it.
      KEEPER = :@pinyon_keeper
      private_constant :KEEPER

      attr_reader :io

      def initialize(adapter, io)
        super()
        @adapter = adapter
        @io = io
        @stays = io.instance_variable_defined?(KEEPER)
        @fiber = @due = @alarm = nil
      end

      def stays?
        @stays
      end

      # Returns whether the descriptor is readable, which it was not in time if not.
      def wait(timeout)
        @fiber = Fiber.current
        @due = timeout && (now + timeout)
        set_alarm if @due && (!@alarm || @due < @alarm)
        Fiber.yield
      ensure
        @fiber = nil
      end

      def notify_readable
        fiber = @fiber
        return @adapter.stop_watch(self) unless fiber

        @fiber = nil
        @adapter.go_on_with(fiber)
      end

      private

      # Most waits end long before they are due. One timer serves all of them: EventMachine keeps even cancelled timers
      # until their time, and has room for a limited number.
      def set_alarm
        at = @alarm = @due
        EM.add_timer(at - now) { ring(at) }
      end

      def ring(at)
        @alarm = nil if @alarm == at
        return if !@fiber || !@due || (@alarm && @alarm <= @due)

        @due <= now ? @fiber.resume(false) : set_alarm
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end
    end

    # The adapter, in a fiber of the reactor that is not its root. A forked child has other reactors.
    # @api private
    def self.current
      return if !EM.reactor_thread? || Fiber.blocking?

      generation = Native.generation
      return @current if @current&.generation == generation

      adapter = Adapter.new(generation)
      EM.add_shutdown_hook { forget(adapter) }
      @current = adapter
    end

    # The reactor has ended.
    def self.forget(adapter)
      adapter.end
      @current = nil
      Native.adapt(self)
    end
    private_class_method :forget
  end

  Native.adapt(EventMachine)
end
