# frozen_string_literal: true

require "stringio"
require "zlib"

module Pinyon
  module Compat
    module Dalli
      # The most that a value may have after decompression, in bytes: a small one could otherwise fill the memory.
      MAX_DECOMPRESSED = 128 * 1024 * 1024
      private_constant :MAX_DECOMPRESSED

      # zlib, which compresses unless another compressor is set.
      class Compressor
        # @return [String]
        def self.compress(data)
          Zlib::Deflate.deflate(data)
        end

        # @return [String]
        # @raise [Zlib::Error] it is not zlib's, or has more than 128 MiB
        def self.decompress(data)
          read = String.new(encoding: Encoding::BINARY)
          inflate = Zlib::Inflate.new
          inflate.inflate(data) do |piece|
            raise Zlib::BufError, "more than #{MAX_DECOMPRESSED} bytes" if read.bytesize > MAX_DECOMPRESSED

            read << piece
          end
          raise Zlib::BufError, "it is cut off" unless inflate.finished?

          read
        ensure
          inflate&.reset
          inflate&.close
        end
      end

      # gzip, for +compressor:+.
      class GzipCompressor
        # @return [String]
        def self.compress(data)
          Zlib.gzip(data)
        end

        # @return [String]
        # @raise [Zlib::Error] it is not gzip's, or has more than 128 MiB
        def self.decompress(data)
          reader = Zlib::GzipReader.new(StringIO.new(data))
          read = reader.read(MAX_DECOMPRESSED).to_s
          raise Zlib::BufError, "more than #{MAX_DECOMPRESSED} bytes" unless reader.eof?

          read
        end
      end
    end
  end
end
