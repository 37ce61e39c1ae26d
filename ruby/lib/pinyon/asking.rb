# frozen_string_literal: true

require "pinyon/registry"

module Pinyon
  # Calls the functions that return credentials. The core asks for them in threads that Ruby does not know. So a thread
  # of Ruby's sleeps in the core, and has each function called in a thread of its own.
  #
  # @api private
  module Asking
    # The settings that may be functions.
    SETTINGS = %i[username password sentinel_username sentinel_password].freeze

    @mutex = Mutex.new
    # The clients keep their functions; this does not.
    @functions = Registry.new
    @last = 0
    @thread = nil

    # A forked child has no such thread.
    module Forks
      def _fork
        child = super
        Asking.forked if child.zero?
        child
      end
    end

    class << self
      # The functions among a client's settings, for the client to keep.
      def functions_in(settings)
        settings.values_at(*SETTINGS).select { |value| value.respond_to?(:call) }
      end

      # The number by which the core asks for a function.
      def register(function)
        @mutex.synchronize do
          @functions[@last += 1] = function
          start
          @last
        end
      end

      def forked
        @mutex = Mutex.new
        start if @thread
      end

      private

      def start
        return if @thread&.alive?

        @thread = Thread.new { loop { answer_apart(Native.next_credentials_question) } }
        @thread.name = "pinyon credentials"
      end

      def answer_apart(question)
        Thread.new { answer(question) }.report_on_exception = false
      end

      def answer(question)
        while (number = question.number)
          begin
            function = @functions[number] or raise Error, "its client is gone"
            question.answer(function.call)
          rescue StandardError, ScriptError, NoMemoryError => e
            question.fail("#{e.class}: #{e.message}")
          end
        end
      end
    end

    Process.singleton_class.prepend(Forks)
  end
end
