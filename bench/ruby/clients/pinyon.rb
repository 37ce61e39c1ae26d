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
      Calls.of(
        client, %i[get set close add replace delete get_many incr decr],
        incr_or_create: ->(key, delta, initial) { client.incr(key, delta, initial:) },
        quietly: ->(&block) { client.quiet { |batch| block.call(quiet_calls(client, batch)) } }
      )
    end

    private

    # Gets go through the client while the batch is open.
    def quiet_calls(client, batch)
      Calls.of(batch, %i[set add replace delete], get: client.method(:get))
    end
  end

  # The client of this process.
  CLIENT = PinyonClient
end
