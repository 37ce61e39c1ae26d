# frozen_string_literal: true

require_relative "support"

class TestForks < PinyonTest
  def test_children_use_the_client_while_the_parent_does
    cache = client
    cache.set(key, "value")
    working = Thread.new { 2000.times.all? { cache.get(key) == "value" } }
    children = (1..4).map { |child| in_child { [cache.get(key), cache.set(key(child), child), cache.get(key(child))] } }
    assert_equal (1..4).map { |child| ["value", true, child] }, children
    assert working.value
  end

  def test_a_child_does_not_hold_its_parents_lock
    parents = locks
    held = parents.lock("name")
    lost, free, own = in_child { [held.held?, parents.try_lock("name").nil?, parents.lock("own").held?] }
    assert_equal [false, true, true], [lost, free, own]
    assert held.release
  end

  WAYS = {
    fetch: ->(cache, key, make) { cache.fetch(key, ttl: 60, &make) },
    lease: ->(cache, key, make) { cache.lease(key) { |lease| lease.fulfil(make.call, ttl: 60) } }
  }.freeze

  WAYS.each do |name, way|
    define_method("test_a_child_that_exits_while_a_value_is_made_leaves_the_lease_to_its_parent_#{name}") do
      cache = client
      other = client
      states = []
      make = lambda do
        child = fork
        exit if child.nil?
        Process.wait(child)
        states << other.lease(key).state
        "parent's"
      end
      in_parent { way.call(cache, key, make) }
      assert_equal [[:filling], "parent's"], [states, cache.get(key)]
    end
  end

  private

  # Runs a block. Ends a child that comes out of it.
  def in_parent
    parent = Process.pid
    yield
  ensure
    exit!(0) if Process.pid != parent
  end
end
