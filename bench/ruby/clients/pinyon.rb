# frozen_string_literal: true

$LOAD_PATH.unshift(File.expand_path("../../../ruby/lib", __dir__))
require "pinyon"
require "pinyon/eventmachine" if defined?(EventMachine)
require_relative "../calls"

module PinyonBench
  # Pinyon itself: the default client, object rows with the serializer `:marshal`.
  class PinyonClient
    def initialize(model)
      @model = model
    end

    # The versions of the client and of what it runs on.
    def version
      "#{Pinyon::VERSION}, #{@model.version}"
    end

    def configuration
      "defaults; serializer portable, for object rows :marshal"
    end

    # Returns the calls of a new client for values of this kind.
    def connect(servers, kind)
      client = Pinyon::Client.new(*servers, serializer: kind == "object" ? :marshal : :portable)
      Calls.new(
        get: client.method(:get),
        set: client.method(:set),
        close: client.method(:close),
        add: client.method(:add),
        replace: client.method(:replace),
        delete: client.method(:delete),
        get_many: client.method(:get_many),
        incr: client.method(:incr),
        decr: client.method(:decr),
        incr_or_create: ->(key, delta, initial) { client.incr(key, delta, initial:) },
        quietly: ->(&block) { client.quiet { |batch| block.call(quiet_calls(client, batch)) } }
      )
    end

    private

    # Gets go through the client while the batch is open.
    def quiet_calls(client, batch)
      Calls.new(
        get: client.method(:get),
        set: batch.method(:set),
        add: batch.method(:add),
        replace: batch.method(:replace),
        delete: batch.method(:delete)
      )
    end
  end

  # The client of this process.
  CLIENT = PinyonClient
end
