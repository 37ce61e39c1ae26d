# frozen_string_literal: true

module PinyonBench
  # Threads. Work that is done by one caller runs in the main thread.
  module Threads
    module_function

    # The versions of what it runs on.
    def version
      "Ruby #{RUBY_VERSION}"
    end

    # Runs the block.
    def run
      yield
    end

    # Runs all works at once. Returns their values; raises the error of the first that failed.
    def together(works)
      threads = works.map do |work|
        Thread.new do
          Thread.current.report_on_exception = false
          work.call
        end
      end
      threads.map(&:value)
    end

    # Lets the others run for so long.
    def pause(seconds)
      sleep(seconds)
    end
  end

  # The concurrency model of this process.
  MODEL = Threads
end
