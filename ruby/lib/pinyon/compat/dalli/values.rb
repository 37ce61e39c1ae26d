# frozen_string_literal: true

require "json"

module Pinyon
  module Compat
    module Dalli
      # Plain data as JSON, for +serializer:+. Reading it runs no code.
      module JSONSerializer
        # @return [String]
        def self.dump(value)
          JSON.generate(value)
        end

        # @return [Object]
        def self.load(text)
          JSON.parse(text)
        end
      end

      # Values as Dalli stores them: the bytes, and client flags that tell how to read them.
      #
      # @api private
      class Values
        SERIALIZED = 1
        COMPRESSED = 2
        TEXT = 4

        def initialize(options)
          @serializer = options.fetch(:serializer, Marshal)
          @compressor = options.fetch(:compressor, Compressor)
          @compresses = options.fetch(:compress) { options.fetch(:compression, true) }
          @min_size = options.fetch(:compression_min_size, 4096)
          @max_size = options.fetch(:value_max_bytes, 1024 * 1024)
          @keeps_text = options.fetch(:string_fastpath, false)
          @only_bytes = options.fetch(:raw, false)
        end

        # The bytes and flags to store.
        #
        # @raise [MarshalError, ValueOverMaxSize]
        def pack(key, value, options)
          bytes, flags = @only_bytes ? as_it_is(key, value) : compressed(serialized(key, value, options), options)
          return [bytes, flags] if bytes.bytesize <= @max_size

          raise ValueOverMaxSize, "the value of #{key.inspect} has #{bytes.bytesize} bytes, more than " \
                                  "value_max_bytes (#{@max_size}): store less, or raise value_max_bytes"
        end

        # The value of what was stored.
        #
        # @raise [UnmarshalError]
        def unpack(key, stored, options)
          bytes, flags = stored
          return bytes if @only_bytes || options&.fetch(:raw, false) || flags.zero?

          read(flags.anybits?(COMPRESSED) ? @compressor.decompress(bytes) : bytes, flags)
        rescue ::Timeout::Error
          raise
        rescue StandardError => e
          raise UnmarshalError, "the value of #{key.inspect} cannot be read: #{e.message}"
        end

        private

        def as_it_is(key, value)
          return [value, 0] if value.is_a?(String)

          raise MarshalError, "the value of #{key.inspect} is a #{value.class}: with raw: true, a client takes Strings"
        end

        def serialized(key, value, options)
          return [value.to_s, 0] if options&.fetch(:raw, false)

          text_flags = flags_of_text(value, options)
          text_flags ? [value, text_flags] : [@serializer.dump(value), SERIALIZED]
        rescue ::Timeout::Error
          raise
        rescue StandardError => e
          Dalli.logger.error { "cannot store the value of #{key.inspect}: #{e.message}" }
          raise MarshalError, e.message
        end

        def flags_of_text(value, options)
          return unless value.instance_of?(String) && (options || {}).fetch(:string_fastpath, @keeps_text)

          case value.encoding
          when Encoding::BINARY then 0
          when Encoding::UTF_8 then TEXT
          end
        end

        def compressed(serialized, options)
          bytes, flags = serialized
          compresses = options&.fetch(:compress, nil)
          return serialized unless (compresses.nil? ? @compresses : compresses) && bytes.bytesize >= @min_size

          [@compressor.compress(bytes), flags | COMPRESSED]
        end

        def read(bytes, flags)
          return @serializer.load(bytes) if flags.anybits?(SERIALIZED)

          flags.anybits?(TEXT) ? bytes.force_encoding(Encoding::UTF_8) : bytes
        end
      end
    end
  end
end
