# frozen_string_literal: true

require "delegate"

# Clients that do what Pinyon must not, under the names of pinyon_verify/soak/sabotage.py.
module Sabotage
  # One in so many gets goes wrong.
  ONE_IN = 200

  # A client that answers some gets wrongly.
  class Wrong < SimpleDelegator
    def get(key)
      ((@count = @count.to_i + 1) % ONE_IN).zero? ? instead(key) : __getobj__.get(key)
    end
  end

  # Returns what belongs to the key before.
  class AnothersValue < Wrong
    def get(key)
      @last = @asked
      @asked = key
      super
    end

    def instead(key)
      __getobj__.get(@last || key)
    end
  end

  # Returns a part of the value.
  class TornValue < Wrong
    def instead(key)
      __getobj__.get(key)&.chop
    end
  end

  # Returns the first value of each key, like a cache inside a client.
  class OldValue < Wrong
    def get(key)
      value = __getobj__.get(key)
      value && ((@first ||= {})[key] ||= value)
    end
  end

  # Raises what no server can cause.
  class UnknownError < Wrong
    def instead(key)
      raise KeyError, key
    end
  end

  # Does not close sockets.
  class Leak < Wrong
    KEPT = [] # rubocop:disable Style/MutableConstant

    def instead(key)
      KEPT << Socket.new(:INET, :STREAM)
      __getobj__.get(key)
    end
  end

  ALL = {
    "anothers-value" => AnothersValue, "torn-value" => TornValue, "old-value" => OldValue,
    "unknown-error" => UnknownError, "leak" => Leak
  }.freeze
end
