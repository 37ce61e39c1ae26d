# frozen_string_literal: true

require "logger"
require "pinyon"
require "pinyon/compat/as_stored"

module Pinyon
  # The interfaces of other clients, on Pinyon's own.
  module Compat
    # Dalli's interface: change the constant, keep the code and the cache.
    #
    #   require "pinyon/compat/dalli"
    #
    #   cache = Pinyon::Compat::Dalli::Client.new(["cache1:11211", "cache2:11211"], namespace: "app", expires_in: 300)
    #   cache.fetch("greeting") { "hello" }
    #
    # Keys are on the same servers, under the same names and with the same bytes as Dalli's, so both can use a pool at
    # the same time. +require "pinyon/compat/dalli/replace"+ makes +::Dalli+ this module.
    module Dalli
      # The version of Dalli whose interface this is.
      VERSION = "5.2.1"

      # Where +Thread.current+ has what is true inside of a block of {Client#quiet}.
      QUIET = :dalli_multi

      # What {Client#get} returns for a miss if +cache_nils: true+ is among its options.
      NOT_FOUND = Object.new
      # @private
      def NOT_FOUND.inspect = "Dalli::NOT_FOUND"
      NOT_FOUND.freeze

      class << self
        # @return [Logger] Rails' logger, or one that writes warnings to standard output
        def logger
          @logger ||= (defined?(::Rails) && ::Rails.respond_to?(:logger) && ::Rails.logger) ||
                      ::Logger.new($stdout, level: ::Logger::INFO)
        end

        # What has the methods of a Logger.
        attr_writer :logger
      end
    end
  end
end

require "pinyon/compat/dalli/errors"
require "pinyon/compat/dalli/compressors"
require "pinyon/compat/dalli/values"
require "pinyon/compat/dalli/keys"
require "pinyon/compat/dalli/settings"
require "pinyon/compat/dalli/cache"
require "pinyon/compat/dalli/quiet"
require "pinyon/compat/dalli/cache_result"
require "pinyon/compat/dalli/client"
