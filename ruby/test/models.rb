# frozen_string_literal: true

require_relative "reactors"

# Ways to run callers: threads, and the fibers of each reactor, in one vocabulary.
module Models
  # Threads.
  module Threads
    module_function

    def run
      yield
    end

    def start(&block)
      Thread.new do
        Thread.current.report_on_exception = false
        block.call
      end
    end

    def stop(thread)
      thread.kill
    end

    def pause(seconds)
      sleep(seconds)
    end
  end

  # Carries out each block in a thread of its own.
  class Executor
    def post(&block)
      Thread.new { block.call }
    end
  end

  ALL = { threads: Threads, **Reactors::ALL }.freeze

  # A caller, and what became of it.
  class Task
    def initialize(model, &block)
      @model = model
      @is_over = false
      @caller = model.start { carry_out(&block) }
    end

    def stop
      stop_now
      wait
    end

    # Without waiting for its end.
    def stop_now
      @model.stop(@caller)
    end

    # The block's value; or raises what it has raised.
    def value
      wait
      raise @error if @error

      @value
    end

    def error
      wait
      @error
    end

    private

    def carry_out
      @value = yield
    rescue StandardError => e
      @error = e
    ensure
      @is_over = true
    end

    def wait
      Models.wait_until(@model) { @is_over }
    end
  end

  # Defines a test for each model.
  def in_every_model(name, &block)
    define_method(scenario = :"scenario_#{name}", &block)
    ALL.each { |kind, model| define_method("test_#{name}_#{kind}") { model.run { send(scenario, model) } } }
  end

  module_function

  # Lets other callers run until the block is true.
  def wait_until(model)
    give_up = Support.now + Support::GENEROUS
    until yield
      raise "it did not happen in time" if Support.now > give_up

      model.pause(0.002)
    end
  end
end
