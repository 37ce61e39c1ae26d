# frozen_string_literal: true

require "dalli"
require "logger"
require_relative "../calls"

# Dalli 5 warns of Marshal on the standard output, where the replies go.
Dalli.logger = Logger.new($stderr)

module PinyonBench
  # Dalli: bytes are stored raw and uncompressed, other values by Marshal.
  class DalliClient
    # For bytes, so that Dalli stores them unchanged.
    RAW = { raw: true }.freeze

    def initialize(model)
      @model = model
    end

    # The versions of the client and of what it runs on.
    def version
      "#{Dalli::VERSION}, #{@model.version}"
    end

    def configuration
      "#{protocol} protocol, defaults but compress: false; bytes raw: true; quiet: its `quiet` block"
    end

    # Returns the calls of a new client for values of this kind.
    def connect(servers, kind)
      client = Dalli::Client.new(servers, compress: false)
      options = kind == "bytes" ? RAW : nil
      Calls.of(
        client, %i[get close delete incr decr], **stores(client, options),
        get_many: ->(keys) { client.get_multi(*keys) },
        incr_or_create: ->(key, delta, initial) { client.incr(key, delta, nil, initial) },
        quietly: ->(&block) { client.multi { block.call(quiet_calls(client, options)) } }
      )
    end

    private

    def protocol
      Gem::Version.new(Dalli::VERSION) < Gem::Version.new("4") ? "binary" : "meta"
    end

    def stores(client, options)
      {
        set: ->(key, value) { client.set(key, value, nil, options) },
        add: ->(key, value) { client.add(key, value, nil, options) },
        replace: ->(key, value) { client.replace(key, value, nil, options) }
      }
    end

    # Dalli reads replies of gets from among those of quiet commands, so it has no gets in a batch.
    def quiet_calls(client, options)
      Calls.new(**stores(client, options), delete: client.method(:delete))
    end
  end

  # The client of this process.
  CLIENT = DalliClient
end
