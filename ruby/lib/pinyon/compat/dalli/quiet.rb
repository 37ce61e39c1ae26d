# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      # The block of {Client#quiet}: commands that are sent without waiting for each reply.
      #
      # @api private
      class Quiet
        # The open block of this client in this fiber, if there is one.
        def self.of(client)
          Thread.current[QUIET]&.fetch(client, nil)
        end

        # Opens one for the block.
        def self.open(client, cache)
          open = Thread.current[QUIET]
          quiet = new(cache)
          Thread.current[QUIET] = { client => quiet }.compare_by_identity.merge!(open || {})
          yield
        ensure
          Thread.current[QUIET] = open
          quiet&.settle
        end

        def initialize(cache)
          @cache = cache
        end

        # Sends a command when it suits.
        #
        # @yieldparam batch [Native::Batch]
        # @return [nil]
        def submit
          yield @batch ||= @cache.batch
          nil
        end

        # Carries out what has no quiet form, after what was submitted before.
        #
        # @yieldparam cache [Cache]
        # @return [nil]
        def between
          settle
          yield @cache
          nil
        end

        # Waits for the outcome of every command. As in Dalli, failures are not reported.
        def settle
          batch = @batch
          @batch = nil
          batch&.finish&.each do |_number, command, key, reason|
            Dalli.logger.debug { "#{command} #{key.inspect} in a quiet block: #{reason}" }
          end
        ensure
          batch&.discard
        end
      end
    end
  end
end
