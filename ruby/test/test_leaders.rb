# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# Leaders: the scenarios of scenarios/leaders.json, and what belongs to Ruby alone.
class TestLeaders < PinyonTest
  FILE = JSON.parse(File.read(File.join(Support::ROOT, "scenarios", "leaders.json")))
  # The time limit of every step in seconds, for slow machines too.
  PATIENCE = 100

  # Candidates in threads.
  module Threads
    module_function

    def run
      yield
    end

    def pause(seconds)
      sleep(seconds)
    end
  end

  # A leader, and what its callbacks were called with.
  class Candidate
    attr_reader :leader, :called

    def initialize(locks, name, fails)
      @called = []
      callback = lambda do |kind|
        lambda do |token|
          @called << [kind, token]
          raise ArgumentError, "the test wants it" if fails["on_#{kind}"]
        end
      end
      @leader = locks.leader(name, on_elected: callback["elected"], on_lost: callback["lost"]).start
    end

    def kinds
      @called.map(&:first)
    end

    # Those with which it was elected. Each was told of its end, the last one perhaps not.
    def tokens
      elected, lost = %w[elected lost].map { |kind| @called.select { |of, _| of == kind }.map(&:last) }
      in_order = (%w[elected lost] * elected.size).take(@called.size) == kinds
      raise "wrong calls: #{@called}" unless in_order && elected.take(lost.size) == lost && elected.sort.uniq == elected

      elected
    end
  end

  # One scenario, on a server of its own.
  class Playing
    def initialize(model, server, scenario)
      @model = model
      @server = server
      @scenario = scenario
      settings = { **FILE["client"], **scenario.fetch("client", {}) }.transform_keys(&:to_sym)
      @told = Hash.new { |all, name| all[name] = [] }
      @clients = Hash.new do |all, name|
        on_event = ->(event) { @told[name] << event.message }
        all[name] = Pinyon::Locks.new("unix://#{server.address}", namespace: "leaders", on_event:, **settings)
      end
      @candidates = {}
    end

    def play
      @scenario["steps"].each { |step| step(step) }
      @candidates.each_value do |candidate|
        wrong("the end", "does not come") unless candidate.leader.stop(PATIENCE)
        wrong(candidate.called, "does not end") unless candidate.tokens.size * 2 == candidate.called.size
      end
    ensure
      @clients.each_value(&:close)
    end

    private

    def step(step)
      case step["server"]
      when "stop" then return Thread.new { @server.kill }.join
      when "start" then return Thread.new { @server.start }.join
      end
      ends = Support.now + PATIENCE
      until (found = use(step["by"], *step["call"])) == step.fetch("returns", found)
        wrong(step, "returned #{found.inspect}") if !step["eventually"] || Support.now > ends
        @model.pause(0.002)
      end
    end

    def use(by, method, *arguments)
      locks = @clients[by]
      case method
      when "start" then start(locks, *arguments)
      when "close" then locks.close
      when "waiting" then locks.waiting(*arguments)
      when "force_release" then locks.force_release(*arguments.first)
      when "told" then @told[by].any? { |line| line.include?(arguments.first) }
      when "has_leader" then !locks.leader(*arguments).current.nil?
      else use_candidate(locks, @candidates[arguments.first], method, *arguments.drop(1))
      end
    end

    def start(locks, name, of, fails = {})
      @candidates[name] = Candidate.new(locks, of, fails)
      nil
    end

    def use_candidate(locks, candidate, method, *arguments)
      leader = candidate.leader
      case method
      when "leads" then locks.leader(*arguments).current&.token == leader.token
      when "called" then candidate.kinds
      when "called_at_first" then candidate.kinds.take(arguments.first.size) == arguments.first
      when "is_later" then candidate.tokens.last > @candidates[arguments.first].tokens.last
      when "is_later_than_before" then candidate.tokens[-1] > candidate.tokens[-2]
      when "is_leader" then leader.leader?
      when "state" then leader.state.to_s
      when "stop" then leader.stop(PATIENCE)
      when "resign" then leader.resign
      end
    end

    def wrong(what, why)
      raise "#{what}: #{why}"
    end
  end

  # All models at the same time, as they mostly wait.
  def test_each_scenario_in_threads_and_in_every_reactor
    failed = Queue.new
    models = { threads: Threads, **Reactors::ALL }
    # The callbacks that fail are told on stderr, too.
    _, said = capture_io { models.map { |kind, model| Thread.new { play_all(kind, model, failed) } }.each(&:join) }
    assert_includes said, "the test wants it"
    assert_empty Array.new(failed.size) { failed.pop }
  end

  def play_all(kind, model, failed)
    server = Support::Server.new(*Support::REDIS)
    FILE["scenarios"].each do |scenario|
      model.run { Playing.new(model, server, scenario).play }
    rescue StandardError => e
      failed << "#{scenario["name"]} in #{kind}: #{e.full_message(highlight: false)}"
    end
  ensure
    server&.stop
  end

  def test_a_block_has_a_candidate
    candidates = locks
    seen = candidates.leader("a") do |leader|
      assert leader.wait(PATIENCE)
      assert_equal leader.token, candidates.leader("a").current.token
      leader
    end
    assert_equal [:stopped, nil, nil], [seen.state, seen.token, seen.current]
  end

  def test_a_candidate_that_is_started_twice_is_refused
    leader = locks.leader("a").start
    assert_raises(Pinyon::UsageError) { leader.start }
    leader.stop
    assert leader.start.wait(PATIENCE)
    assert leader.stop
  end

  def test_what_makes_no_sense_is_refused
    assert_raises(Pinyon::UnsupportedType) { locks.leader("a", on_elected: 1) }
    assert_raises(Pinyon::InvalidName) { locks.leader("") }
    assert_raises(Pinyon::UsageError) { locks.leader("a", ttl: 0) }
  end

  def test_a_callback_may_resign_and_stop
    called = Queue.new
    client = locks
    leader = client.leader("a", on_elected: ->(_) { called << leader.stop }, on_lost: ->(_) { called << :lost })
    leader.start
    assert_equal [false, :lost], [called.pop, called.pop]
    assert leader.stop(PATIENCE)
    refute client.locked?("a")
  end

  # A callback that works as long as it leads ends when it is told to.
  def test_a_long_callback_sees_that_it_leads_no_more
    client = locks
    leader = client.leader("a", on_elected: ->(_) { sleep(0.01) while leader.leader? })
    leader.start
    assert leader.wait(PATIENCE)
    client.force_release("a")
    Support.eventually { leader.token.nil? }
    assert leader.stop(PATIENCE)
  end

  def test_a_thread_that_is_killed_releases_its_lock
    client = locks
    leader = client.leader("a").start
    assert leader.wait(PATIENCE)
    Thread.list.select { |thread| thread.name == "pinyon leader" }.each(&:kill)
    Support.eventually { !client.locked?("a") }
    assert leader.stop(PATIENCE)
  end

  def test_a_forked_child_does_not_go_on
    client = locks
    leader = client.leader("a").start
    assert leader.wait(PATIENCE)
    seen = in_child { [leader.leader?, leader.state, leader.stop, leader.start.wait(0.2), leader.state] }
    assert_equal [false, "stopped", true, false, "candidate"], seen
    assert leader.leader?
    assert leader.stop
  end

  def test_the_end_of_a_program_ends_its_leaders
    program = <<~RUBY
      locks = Pinyon::Locks.new("unix://#{redis.address}", namespace: "#{namespace}")
      locks.leader("a", on_lost: ->(token) { puts "lost" }).start.wait
    RUBY
    said = IO.popen([RbConfig.ruby, "-I#{File.join(Support::ROOT, "ruby", "lib")}", "-rpinyon", "-e", program], &:read)
    assert_equal "lost\n", said
    refute locks.locked?("a")
  end
end
