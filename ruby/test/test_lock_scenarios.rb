# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# The scenarios of scenarios/locks.json: what a lock does on a real server.
class TestLockScenarios < PinyonTest
  FILE = JSON.parse(File.read(File.join(Support::ROOT, "scenarios", "locks.json")))
  # The time limit of every step in seconds, for slow machines too.
  PATIENCE = 100
  # Some locks last for three seconds. A busy machine may hold up everything for longer, but not each time.
  ATTEMPTS = 3

  # Callers that are threads.
  module Threads
    module_function

    def run
      yield
    end

    def start(&block)
      Thread.new(&block)
    end

    def pause(seconds)
      sleep(seconds)
    end
  end

  # What is wrong in a scenario.
  class Wrong < StandardError; end

  # A thread or fiber that does one call after another.
  class Caller
    def initialize(model)
      @calls = []
      model.start do
        until (call = @calls.shift) == :end
          call ? call.call : model.pause(0.002)
        end
      end
    end

    # Returns where the outcome will be.
    def begin(&call)
      outcome = []
      @calls << lambda do
        outcome << call.call
      rescue Pinyon::Error => e
        outcome << e
      end
      outcome
    end

    def end
      @calls << :end
    end
  end

  # One scenario, in a namespace of its own.
  class Playing
    def initialize(model, url, namespace, scenario)
      @model = model
      @steps = scenario["steps"] + [{ "by" => "A", "call" => ["left_behind"], "returns" => [], "eventually" => true }]
      @namespace = namespace
      settings = { **FILE["client"], **scenario.fetch("client", {}) }.transform_keys(&:to_sym)
      @clients = Hash.new { |all, name| all[name] = Pinyon::Locks.new(url, namespace:, **settings) }
      @callers = Hash.new { |all, name| all[name] = Caller.new(model) }
      @held = {}
      @losses = Hash.new(0)
      @tickets = {}
      @begun = {}
    end

    def play
      @steps.each { |step| step(step) }
    ensure
      @clients.each_value(&:close)
      @callers.each_value(&:end)
    end

    private

    def step(step)
      begun_at = Support.now
      return check(step, ended(@begun[step["ends"]])) if step["ends"]
      return @begun[step["begins"]] = begun(step) if step["begins"]

      begin
        check(step, ended(begun(step)))
      rescue Wrong
        raise if !step["eventually"] || Support.now > begun_at + PATIENCE

        @model.pause(0.002)
        retry
      end
      wrong(step, "was too quick") if Support.now - begun_at < step.fetch("takes", 0)
    end

    def begun(step)
      locks = @clients[step["by"][0]]
      @callers[step["by"]].begin { use(locks, *step["call"]) }
    end

    def ended(outcome)
      give_up = Support.now + PATIENCE
      while outcome.empty?
        wrong(outcome, "never ends") if Support.now > give_up
        @model.pause(0.001)
      end
      outcome.first
    end

    def use(locks, method, *arguments)
      case method
      when "acquire" then acquired(*arguments) { |names, settings| locks.lock(*names, **settings) }
      when "try_lock" then acquired(*arguments) { |names, settings| locks.try_lock(*names, **settings) }
      when "adopt" then adopted(locks, *arguments)
      when "close" then locks.close
      when "release_all" then locks.release_all
      when "is_locked" then locks.locked?(*arguments)
      when "waiting" then locks.waiting(*arguments)
      when "owners" then owners(locks.status(*arguments).first)
      when "execute" then locks.execute(*arguments.map { |part| part.to_s.sub("{namespace}", "{#{@namespace}}") })
      when "allow" then rate(locks, *arguments.take(2)).allow(*arguments.drop(2)).allowed
      when "wait_for_permits" then rate(locks, *arguments.take(2)).wait(arguments[2], timeout: arguments[3]).allowed
      when "left_behind" then locks.execute("KEYS", "{#{@namespace}}:*").grep_v(/:#[fp]\z|:#x:/)
      when "force_release" then locks.force_release(*arguments[0], token: @held[arguments[1]]&.token)
      else use_held(locks, @held[arguments.first], method, *arguments)
      end
    end

    def owners(status)
      holders = status.readers.empty? ? [status.holder].compact : status.readers
      (holders + status.waiting).map { |attempt| status.owners[attempt].to_a.last(2) }
    end

    def rate(locks, name, settings)
      locks.rate(name, **settings.transform_keys(&:to_sym))
    end

    def acquired(name, names, settings = {})
      on_lost = ->(_) { @losses[name] += 1 }
      terms = settings.transform_keys(&:to_sym)
      terms[:on_failure] = terms[:on_failure].to_sym if terms[:on_failure]
      held = yield(names, { on_lost:, **terms })
      @held[name] = held if held
      !held.nil?
    end

    def adopted(locks, name, ticket, settings = {})
      acquired(name, @tickets[ticket], settings) { |given, terms| locks.adopt(given, **terms) }
    end

    def use_held(locks, held, method, name, *arguments)
      case method
      when "check" then held.check! && nil
      when "hand_over" then !(@tickets[arguments.first] = held.hand_over).empty?
      when "upgrade" then held.upgrade(*arguments[0], timeout: arguments[1]) && true
      when "downgrade" then held.downgrade(*arguments[0]) && true
      when "is_lost" then !held.held?
      when "is_certain" then held.certain?
      when "losses" then @losses[name]
      when "lasts" then held.remaining.between?(*arguments)
      when "is_later" then held.token > @held[arguments.first].token
      when "is_held_by" then locks.status(*arguments).first.token == held.token
      when "extend" then held.extend_to(*arguments)
      when "notify" then arguments == [0] ? held.notify_all : held.notify(*arguments)
      else held.public_send(method, *arguments)
      end
    end

    def check(step, outcome)
      unless outcome.is_a?(Pinyon::Error)
        wrong(step, "returned #{outcome.inspect}") if step["raises"] || step.fetch("returns", outcome) != outcome
        return
      end
      is_right = outcome.class.to_s == "Pinyon::#{step["raises"]}" && outcome.message.match?(step.fetch("says", ""))
      wrong(step, "raised #{outcome.inspect}") unless is_right
      wrong(step, "raised #{outcome.inspect}") unless step["cycle"].nil? || outcome.cycle.size == step["cycle"]
    end

    def wrong(what, why)
      raise Wrong, "#{what}: #{why}"
    end
  end

  # All models at the same time, as they mostly wait.
  def test_each_in_threads_and_in_every_reactor
    redis
    failed = Queue.new
    models = { threads: Threads, **Reactors::ALL }
    models.map { |kind, model| Thread.new { play_all(kind, model, failed) } }.each(&:join)
    assert_empty Array.new(failed.size) { failed.pop }
  end

  def play_all(kind, model, failed)
    left = FILE["scenarios"].each_with_index.to_a
    model.run do
      playing = Array.new(8) { model.start { play_some(kind, model, left, failed) } }
      playing.grep(Thread).each(&:join)
    end
    failed << "#{kind}: #{left.size} were not played" unless left.empty?
  end

  def play_some(kind, model, left, failed)
    while (scenario, number = left.shift)
      failure = nil
      played = (1..ATTEMPTS).any? do |attempt|
        Playing.new(model, "unix://#{redis.address}", "#{kind}#{number}.#{attempt}", scenario).play
      rescue StandardError => e
        failure = "#{scenario["name"]} in #{kind}: #{e.full_message(highlight: false)}"
        false
      end
      failed << failure unless played
    end
  end
end
