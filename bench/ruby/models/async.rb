# frozen_string_literal: true

require "async"

module PinyonBench
  # Tasks of async, in one reactor that lives as long as the process.
  module Tasks
    module_function

    # The versions of what it runs on.
    def version
      "Ruby #{RUBY_VERSION}, async #{Async::VERSION}"
    end

    # Runs the block in a task.
    def run(&block)
      Sync(&block)
    end

    # Runs all works at once, each in a task. Returns their values; raises the error of the first that failed.
    def together(works)
      works.map { |work| Async { work.call } }.map(&:wait)
    end

    # Lets the others run for so long.
    def pause(seconds)
      sleep(seconds)
    end
  end

  # The concurrency model of this process.
  MODEL = Tasks
end
