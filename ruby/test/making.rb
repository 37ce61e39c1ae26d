# frozen_string_literal: true

require_relative "models"

# Makers of values for callers of +fetch+.
module Making
  # Seconds: longer than any test takes, so that no caller is helped by an expiring lease.
  LONG = 1000

  # A block for +fetch+ that waits until the test lets it continue.
  class Maker
    attr_reader :calls
    attr_writer :held

    def initialize(model, value, held: false)
      @model = model
      @value = value
      @held = held
      @calls = 0
    end

    def to_proc
      proc do
        @calls += 1
        Models.wait_until(@model) { !@held }
        raise @value if @value.is_a?(Exception)

        @value
      end
    end

    def begun
      Models.wait_until(@model) { @calls == 1 }
    end
  end

  NEVER = proc { raise "there was something to take" }

  module_function

  # How many callers wait for others of their process.
  def following(cache)
    cache.instance_variable_get(:@native).followers.sum
  end
end
