# frozen_string_literal: true

require "open3"
require_relative "support"

# Clients in Ractors, and where Pinyon does not run. Each test has a process of its own: Ruby warns of Ractors, and a
# test's main process must not have several.
class TestRactors < PinyonTest
  CACHE = <<~RUBY
    cache = Ractor.make_shareable(Pinyon::Client.new(ARGV[0], timeout: 60, connect_timeout: 60))
    numbers = Array.new(4) do |number|
      Ractor.new(cache, number) do |cache, number|
        (1..200).count do |round|
          cache.set("\#{number}:\#{round}", "\#{number} \#{round}") && cache.get("\#{number}:\#{round}") == "\#{number} \#{round}"
        end
      end
    end.map(&:take)
    p numbers, cache.get("3:200"), cache.get_many((1..200).map { |round| "0:\#{round}" }).size
  RUBY
  FETCH = <<~RUBY
    cache = Ractor.make_shareable(Pinyon::Client.new(ARGV[0], timeout: 60, connect_timeout: 60))
    values = Array.new(4) do |number|
      Ractor.new(cache, number) { |cache, number| cache.fetch("made in a Ractor".tr(" ", "-"), ttl: 60) { number } }
    end.map(&:take)
    p values.uniq.size
  RUBY
  LOCKS = <<~RUBY
    generous = { timeout: 60, command_timeout: 60, connect_timeout: 60 }
    locks = Ractor.make_shareable(Pinyon::Locks.new("unix://\#{ARGV[0]}", namespace: "ractors", **generous))
    tokens = Array.new(4) do
      Ractor.new(locks) { |locks| Array.new(50) { locks.synchronize("name") { |held| held.token } } }
    end.flat_map(&:take)
    p tokens.uniq.size, locks.locked?("name")
  RUBY

  ON_LOST = <<~RUBY
    told = nil.instance_eval { ->(event) {} }
    locks = Pinyon::Locks.new("unix://\#{ARGV[0]}", namespace: "ractors", command_timeout: 60, on_event: told)
    Ractor.make_shareable(locks)
    said = Ractor.new(locks) do |locks|
      locks.lock("told", on_lost: ->(held) {})
    rescue Pinyon::UsageError => error
      error.message
    end.take
    Ractor.new(locks) { |locks| locks.synchronize("told") { nil } }.take
    puts said, locks.locked?("told")
  RUBY

  def said_by(program, *arguments, options: ["-W:no-experimental"])
    library = File.expand_path("../lib", __dir__)
    said, ended = Open3.capture2e(RbConfig.ruby, *options, "-I", library, "-r", "pinyon", "-e", program, *arguments)
    [said, ended.success?]
  end

  def test_a_shared_client
    assert_equal ["[200, 200, 200, 200]\n\"3 200\"\n200\n", true], said_by(CACHE, memcached.address)
    assert_equal ["1\n", true], said_by(FETCH, memcached.address)
    assert_equal ["200\nfalse\n", true], said_by(LOCKS, redis.address)
  end

  def test_a_ractor_that_wants_to_be_told_of_losses_gets_no_lock
    said = "on_lost works in the main Ractor only; ask the lock here: held.lost?, held.check!\nfalse\n"
    assert_equal [said, true], said_by(ON_LOST, redis.address)
  end

  def test_a_client_that_is_not_shared
    ["Pinyon::Client.new(ARGV[0])", "Pinyon::Locks.new(\"unix://\" + ARGV[0])"].each do |made|
      said, succeeded = said_by("Ractor.new(#{made}) { |client| client.close }.take", memcached.address)
      refute succeeded
      assert_match(/To use it in another Ractor, share it: Ractor\.make_shareable\(client\) \(Pinyon::Usage/, said)
    end
  end

  def test_a_client_is_not_cloned
    assert_match(/Pinyon::Client cannot be cloned/, assert_raises(Pinyon::UsageError) { client.clone }.message)
    assert_match(/Pinyon::Locks cannot be cloned/, assert_raises(Pinyon::UsageError) { locks.clone }.message)
  end

  def test_another_ruby
    engine = "Object.send(:remove_const, :RUBY_ENGINE); RUBY_ENGINE = \"jruby\""
    library = File.expand_path("../lib", __dir__)
    said, ended = Open3.capture2e(RbConfig.ruby, "-I", library, "-e", "#{engine}; require \"pinyon\"")
    refute_predicate ended, :success?
    assert_match(/does not run in jruby; use CRuby 3\.1 or newer \(LoadError\)/, said)
  end

  # Ruby itself looks at the hooks.
  def test_a_scheduler_without_a_hook_that_is_needed
    %i[block unblock io_wait kernel_sleep].each do |hook|
      scheduler = Class.new do
        (%i[block unblock io_wait kernel_sleep close fiber] - [hook]).each { |name| define_method(name) { |*| nil } }
      end
      error = assert_raises(ArgumentError) { Thread.new { quietly { Fiber.set_scheduler(scheduler.new) } }.value }
      assert_equal "Scheduler must implement ##{hook}", error.message
    end
  end

  def quietly
    Thread.current.report_on_exception = false
    yield
  end
end
