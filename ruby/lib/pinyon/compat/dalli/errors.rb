# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      # What goes wrong with the cache. All of it is a {Pinyon::Error}, too.
      class DalliError < RuntimeError
        include Pinyon::Error

        # The error of Dalli's that says the same. A wrong argument stays what it is.
        #
        # @api private
        def self.of(error)
          meaning = MEANINGS.find { |meant, _| error.is_a?(meant) }&.last
          return error if meaning.nil?

          meaning.new(error.message, server: error.server, command: error.command, sent: error.sent)
        end
      end

      # A reply that is none of memcached's, or a client that was closed meanwhile.
      class NetworkError < DalliError; end

      # Dalli's error for what it tries again by itself. It is never raised here.
      class RetryableNetworkError < NetworkError; end

      # No server is available for the key: there is no connection, it broke, or the server did not answer in time. By
      # then, Dalli has marked the server down, and raises this.
      class RingError < DalliError; end

      # A value that the serializer cannot write.
      class MarshalError < DalliError; end

      # A stored value that the serializer cannot read.
      class UnmarshalError < DalliError; end

      # A value that is larger than +value_max_bytes+, or than the server stores.
      class ValueOverMaxSize < DalliError; end

      # An operation that a block of {Client#quiet} does not have.
      class NotPermittedMultiOpError < DalliError; end

      # The server answered with an error.
      class ServerError < DalliError; end

      class DalliError
        MEANINGS = {
          DalliError => nil,
          ConnectError => RingError, ServerDown => RingError, Timeout => RingError, ConnectionLost => RingError,
          ProtocolError => NetworkError, Closed => NetworkError,
          ValueTooLarge => ValueOverMaxSize,
          Pinyon::ServerError => ServerError, Unsupported => DalliError
        }.freeze
        private_constant :MEANINGS
      end
    end
  end
end
