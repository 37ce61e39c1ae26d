# frozen_string_literal: true

require_relative "support"
require "active_support"
require "active_support/core_ext/numeric/time"
require "active_support/logger"
require "active_support/notifications"
require "active_support/cache/pinyon_store"
require "logger"
require "stringio"

# Stores of Rails on servers of the tests.
module RailsCaches
  # Keeps the names of the client's methods that are called.
  module Recorded
    def calls
      @calls ||= []
    end

    methods = [Pinyon::Client, Pinyon::Leases].flat_map { |owner| owner.public_instance_methods(false) }
    (methods - %i[close closed? inspect to_s]).each do |method|
      define_method(method) do |*arguments, **settings, &block|
        calls << method
        super(*arguments, **settings, &block)
      end
    end
  end

  def store(*servers, timeout: Support::GENEROUS, connect_timeout: Support::GENEROUS, **options)
    servers = [memcached.address] if servers.empty?
    options = { namespace:, timeout:, connect_timeout:, **options }
    ActiveSupport::Cache.lookup_store(:pinyon_store, *servers, options).tap { |made| closing(made.client) }
  end

  # What the block makes the client do.
  def calls_of(store)
    store.client.extend(Recorded)
    store.client.calls.clear
    yield
    store.client.calls.dup
  end

  # What the block logs.
  def logged
    written = StringIO.new
    earlier = ActiveSupport::Cache::Store.logger
    ActiveSupport::Cache::Store.logger = Logger.new(written, level: :info)
    yield
    written.string
  ensure
    ActiveSupport::Cache::Store.logger = earlier
  end

  # The names and payloads of the notifications of caches.
  def notified(&block)
    seen = []
    note = ->(name, _start, _end, _id, payload) { seen << [name.delete_suffix(".active_support"), payload] }
    ActiveSupport::Notifications.subscribed(note, /\Acache_.*\.active_support\z/, &block)
    seen
  end
end
