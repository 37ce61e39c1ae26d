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
      # Resumes the fiber that waits for a descriptor.
      module Readable
        attr_writer :fiber

        def notify_readable
          fiber = @fiber
          @fiber = nil
          fiber&.resume(true)
        end
      end

      def initialize
        @is_over = false
      end

      # The reactor has ended. The next one has other fibers.
      def end
        @is_over = true
      end

      def block(_blocker, timeout = nil)
        fiber = Fiber.current
        timer = timeout && EM.add_timer(timeout) { fiber.resume(false) }
        Fiber.yield
      ensure
        EM.cancel_timer(timer) if timer
      end

      def unblock(_blocker, fiber)
        EM.next_tick { fiber.resume if fiber.alive? } unless @is_over
      end

      # Watches only while it waits: a watch of an idle connection that the server has closed would never rest.
      def io_wait(io, _events, timeout = nil)
        fiber = Fiber.current
        watch = EM.watch(io, Readable) { |watched| watched.fiber = fiber }
        watch.notify_readable = true
        timer = timeout && EM.add_timer(timeout) { fiber.resume(false) }
        Fiber.yield
      ensure
        EM.cancel_timer(timer) if timer
        watch&.fiber = nil
        watch&.detach
      end

      def fiber(&block)
        Fiber.new(&block).tap(&:resume)
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
