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

      # Lets the fiber go on that waits for a descriptor.
      module Readable
        attr_writer :fiber

        def initialize(adapter)
          super()
          @adapter = adapter
        end

        def notify_readable
          fiber = @fiber
          @fiber = nil
          @adapter.go_on_with(fiber) if fiber
        end
      end

      def initialize
        @is_over = false
        @ready = []
        @is_due = false
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
        return if @is_over
        return EM.next_tick { unblock(nil, fiber) } unless EM.reactor_thread?

        @ready << fiber
        go_on_later unless @is_due
      end

      # Watches only while it waits: a watch of an idle connection that the server has closed would never rest.
      def io_wait(io, _events, timeout = nil)
        fiber = Fiber.current
        watch = EM.watch(io, Readable, self) { |watched| watched.fiber = fiber }
        watch.notify_readable = true
        timer = timeout && EM.add_timer(timeout) { fiber.resume(false) }
        Fiber.yield
      ensure
        EM.cancel_timer(timer) if timer
        watch&.fiber = nil
        watch&.detach
      end

      # Resumes a fiber, and those that can go on then, from the reactor itself: a tick of its own for each would cost
      # system calls.
      def go_on_with(fiber)
        @ready.unshift(fiber)
        go_on
      end

      def fiber(&block)
        Fiber.new(&block).tap(&:resume)
      end

      private

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

    # The adapter, in a fiber of the reactor that is not its root.
    # @api private
    def self.current
      return if !EM.reactor_thread? || Fiber.current.blocking?

      @current ||= Adapter.new.tap { |adapter| EM.add_shutdown_hook { (@current = nil) || adapter.end } }
    end
  end

  Native.adapt
end
