# frozen_string_literal: true

require_relative "support"
require_relative "models"
require_relative "sharing_clients"

# The scenarios of scenarios/namespaces.json, tags.json and near.json: who reads what after a clear, an invalidation, an
# eviction, or another's write. In every model; and with some of their clients in Python.
class TestSharingScenarios < PinyonTest
  extend Models
  include SharingClients

  # Those that a real server can play. Each client has all its settings.
  SCENARIOS = %w[namespaces tags near].flat_map do |name|
    file = JSON.parse(File.read(File.join(Support::ROOT, "scenarios", "#{name}.json")))
    file["scenarios"].reject { |each| each["simulated"] }.map do |scenario|
      common = file["client"].merge(scenario["client"] || {})
      clients = scenario["clients"].transform_values { |own| own.key?("using") ? own : common.merge(own) }
      scenario.merge("clients" => clients)
    end
  end

  # One scenario.
  class Playing
    # @param prefix [String] what all namespaces begin with
    # @param places [Hash{String => Class}] where clients are: {Here} unless it says so
    def initialize(test, model, server, prefix, settings, places: {})
      @test = test
      @model = model
      @server = server
      @settings = settings.transform_values do |own|
        own.key?("using") ? own : own.merge("namespace" => "#{prefix}#{own["namespace"]}")
      end
      connect = ->(**given) { test.client(server.address, **given) }
      made = Hash.new { |all, kind| all[kind] = kind.new(connect, method(:play)) }
      @clients = settings.to_h { |name, own| [name, made[places.fetch(own["using"] || name, SharingClients::Here)]] }
      @settings.sort_by { |_, own| own.key?("using") ? 1 : 0 }.each { |name, own| @clients[name].add(name, own) }
      @kept = {}
    end

    def play(steps)
      steps.each { |step| step(step.transform_keys(&:to_sym)) }
    end

    private

    def step(step)
      case step
      in { evict: what } then evict(**what.transform_keys(&:to_sym))
      in { together: steps } then steps.map { |each| Models::Task.new(@model) { play([each]) } }.each(&:value)
      in { servers: "stop" } then @server.kill
      in { by:, call: } then expect(step, @clients[by].call(by, call))
      end
    end

    def expect(step, outcome)
      if step.key?(:raises)
        @test.assert_includes outcome.raised.to_a, step[:raises], step
        return
      end
      @test.assert_nil outcome.raised, step
      @test.assert_equal [step.fetch(:makes, outcome.makes)], [outcome.makes], step
      @test.assert_includes allowed(step, outcome.returned), outcome.returned, step
      @kept[step[:keeps]] = outcome.returned if step.key?(:keeps)
    end

    def allowed(step, returned)
      step[:returns_one_of] || [step.fetch(:returns) { @kept.fetch(step[:returns_kept], returned) }]
    end

    # Deletes an item, which is named by what it is, by the key under which it is stored.
    def evict(of: nil, key: nil, tag: nil, generation_of: nil)
      settings = @settings[of || generation_of]
      raw = @test.client(@server.address)
      stored = "#{settings["namespace"]}!generation"
      if of
        generation = settings["clearable"] ? raw.get(stored) : ""
        stored = "#{settings["namespace"]}#{generation}#{key || "!tag:#{tag}"}"
      end
      @test.assert raw.delete(stored), stored
    end
  end

  def play(scenario, model, server: nil, **places)
    return with_server { |own| play(scenario, model, server: own) } if scenario["own_server"] && !server

    Playing.new(self, model, server || memcached, namespace, scenario["clients"], **places).play(scenario["steps"])
  end

  SCENARIOS.each do |scenario|
    name = scenario["name"].gsub(/\W+/, "_")
    in_every_model(name) { |model| play(scenario, model) }
    first, *others = scenario["clients"].reject { |_, own| own.key?("using") }.keys
    next if others.empty? || scenario["own_server"]

    define_method("test_#{name}_first_in_python") { play(scenario, Models::Threads, places: { first => InPython }) }
    define_method("test_#{name}_others_in_python") do
      play(scenario, Models::Threads, places: others.to_h { |each| [each, InPython] })
    end
  end
end
