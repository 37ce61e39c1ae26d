# frozen_string_literal: true

require "open3"
require "timeout"
require_relative "support"
require_relative "making"
require_relative "old_server"

# fetch: one caller makes a value, however many others want it, and whatever happens to the maker.
class TestFetch < PinyonTest
  def test_the_ttl_is_the_clients_if_no_other_is_given
    { 100 => 1..100, 0 => nil }.each do |default_ttl, expected|
      cache = client(default_ttl:)
      assert_equal 1, cache.fetch(key(default_ttl)) { 1 }
      left = cache.get_with_ttl(key(default_ttl)).last
      expected ? assert_includes(expected, left) : assert_nil(left)
    end
  end

  def test_get_makes_nothing
    error = assert_raises(Pinyon::UsageError) { client.get(key) { flunk } }
    assert_equal "get reads, and runs no block; use fetch to make a missing value by one", error.message
  end

  # Like Net::ReadTimeout, an error of the block's own code.
  class DatabaseTimeout < Timeout::Error; end

  def test_a_timeout_of_the_block_is_a_failure_and_one_of_the_caller_is_not
    cache = client
    cache.set(key, "old", ttl: 50)
    terms = { ttl: 100, early: 90, on_error: :stale }
    assert_raises(Timeout::Error) { Timeout.timeout(0.05) { cache.fetch(key, **terms) { sleep } } }
    assert_equal "old", cache.fetch(key, **terms) { raise DatabaseTimeout, "no answer" }
    assert_equal "old", cache.fetch(key, **terms) { flunk }
  end

  extend Models
  include Making

  [1, 4].each do |clients|
    in_every_model("a_missing_value_is_made_once_by_#{clients}") do |model|
      maker = Maker.new(model, { "made" => [1, 2] }, held: true)
      caches = Array.new(clients) { client }
      tasks = Array.new(40) do |number|
        Models::Task.new(model) { caches[number % clients].fetch(key, ttl: 60, &maker) }
      end
      maker.begun
      maker.held = false
      values = tasks.map(&:value)
      assert_equal 1, maker.calls
      assert_equal [{ "made" => [1, 2] }], values.uniq
      assert_equal 40, values.map { |value| value["made"].object_id }.uniq.size, "each has its own"
      assert_equal({ "made" => [1, 2] }, caches.first.fetch(key, ttl: 60, &NEVER))
    end
  end

  in_every_model(:those_of_one_process_ask_the_server_once) do |model|
    with_server do |server|
      cache = client(server.address)
      maker = Maker.new(model, "value", held: true)
      tasks = Array.new(20) { Models::Task.new(model) { cache.fetch(key, ttl: 60, &maker) } }
      maker.begun
      Models.wait_until(model) { following(cache) == 19 }
      maker.held = false
      assert_equal ["value"], tasks.map(&:value).uniq
      assert_equal %w[1 1], cache.stats[server.address].values_at("cmd_get", "cmd_set")
      assert_equal 0, following(cache)
    end
  end

  in_every_model(:of_a_value_that_is_to_end_only_the_winner_waits) do |model|
    cache = client
    other = client
    cache.set(key, "old", ttl: 50)
    maker = Maker.new(model, "new", held: true)
    winner = Models::Task.new(model) { cache.fetch(key, ttl: 100, early: 90, &maker) }
    maker.begun
    [cache, other].product([{ early: 90 }, { stale: 10, early: 80 }]) do |each, terms|
      assert_equal "old", each.fetch(key, ttl: 100, wait: 0, **terms, &NEVER)
    end
    maker.held = false
    assert_equal "new", winner.value
    assert_equal "new", other.fetch(key, ttl: 100, early: 90, &NEVER)
    assert_operator other.meta(key).ttl, :>, 90
  end

  # They joined a caller that was still asking, and did not know yet that it would have to make the value.
  in_every_model(:who_waits_for_an_answer_gets_what_there_is) do |model|
    with_server do |server|
      cache = client(server.address)
      cache.set(key, ["old"], ttl: 50)
      maker = Maker.new(model, ["new"], held: true)
      server.pause
      winner = Models::Task.new(model) { cache.fetch(key, ttl: 100, early: 90, &maker) }
      Models.wait_until(model) { cache.instance_variable_get(:@native).followers == [0] }
      others = Array.new(5) { Models::Task.new(model) { cache.fetch(key, ttl: 100, early: 90, &NEVER) } }
      Models.wait_until(model) { following(cache) == 5 }
      server.resume
      assert_equal [["old"]] * 5, others.map(&:value)
      maker.held = false
      assert_equal ["new"], winner.value
    end
  end

  def test_the_ttl_is_that_of_a_fresh_and_a_stale_value
    cache = client
    [[100, 0, 100], [100.5, 50, 151], [40 * 86_400, 9, (40 * 86_400) + 9]].each do |ttl, stale, all|
      cache.fetch(key(all), ttl:, stale:) { "value" }
      assert_in_delta all, cache.meta(key(all)).ttl, GENEROUS
    end
    cache.fetch(key, ttl: 0) { "value" }
    assert_nil cache.meta(key).ttl
  end

  in_every_model(:a_maker_that_is_killed_holds_nobody_beyond_its_lease) do |model|
    cache = client
    maker = Maker.new(model, "value")
    making_elsewhere(lease: 1) do |process|
      tasks = Array.new(5) { Models::Task.new(model) { cache.fetch(key, ttl: 60, wait: GENEROUS, &maker) } }
      Process.kill(:KILL, process.pid)
      assert_equal ["value"] * 5, tasks.map(&:value)
    end
    assert_equal 1, maker.calls
  end

  in_every_model(:who_waits_in_vain_is_told) do |model|
    cache = client
    making_elsewhere(lease: LONG) do
      [0, 0.2].each do |wait|
        error = assert_raises(Pinyon::LeaseTimeout) { cache.fetch(key, ttl: 60, wait:, &NEVER) }
        assert_match(/the value of ".*" is still being made by another caller/, error.message)
        assert_kind_of Timeout::Error, error
      end
      assert_nil cache.get(key), "a placeholder is no value"
      refute cache.add(key, "other")
    end
    maker = Maker.new(model, "value", held: true)
    making = Models::Task.new(model) { cache.fetch(key("here"), ttl: 60, &maker) }
    maker.begun
    [0, 0.1].each do |wait|
      assert_raises(Pinyon::LeaseTimeout) { cache.fetch(key("here"), ttl: 60, wait:, &NEVER) }
    end
    maker.held = false
    assert_equal "value", making.value
  end

  in_every_model(:what_the_block_raises_is_raised_in_all_and_the_next_caller_makes_at_once) do |model|
    cache = client
    error = IndexError.new("the database is gone")
    maker = Maker.new(model, error, held: true)
    tasks = Array.new(5) { Models::Task.new(model) { cache.fetch(key, ttl: 60, lease: LONG, &maker) } }
    Models.wait_until(model) { following(cache) == 4 }
    maker.held = false
    tasks.each { |task| assert_same error, task.error }
    assert_equal 1, maker.calls
    assert_equal("value", client.fetch(key, ttl: 60, wait: 0) { "value" })
  end

  in_every_model(:a_stale_value_outlives_a_maker_that_fails) do |model|
    cache = client
    other = client
    cache.set(key, "old", ttl: 50)
    2.times do
      failing = Maker.new(model, IndexError.new)
      assert_raises(IndexError) { cache.fetch(key, ttl: 100, early: 90, &failing) }
      other.lease(key, recache: 90) do |lease|
        assert_equal [:won, "old"], [lease.state, lease.value]
        assert_operator other.meta(key).ttl, :>, 0
      end
    end
    assert_equal("new", cache.fetch(key, ttl: 100, early: 90, wait: 0) { "new" })
  end

  def test_every_value_is_a_hit
    cache = client
    ["".b, "", nil, 0, false, [], {}].each_with_index do |value, number|
      [-> { value }, NEVER].each { |make| assert_equal [value], [cache.fetch(key(number), ttl: 60, &make)] }
      lease = cache.lease(key(number))
      assert_equal [true, true, value], [lease.hit?, lease.value?, lease.value]
    end
  end

  in_every_model(:a_value_that_cannot_be_stored_is_an_error_and_the_lease_is_given_back) do |_model|
    cache = client(max_value_size: 1000)
    [[:symbol, Pinyon::UnsupportedType], ["x" * 1001, Pinyon::ValueTooLarge]].each do |value, error|
      assert_raises(error) { cache.fetch(key, ttl: 60, lease: LONG) { value } }
    end
    roomy = client(max_value_size: 4_000_000)
    assert_raises(Pinyon::ValueTooLarge) { roomy.fetch(key, ttl: 60, lease: LONG) { "x" * 3_000_000 } }
    assert_equal("value", cache.fetch(key, ttl: 60, wait: 0) { "value" })
  end

  in_every_model(:what_is_made_late_overwrites_nothing) do |model|
    cache = client
    other = client
    changes = { set: -> { other.set(key, "newer") }, delete: -> { other.delete(key) },
                stale: -> { other.delete(key, stale: 30) } }
    changes.each do |name, change|
      cache.delete(key)
      maker = Maker.new(model, "late", held: true)
      making = Models::Task.new(model) { cache.fetch(key, ttl: 60, &maker) }
      maker.begun
      assert change.call
      maker.held = false
      assert_equal "late", making.value
      expected = name == :set ? "newer" : "made anew"
      assert_equal(expected, other.fetch(key, ttl: 60, wait: 0) { "made anew" })
    end
  end

  in_every_model(:who_is_later_than_its_lease_overwrites_nothing) do |model|
    cache = client
    maker = Maker.new(model, "late", held: true)
    making = Models::Task.new(model) { cache.fetch(key, ttl: 60, lease: 1, &maker) }
    maker.begun
    assert_equal("newer", client.fetch(key, ttl: 60, wait: GENEROUS) { "newer" })
    maker.held = false
    assert_equal "late", making.value
    assert_equal "newer", cache.get(key)
  end

  in_every_model(:a_stale_value_is_handed_out_while_one_caller_makes_another) do |model|
    cache = client
    other = client
    cache.fetch(key, ttl: 600) { "old" }
    assert other.delete(key, stale: 300)
    refute other.delete(key("absent"), stale: 300)
    maker = Maker.new(model, "new", held: true)
    making = Models::Task.new(model) { cache.fetch(key, ttl: 60, &maker) }
    maker.begun
    [cache, other].each { |each| assert_equal "old", each.fetch(key, ttl: 60, wait: 0, &NEVER) }
    other.lease(key) { |lease| assert_equal [:stale, "old"], [lease.state, lease.value] }
    maker.held = false
    assert_equal "new", making.value
    assert_equal "new", other.get(key)
  end

  in_every_model(:a_caller_that_is_stopped_gives_back_and_another_makes) do |model|
    cache = client
    other = client
    never = Maker.new(model, "never", held: true)
    maker = Maker.new(model, "value")
    making = Models::Task.new(model) { cache.fetch(key, ttl: 60, lease: LONG, &never) }
    never.begun
    gone = Models::Task.new(model) { cache.fetch(key, ttl: 60, &NEVER) }
    here = Models::Task.new(model) { cache.fetch(key, ttl: 60, wait: GENEROUS, &maker) }
    elsewhere = Models::Task.new(model) { other.fetch(key, ttl: 60, wait: GENEROUS, &maker) }
    Models.wait_until(model) { following(cache) == 2 }
    gone.stop
    making.stop
    assert_equal %w[value value], [here, elsewhere].map(&:value)
    assert_equal 1, maker.calls
  end

  # The maker has told its followers to continue, and stops them before they do.
  Reactors::ALL.each do |kind, reactor|
    define_method("test_a_follower_that_is_stopped_is_not_woken_later_#{kind}") do
      cache = client
      reactor.run { 20.times { |round| assert_equal [true], waits_after_stop(cache, reactor, key(round)).uniq } }
    end
  end

  # Whether fibers that were stopped could wait to the end. A scheduler may let the others run while one is stopped.
  def waits_after_stop(cache, reactor, key)
    maker = Maker.new(reactor, "value", held: true)
    followers = []
    leader = Models::Task.new(reactor) { cache.fetch(key, ttl: 60, &maker) && followers.each(&:stop_now) }
    maker.begun
    waited = []
    3.times { followers << Models::Task.new(reactor) { fetch_and_wait(cache, reactor, key, waited) } }
    Models.wait_until(reactor) { following(cache) == 3 }
    maker.held = false
    [leader, *followers].each(&:value)
    waited
  end

  def fetch_and_wait(cache, reactor, key, waited)
    value = cache.fetch(key, ttl: 60, &NEVER)
  ensure
    unless value
      begun = now
      reactor.pause(0.01)
      waited << (now - begun >= 0.01)
    end
  end

  # A timeout is the caller's own: the others may have more time.
  in_every_model(:a_caller_that_times_out_fails_alone) do |model|
    cache = client
    expired = model == Models::ALL[:async] ? Async::TimeoutError : Timeout::Error
    late = Maker.new(model, expired.new("execution expired"), held: true)
    maker = Maker.new(model, "value")
    making = Models::Task.new(model) { cache.fetch(key, ttl: 60, lease: LONG, &late) }
    late.begun
    follower = Models::Task.new(model) { cache.fetch(key, ttl: 60, wait: GENEROUS, &maker) }
    Models.wait_until(model) { following(cache) == 1 }
    late.held = false
    assert_kind_of expired, making.error
    assert_equal "value", follower.value
  end

  def test_timeouts_end_the_block_and_give_back
    cache = client
    ran = false
    assert_raises(Timeout::Error) do
      Timeout.timeout(0.2) { cache.fetch(key, ttl: 60, lease: LONG) { (ran = true) && sleep } }
    end
    assert ran
    assert_equal("value", client.fetch(key, ttl: 60, wait: 0) { "value" })
  end

  def test_ways_out_of_the_block_give_back
    cache = client
    assert_equal(7, cache.fetch(key, ttl: 60, lease: LONG) { break 7 })
    assert_equal(8, catch(:out) { cache.fetch(key, ttl: 60, lease: LONG, wait: 0) { throw :out, 8 } })
    assert_raises(SystemExit) { cache.fetch(key, ttl: 60, lease: LONG, wait: 0) { exit } }
    assert_equal(9, cache.fetch(key, ttl: 60, wait: 0) { next 9 })
    assert_equal 9, cache.get(key)
  end

  in_every_model(:the_block_cannot_wait_for_itself) do |_model|
    cache = client
    error = assert_raises(Pinyon::UsageError) { cache.fetch(key, ttl: 60) { cache.fetch(key, ttl: 60, &NEVER) } }
    assert_match(/would wait for itself/, error.message)
    assert_equal("value", cache.fetch(key, ttl: 60, wait: 0) { "value" })
  end

  def test_what_makes_no_sense_is_refused
    cache = client
    [{ ttl: "60" }, { ttl: 9, early: 9 }, { ttl: 0, stale: 1 }, { stale: -1 }, { lease: 0 },
     { wait: Float::NAN }].each do |terms|
      error = assert_raises(Pinyon::Error) { cache.fetch(key, **{ ttl: 60 }.merge(terms), &NEVER) }
      assert_includes [Pinyon::UsageError, Pinyon::UnsupportedType], error.class
    end
    assert_match(/by its block/, assert_raises(Pinyon::UsageError) { cache.fetch(key, ttl: 60) }.message)
    assert_raises(Pinyon::InvalidKey) { cache.fetch("with space", ttl: 60, &NEVER) }
    assert_raises(Pinyon::UnsupportedType) { cache.fetch(5, ttl: 60, &NEVER) }
    assert_equal("value", cache.fetch(key, ttl: 60, wait: 0) { "value" })
  end

  def test_a_server_that_is_too_old_says_so
    old = OldServer.new
    cache = client(old.address)
    calls = [-> { cache.fetch(key, ttl: 60, &NEVER) }, -> { cache.lease(key) }, -> { cache.delete(key, stale: 9) },
             -> { cache.using(on_failure: :miss).fetch(key, ttl: 60, &NEVER) }]
    calls.each do |call|
      assert_match(/needs memcached 1\.6\.10 or newer/, assert_raises(Pinyon::Unsupported, &call).message)
    end
  ensure
    old.stop
  end

  def test_without_a_server_the_policy_says_what_happens
    cache = client("127.0.0.1:1", on_failure: :miss)
    assert_equal("value", cache.fetch(key, ttl: 60) { "value" })
    lease = cache.lease(key)
    assert_equal [true, false, false], [lease.won?, lease.fulfil("value"), lease.give_back]
    assert_raises(IOError) { cache.using(on_failure: :raise).fetch(key, ttl: 60, &NEVER) }
  end

  in_every_model(:large_values) do |model|
    cache = client(max_value_size: 2_000_000)
    old = "old" * 300_000
    new = "new" * 300_000
    assert_equal(old, cache.fetch(key, ttl: 60) { old })
    assert cache.delete(key, stale: 300)
    maker = Maker.new(model, new, held: true)
    making = Models::Task.new(model) { cache.fetch(key, ttl: 60, &maker) }
    maker.begun
    assert_equal old, cache.fetch(key, ttl: 60, wait: 0, &NEVER)
    maker.held = false
    assert_equal [new, new], [making.value, cache.fetch(key, ttl: 60, &NEVER)]
  end

  def test_keys_are_rewritten_as_everywhere
    named = client(namespace: "app:")
    assert_equal("value", named.fetch(:key, ttl: 60) { "value" })
    assert_equal "value", client.get("app:key")
    encoding = client(encode_keys: true)
    long = "a key with spaces and #{"much else " * 30}"
    assert_raises(IndexError) { encoding.fetch(long, ttl: 60, lease: LONG) { raise IndexError } }
    assert_equal("value", encoding.fetch(long, ttl: 60, wait: 0) { "value" })
    assert_equal "value", encoding.get(long)
  end

  def test_a_forked_child_does_not_wait_for_threads_that_it_does_not_have
    cache = client
    making = Queue.new
    go_on = Queue.new
    thread = Thread.new { cache.fetch(key, ttl: 60, lease: LONG) { (making << true) && go_on.pop } }
    making.pop
    assert cache.delete(key)
    assert_equal("child's", in_child { cache.fetch(key, ttl: 60, wait: GENEROUS) { "child's" } })
    go_on << "parent's"
    assert_equal "parent's", thread.value
    assert_equal "child's", cache.get(key)
    assert_equal 0, following(cache)
  end

  in_every_model(:garbage_collection) do |model|
    cache = client
    maker = Maker.new(model, ["made"], held: true)
    tasks = [Models::Task.new(model) { stressed_to_the_end(cache, maker) }]
    maker.begun
    tasks += Array.new(2) { Models::Task.new(model) { cache.fetch(key, ttl: 60, &maker) } }
    Models.wait_until(model) { following(cache) == 2 }
    GC.start
    maker.held = false
    assert_equal [["MADE"]] * 3, tasks.map(&:value)
  end

  def stressed_to_the_end(cache, maker)
    cache.fetch(key, ttl: 60) { maker.to_proc.call.map(&:upcase).tap { GC.stress = true } }
  ensure
    GC.stress = false
  end

  def test_the_flight_of_a_fiber_that_is_never_resumed_ends
    cache = client
    100.times { |number| Fiber.new { cache.fetch(key(number), ttl: 60) { Fiber.yield } }.resume }
    assert_equal 100, cache.instance_variable_get(:@native).followers.size
    assert(eventually { GC.start || cache.instance_variable_get(:@native).followers.size < 10 })
  end

  private

  # Another process that is making the value.
  def making_elsewhere(lease:)
    script = "cache = Pinyon::Client.new(ARGV[0], timeout: 60, connect_timeout: 60)
      cache.fetch(ARGV[1], ttl: 60, lease: ARGV[2].to_i) { puts(:making); $stdout.flush; sleep }"
    command = ["ruby", "-I", File.expand_path("../lib", __dir__), "-r", "pinyon", "-e", script]
    Open3.popen2(*command, memcached.address, key, lease.to_s) do |_input, output, process|
      assert_equal "making\n", output.gets
      yield process
    ensure
      kill(process)
    end
  end

  def kill(process)
    Process.kill(:KILL, process.pid) if process.alive?
  rescue Errno::ESRCH
    # It has ended since it was asked whether it is alive.
  end
end
