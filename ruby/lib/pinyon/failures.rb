# frozen_string_literal: true

module Pinyon
  # How caches and sessions of frameworks go on when a server fails. The class says how it reports the failure.
  # @api private
  module Failures
    # What a program does wrong, whatever the servers do.
    MISTAKES = [UsageError, UnsupportedType, Closed].freeze
    private_constant :MISTAKES

    module_function

    # Logs a failure, and reports it to +Rails.error+ (Rails 7.0 and newer).
    #
    # @param source [String] who reports it
    def tell_rails(error, logger, source)
      # A server that is marked down is not tried, and was told of when it failed.
      level = error.is_a?(ServerDown) ? :debug : :error
      logger&.public_send(level, "#{error.class}: #{error.message}")
      return unless ActiveSupport.respond_to?(:error_reporter)

      named = ActiveSupport.gem_version >= Gem::Version.new("7.1.0") ? { source: } : {}
      ActiveSupport.error_reporter&.report(error, handled: true, severity: :warning, **named)
    end

    private

    # @param fallback [Object] what to return if the servers fail
    # @param context [Array] further arguments of +report+
    def failing_to(fallback, *context)
      yield
    rescue *MISTAKES
      raise
    rescue Error => e
      report(e, *context)
      fallback
    end
  end
end
