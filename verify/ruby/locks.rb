# frozen_string_literal: true

# A client process of Ruby's among those of `python -m pinyon_verify locks`:
#
#   ruby locks.rb SETTINGS
#
# It works and records as pinyon_verify/locks/share.py and work.py do, in threads or in the fibers of async.

require "json"
require "pinyon"
require_relative "locks/candidate"
require_relative "locks/records"
require_relative "locks/worker"

NAMESPACE = "verify"

# How workers run at the same time, and how one acquires a lock unless it is cancelled before.
module Models
  # Threads. They are cancelled by the lock's own timeout.
  module Threads
    module_function

    def run(works)
      works.map { |work| Thread.new { work.call } }.each(&:join)
    end

    def acquire(cancel_after, options)
      yield options.merge({ timeout: cancel_after }.compact)
    end
  end

  # Fibers of the gem async. They are cancelled by their task, in the middle of the wait.
  module Asynchronous
    module_function

    def run(works)
      require "async"
      Async { |task| works.map { |work| task.async { work.call } }.each(&:wait) }
    end

    def acquire(cancel_after, options)
      return yield(options) unless cancel_after

      Async::Task.current.with_timeout(cancel_after) { yield options }
    rescue Async::TimeoutError
      raise Pinyon::LockTimeout, "cancelled"
    end
  end

  ALL = { "ruby-threads" => Threads, "ruby-async" => Asynchronous }.freeze
end

def wait_for_start(folder)
  path = File.join(folder, "start")
  sleep(0.005) until File.exist?(path)
end

# Records when this process got no processor time.
def watch_for_stalls(recorder, folder)
  Thread.new do
    while (before = now) < ending(folder)
      sleep(0.02)
      recorder.call("stall", at: before, until: now) if now - before > 80_000_000
    end
  end
end

settings = JSON.parse(File.read(ARGV.fetch(0)), symbolize_names: true)
recorder = Recorder.new(settings[:folder])
recorder.call("ready")
wait_for_start(settings[:folder])
watch_for_stalls(recorder, settings[:folder])
own = settings.slice(:ttl, :heartbeat, :command_timeout, :handler, :fairness)
connect_timeout = [1.0, own[:command_timeout]].max
make = -> { Pinyon::Locks.new(settings[:url], namespace: NAMESPACE, connect_timeout:, **own) }
shared = make.call unless settings[:apart]
model = Models::ALL.fetch(settings[:model])
all = Array.new(settings[:workers]) { shared || make.call }
workers = all.each_with_index.map do |locks, number|
  next Candidate.new(Candidacy.new(settings, recorder, number), locks) if settings[:leads]

  Worker.new(model, Share.new(settings, recorder, number), locks)
end
model.run(workers.map { |worker| worker.method(:work) })
all.each(&:close)
recorder.call("over")
