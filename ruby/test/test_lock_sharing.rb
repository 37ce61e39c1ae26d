# frozen_string_literal: true

require_relative "support"
require_relative "reactors"

# Readers, writers and permits in threads, and in the fibers of any scheduler. scenarios/locks.json says who waits for
# whom.
class TestLockSharing < PinyonTest
  include Reactors::Tests

  LIMIT = 3

  # How many are inside at the same time.
  class Inside
    attr_reader :most

    def initialize
      @mutex = Mutex.new
      @now = @most = 0
    end

    def with(count)
      @mutex.synchronize { @most = [@most, @now += count].max }
      yield
    ensure
      @mutex.synchronize { @now -= count }
    end
  end

  # Threads and fibers of a test share the server.
  def setup
    locks
  end

  def test_readers_are_there_together_and_a_writer_is_not
    mine = locks
    others = locks
    mine.read("catalog", :prices) do |held|
      assert_equal ["catalog", :prices], held.names
      assert_equal :read, others.read("catalog") { :read }
      assert_nil others.try_lock("catalog")
      assert_raises(Pinyon::LockTimeout) { others.write("catalog", timeout: 0) { flunk } }
    end
    assert_equal(:written, others.write("catalog") { |held| others.locked?(*held.names) && :written })
    assert_nil(mine.write("catalog") { others.try_lock(read: "catalog") })
    refute mine.locked?("catalog", "prices")
  end

  def test_status_shows_all_readers
    mine = locks
    others = locks
    held = mine.lock("order:7", read: :catalog)
    assert_equal ["order:7", :catalog], held.names
    others.read("catalog") do
      catalog, order, free = mine.status("catalog", "order:7", "free")
      assert_equal 2, catalog.readers.uniq.size
      assert_includes catalog.readers, catalog.holder
      assert_equal [[], held.token, []], [order.readers, order.token, free.readers]
    end
    assert_equal [mine.owner("order:7")], mine.status("catalog").first.readers
    assert held.release
    assert_empty mine.status("catalog").first.readers
  end

  def test_permits_are_counted
    mine = locks
    others = locks
    stripe = mine.permits("stripe", limit: LIMIT, n: 2)
    assert_equal ["stripe", LIMIT, 2, LIMIT], [stripe.pool, stripe.limit, stripe.n, stripe.available]
    stripe.synchronize do |held|
      assert_empty held.names
      assert_equal 1, others.permits("stripe", limit: 50).available
      assert_nil others.try_lock(permits: { stripe: [2, LIMIT] })
      assert_equal(0, others.permits(:stripe, limit: LIMIT) { stripe.available })
      refute mine.locked?("stripe"), "a pool is no lock"
    end
    assert_equal LIMIT, stripe.available
    assert_equal "#<Pinyon::Permits stripe n=2 limit=3>", stripe.inspect
  end

  def test_permits_and_names_in_one_request
    mine = locks
    others = locks
    stripe = mine.permits("stripe", limit: LIMIT)
    held = mine.lock("order:7", read: ["catalog"], permits: { "stripe" => 2 })
    assert_equal 1, stripe.available
    assert_nil others.try_lock("order:8", permits: { "stripe" => [2, LIMIT] })
    refute mine.locked?("order:8")
    assert_match(/\A#<Pinyon::Held order:7, catalog token=\d+>\z/, held.inspect)
    assert held.release
    assert_match(/\A#<Pinyon::Held token=\d+>\z/, stripe.synchronize(&:inspect))
  end

  def test_the_latest_limit_counts
    mine = locks
    mine.permits("stripe", limit: 5, n: 4) do
      others = locks
      assert_nil others.try_lock(permits: { "stripe" => [1, 2] })
      assert_equal 0, mine.permits("stripe", limit: 5).available
    end
  end

  def test_what_no_pool_can_have
    mine = locks
    unknown = assert_raises(Pinyon::InvalidName) { mine.lock(permits: { "stripe" => 1 }) }
    assert_match(/the limit of the permits "stripe" is not known here: give it/, unknown.message)
    { [1, 0] => /limit of the permits "s" is 0/, [0, 3] => /0 permits of "s": give 1 to 3/, [-1, 3] => /give 1 to 3/,
      [4, 3] => /4 permits of "s": give 1 to 3/, [1, 2**70] => /give 1 to 1000000/ }.each do |(count, limit), message|
      error = assert_raises(Pinyon::InvalidName) { mine.permits("s", limit:, n: count) }
      assert_match message, error.message
      assert_raises(Pinyon::InvalidName) { mine.try_lock(permits: { "s" => [count, limit] }) }
    end
    [[1, 3, 4], "2", 2.0, nil].each do |wrong|
      assert_raises(Pinyon::UnsupportedType) { mine.lock(permits: { "s" => wrong }) }
    end
    assert_raises(Pinyon::UnsupportedType) { mine.lock(permits: ["s"]) }
    assert_raises(Pinyon::UnsupportedType) { mine.permits("s", limit: "3") }
    assert_raises(Pinyon::UnsupportedType) { mine.lock(read: [1]) }
    assert_raises(Pinyon::InvalidName) { mine.lock(read: []) }
  end

  def test_a_block_is_needed_to_read_and_to_write
    mine = locks
    assert_match(/lock\(read: \[\.\.\.\]\)/, assert_raises(Pinyon::UsageError) { mine.read("a") }.message)
    assert_match(/lock returns the lock/, assert_raises(Pinyon::UsageError) { mine.write("a") }.message)
    assert_raises(Pinyon::UsageError) { mine.lock(read: "a") { flunk } }
  end

  def test_names_in_all_modes_have_one_hash_tag
    tagged = locks(hash_tags: :names)
    held = tagged.lock("{7}order", read: ["{7}catalog"], permits: { "{7}stripe" => [1, 2] })
    assert_equal([1, 2], %w[{7}stripe {8}stripe].map { |pool| tagged.permits(pool, limit: 2).available })
    assert held.release
    assert_raises(Pinyon::InvalidName) { tagged.lock("{7}order", read: ["{8}catalog"]) }
  end

  def test_no_more_permits_than_there_are_among_threads
    inside = Inside.new
    clients = [locks, locks]
    threads = Array.new(8) { |number| Thread.new { use_permits(clients[number % 2], inside, 1 + (number % 2)) } }
    threads.each(&:join)
    assert_includes 2..LIMIT, inside.most
    assert_equal LIMIT, clients[0].permits("stripe", limit: LIMIT).available
  end

  in_every_reactor(:no_more_permits_than_there_are_among_fibers) do |reactor|
    inside = Inside.new
    clients = [locks, locks]
    pool = "stripe of #{reactor.name}"
    reactor.run do
      8.times do |number|
        reactor.start do
          use_permits(clients[number % 2], inside, 1 + (number % 2), pool) { reactor.pause(0.001) }
        end
      end
    end
    assert_includes 2..LIMIT, inside.most
    assert_equal LIMIT, clients[0].permits(pool, limit: LIMIT).available
  end

  in_every_reactor(:readers_and_permits_in_fibers) do |reactor|
    mine = locks
    others = locks
    reactor.run do
      name = "catalog of #{reactor.name}"
      mine.read(name) do |held|
        assert_equal(2, others.read(name) { mine.status(name).first.readers.size })
        assert_nil others.try_lock(name)
        stripe = mine.permits(name, limit: 2)
        assert_equal(1, stripe.synchronize { stripe.available })
        assert held.held?
      end
      refute mine.locked?(name)
    end
  end

  def use_permits(client, inside, count, pool = "stripe")
    20.times do
      client.permits(pool, limit: LIMIT, n: count) do
        inside.with(count) { block_given? ? yield : Thread.pass }
      end
    end
  end
end
