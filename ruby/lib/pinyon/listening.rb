# frozen_string_literal: true

module Pinyon
  # Tells holders that their locks were lost, and warns the program's operators, in one thread of each process. The
  # thread sleeps in the core.
  #
  # @api private
  module Listening
    @mutex = Mutex.new
    @held = ObjectSpace::WeakMap.new
    @thread = nil
    @process = nil

    class << self
      # Registers a lock. Returns whether it is held.
      def to(held, native)
        @mutex.synchronize do
          @held[native.number] = held
          start
        end
        native.listen
      end

      # Starts the thread, unless this process has it.
      def start
        return if @thread&.alive? && @process == Process.pid

        @process = Process.pid
        @thread = Thread.new { loop { take(*Native.listen_to_locks) } }
        @thread.name = "pinyon locks"
        @thread.report_on_exception = true
      end

      private

      def take(kind, news)
        case kind
        when :lost then lost(@mutex.synchronize { @held[news] })
        when :warning then warn("pinyon: #{news}")
        end
      end

      def lost(held)
        held&.lost!
      rescue StandardError => e
        warn("pinyon: a callback of on_lost failed: #{e.full_message(highlight: false)}")
      end
    end
  end
end
