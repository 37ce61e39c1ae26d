# frozen_string_literal: true

require_relative "support"
require_relative "models"

# The scenarios of scenarios/leases.json and leases_many.json: what fetch and fetch_many do when their block fails, or
# says how long its values are kept.
class TestLeaseScenarios < PinyonTest
  extend Models

  SCENARIOS = %w[leases leases_many].flat_map do |name|
    JSON.parse(File.read(File.join(Support::ROOT, "scenarios", "#{name}.json")))["scenarios"]
  end

  # What blocks fail with.
  class DatabaseError < StandardError; end

  # One scenario.
  class Playing
    # Makes clients by a block, which gets what takes their events.
    def initialize(test, model, **also)
      @test = test
      @also = also
      @model = model
      @told = []
      @leases = []
      @clients = Hash.new { |all, name| all[name] = yield @told.method(:<<) }
    end

    def step(step)
      name, *arguments = step["call"]
      @failed = step.key?("failing") ? {} : nil
      outcome = outcome_of(@clients[step["by"]], name, arguments)
      if step["eventually"]
        Models.wait_until(@model) { step["returns"] == (outcome = outcome_of(@clients[step["by"]], name, arguments)) }
      end
      check(step, outcome)
    end

    private

    def outcome_of(client, name, arguments)
      @made = []
      send(name, client, *arguments)
    rescue Pinyon::Error, DatabaseError => e
      e
    end

    def check(step, outcome)
      if step.key?("returns")
        @test.assert_equal step["returns"], outcome, step
      elsif step.key?("fails")
        @test.assert_equal [DatabaseError, step["fails"]], [outcome.class, outcome.message], step
      else
        @test.assert_kind_of Pinyon.const_get(step["raises"]), outcome, step
        @test.assert_match Regexp.new(step["says"]), outcome.message, step
      end
      @test.assert_equal step["failing"], @failed.transform_values { _1.class.name.split("::").last }, step if @failed
      makes = { true => [["key"]], false => [] }.fetch(step["makes"], [step["makes"]])
      @test.assert_equal makes, @made, step if step.key?("makes")
    end

    def get_or_set(client, maker, terms)
      client.fetch("key", **as_given(terms), **@also) { value_of(maker) }
    end

    def refresh(client, maker, terms)
      client.cached(key: "key", **as_given(terms), **@also) { value_of(maker) }.refresh
    end

    def value_of(maker)
      @made << ["key"]
      raise DatabaseError, maker["fails"] if maker.key?("fails")

      maker.fetch("value") { made(maker) }
    end

    def get_or_set_many(client, keys, maker, terms)
      client.fetch_many(keys, failed: @failed, **as_given(terms)) do |asked|
        @made << asked
        raise DatabaseError, maker["fails"] if maker.key?("fails")

        maker.transform_values { |value| value.is_a?(Hash) ? made(value) : value }
      end
    end

    def get(client)
      client.get("key")
    end

    def gat(client, ttl)
      client.gat("key", ttl)
    end

    def touch(client, ttl)
      client.touch("key", ttl)
    end

    def as_given(terms)
      terms = terms.transform_keys(&:to_sym)
      terms[:ttl] = ->(value) { Integer(value) } if terms[:ttl] == "number"
      terms
    end

    def made(maker)
      Pinyon::Made.new(maker["made"], **maker.except("made").transform_keys(&:to_sym))
    end

    def mark_stale(client, seconds, key = "key")
      client.delete(key, stale: seconds)
    end

    def delete(client, key = "key")
      client.delete(key)
    end

    def lease(client, key)
      @leases << client.lease(key, lease: 1000)
      @leases.last.state.to_s
    end

    def ttl_is_within(client, low, high, key = "key")
      ((low - Support::GENEROUS)..high).cover?(client.meta(key).ttl)
    end

    def kept(client)
      client.metrics.values.sum { |server| server[:commands].dig("lease", :kept) || 0 }
    end

    def events(_client, kind, reason)
      @told.count { |event| event.kind == kind.to_sym && event.message.end_with?(reason) }
    end
  end

  SCENARIOS.each do |scenario|
    in_every_model(scenario["name"].gsub(/\W+/, "_")) do |model|
      also = scenario["behind"] && model == Models::Threads ? { executor: Models::Executor.new } : {}
      playing = Playing.new(self, model, **also) { |on_event| client(namespace:, on_event:) }
      scenario["steps"].each { |step| playing.step(step) }
    end
  end
end
