# frozen_string_literal: true

require "pinyon/registry"

module Pinyon
  # Tells holders that their locks were lost, and reports events of the servers, in one thread of each process. The
  # thread sleeps in the core. Warnings that no client listens to go to stderr.
  #
  # @api private
  module Listening
    # Events that are warned of where no client listens.
    UNASKED = %i[switched renewals warning].freeze

    @mutex = Mutex.new
    @held = Registry.new
    @clients = Registry.new
    @thread = nil
    @process = nil

    class << self
      # Registers a lock. Returns whether it is held.
      def to(held, native)
        check_ractor
        @mutex.synchronize do
          @held[native.number] = held
          start
        end
        native.listen
      end

      # Registers a client that takes events. In another Ractor than the main one, it is known already.
      def to_events(locks, native)
        return unless in_main_ractor?

        @mutex.synchronize do
          @clients[native.source] = locks
          start
        end
      end

      # Has events reported of which no client is told.
      def to_warnings
        @mutex.synchronize { start } if in_main_ractor?
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

      # The thread that calls back runs in the main Ractor, which does not have the objects of others.
      def check_ractor
        return if in_main_ractor?

        raise UsageError, "on_lost works in the main Ractor only; ask the lock here: held.lost?, held.check!"
      end

      def in_main_ractor?
        Ractor.current == Ractor.main
      end

      def take(kind, news)
        case kind
        when :lost then lost(@mutex.synchronize { @held[news] })
        when :event then event(*news)
        end
      end

      def event(source, fields)
        locks = @mutex.synchronize { @clients[source] }
        event = Client::Event.new(*fields)
        if locks
          locks.tell(event)
        elsif UNASKED.include?(event.kind)
          warn("pinyon: #{event.message}")
        end
      rescue StandardError => e
        warn("pinyon: on_event failed: #{e.full_message(highlight: false)}")
      end

      def lost(held)
        held&.lost!
      rescue StandardError => e
        warn("pinyon: a callback of on_lost failed: #{e.full_message(highlight: false)}")
      end
    end
  end
end
