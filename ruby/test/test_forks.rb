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
end
