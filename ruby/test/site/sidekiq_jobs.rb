# frozen_string_literal: true

# Unique jobs of Sidekiq, for a process of its own and for the test that pushes them.

require "sidekiq"
require "sidekiq/api"
require "pinyon/unique"

# Sidekiq 6 uses a method whose result changes in a later version of its client.
Redis.sadd_returns_boolean = false if defined?(Redis) && Redis.respond_to?(:sadd_returns_boolean=)
Sidekiq.logger.level = Logger::WARN
REDIS_ADDRESS = ENV.fetch("UNIQUE_REDIS")
Sidekiq.configure_client { |config| config.redis = { path: REDIS_ADDRESS } }
Sidekiq.configure_server do |config|
  config.redis = { path: REDIS_ADDRESS }
  (config.respond_to?(:options) ? config.options : config)[:poll_interval_average] = 0.1
end
SIDEKIQ_LOCKS =
  Pinyon::Locks.new("unix://#{REDIS_ADDRESS}", namespace: "jobs", command_timeout: 60, connect_timeout: 60)

module SidekiqJobs
  # Says what it does, and waits until the test opens its gate.
  class Job
    def self.inherited(kind)
      super
      kind.include(Sidekiq::Worker)
      kind.include(Pinyon::Unique)
    end

    def perform(_number, name)
      SIDEKIQ_LOCKS.execute("RPUSH", "told", "#{name} #{Process.pid}")
      sleep(0.01) until SIDEKIQ_LOCKS.execute("EXISTS", "open:#{name}") == 1
    end
  end

  class Report < Job
    unique "report:{_number}", locks: SIDEKIQ_LOCKS, ttl: 3
  end

  class Newest < Job
    unique(locks: SIDEKIQ_LOCKS, on_conflict: :replace, timeout: 0.05) { |number, _| "newest:#{number}" }
  end

  class Alone < Job
    unique "alone:{0}", locks: SIDEKIQ_LOCKS, when: :running, on_conflict: :wait, timeout: 0.05, retry_in: 0.1
  end

  class Single < Job
    unique "single:{0}", locks: SIDEKIQ_LOCKS, when: :running, ttl: 3
  end

  class Again < Job
    unique "again:{0}", locks: SIDEKIQ_LOCKS
    sidekiq_options retry: 1
    sidekiq_retry_in { 1 }

    def perform(_number, name)
      super
      raise "it fails"
    end
  end
end
