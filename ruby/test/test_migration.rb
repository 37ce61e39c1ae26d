# frozen_string_literal: true

require_relative "support"
require_relative "models"
require_relative "old_server"

# Moving from one pool to another while both are in use.
class TestMigration < PinyonTest
  extend Models

  # How the client of the old pool differs, besides its servers.
  OLD = { ring: "dalli", dialect: "dalli", key_rule: "dalli" }.freeze

  # An operation if only the old pool has 7, or if neither has a value: its result, and what the pools have afterwards.
  OPERATIONS = {
    get: [->(both, key) { both.get(key) }, [7, 7, 7], [nil, nil, nil]],
    get_with_default: [->(both, key) { both.get(key, 0) }, [7, 7, 7], [0, nil, nil]],
    get_many: [->(both, key) { both.get_many([key, "other"]).values }, [[7], 7, 7], [[], nil, nil]],
    gets_many: [->(both, key) { both.gets_many([key, "other"]).values.map(&:first) }, [[7], 7, 7], [[], nil, nil]],
    get_with_ttl: [->(both, key) { both.get_with_ttl(key) }, [[7, nil], 7, 7], [nil, nil, nil]],
    gat: [->(both, key) { both.gat(key, 1000) }, [7, 7, 7], [nil, nil, nil]],
    touch: [->(both, key) { both.touch(key, 1000) }, [true, 7, 7], [false, nil, nil]],
    key: [->(both, key) { both.key?(key) }, [true, 7, 7], [false, nil, nil]],
    lease: [->(both, key) { both.lease(key).value }, [7, 7, 7], [nil, nil, nil]],
    fetch: [->(both, key) { both.fetch(key, ttl: 60) { 8 } }, [7, 7, 7], [8, nil, 8]],
    refresh: [->(both, key) { both.cached(key:, ttl: 60) { 8 }.refresh }, [8, nil, 8], [8, nil, 8]],
    tagged_refresh: [->(both, key) { both.cached(key:, ttl: 60, tags: "t") { 8 }.refresh }, [8, nil, 8], [8, nil, 8]],
    set: [->(both, key) { both.set(key, 8) }, [true, nil, 8], [true, nil, 8]],
    set_many: [->(both, key) { both.set_many({ key => 8 }) }, [[], nil, 8], [[], nil, 8]],
    add: [->(both, key) { both.add(key, 8) }, [false, 7, 7], [true, nil, 8]],
    replace: [->(both, key) { both.replace(key, 8) }, [true, nil, 8], [false, nil, nil]],
    append: [->(both, key) { both.append(key, "1") }, [true, nil, 71], [false, nil, nil]],
    prepend: [->(both, key) { both.prepend(key, "1") }, [true, nil, 17], [false, nil, nil]],
    cas: [->(both, key) { both.cas(key, 8, both.gets(key)&.last || 1) }, [true, nil, 8], [nil, nil, nil]],
    incr: [->(both, key) { both.incr(key) }, [8, nil, 8], [nil, nil, nil]],
    incr_with_initial: [->(both, key) { both.incr(key, initial: 1) }, [8, nil, 8], [1, nil, 1]],
    decr: [->(both, key) { both.decr(key) }, [6, nil, 6], [nil, nil, nil]],
    delete: [->(both, key) { both.delete(key) }, [true, nil, nil], [false, nil, nil]],
    delete_stale: [->(both, key) { both.delete(key, stale: 30) }, [true, nil, 7], [false, nil, nil]],
    gat_many: [->(both, key) { both.gat_many([key, "other"], 1000).values }, [[7], 7, 7], [[], nil, nil]],
    touch_many: [->(both, key) { both.touch_many([key, "other"], 1000).size }, [1, 7, 7], [0, nil, nil]],
    delete_many: [->(both, key) { both.delete_many([key, "other"]) }, [1, nil, nil], [0, nil, nil]]
  }.freeze

  # Two servers for each pool.
  def self.servers
    @servers ||= Array.new(4) { Support::Server.new(*Support::MEMCACHED) }
  end
  Minitest.after_run { servers.each(&:stop) }

  def setup
    addresses = self.class.servers.map(&:address)
    @old = client(*addresses.first(2), **OLD)
    @new = client(*addresses.last(2))
    @both = Pinyon::MigratingClient.new(@old, @new)
  end

  def in_pools(key = self.key)
    [@old.get(key), @new.get(key)]
  end

  OPERATIONS.each do |name, (call, found, missing)|
    in_every_model("#{name}_finds_the_value_wherever_it_is") do |_model|
      @old.set(key("old"), 7)
      assert_equal found, [call.call(@both, key("old")), *in_pools(key("old"))]
      assert_equal missing, [call.call(@both, key("nowhere")), *in_pools(key("nowhere"))]
    end
  end

  in_every_model(:what_the_new_pool_has_is_what_counts) do |_model|
    @old.set(key, "old")
    @new.set(key, "new")
    assert_equal ["new", { key => "new" }, false], [@both.get(key), @both.get_many([key]), @both.add(key, "other")]
    assert_equal({ new: 3, old: 0, moved: 0, refused: 0, missing: 0 }, @both.progress.to_h)
  end

  in_every_model(:what_is_moved_keeps_its_ttl) do |_model|
    @old.set(key("hour"), { "a" => 1 }, ttl: 3600)
    @old.set(key("ever"), { "a" => 1 })
    @both.get_many([key("hour"), key("ever")])
    assert_in_delta 3600, @new.get_with_ttl(key("hour")).last, GENEROUS
    assert_equal [{ "a" => 1 }, nil], @new.get_with_ttl(key("ever"))
    assert_equal({ new: 0, old: 2, moved: 2, refused: 0, missing: 0 }, @both.progress.to_h)
  end

  in_every_model(:many_keys_are_moved_by_and_by) do |_model|
    values = (0...100).to_h { |number| [key(number), number] }
    @old.set_many(values)
    rounds = 0
    until @new.get_many(values.keys) == values
      assert_equal values, @both.get_many(values.keys)
      assert_operator rounds += 1, :<, 10
    end
    assert_equal 100, @both.progress.moved
  end

  def test_a_value_that_cannot_be_moved_is_read_all_the_same
    old = client(self.class.servers.first.address, serializer: :marshal)
    both = Pinyon::MigratingClient.new(old, @new)
    old.set(key, { a: 1r })
    assert_equal [{ a: 1r }] * 2, Array.new(2) { both.get(key) }
    assert_equal({ new: 0, old: 2, moved: 0, refused: 2, missing: 0 }, both.progress.to_h)
    assert @new.add(key, "free")
  end

  def test_failures_beside_the_values
    both = Pinyon::MigratingClient.new(@old, client("127.0.0.1:1"))
    @old.set(key, 7)
    failed = {}
    assert_equal({ key => 7 }, both.get_many([key, key, "other"], failed:))
    assert_equal ["127.0.0.1:1"], failed.keys
    assert_equal({}, both.gets_many([key], failed: {}))
    error = assert_raises(Pinyon::Error) { both.get_many([key]) }
    assert_equal "127.0.0.1:1", error.server
  end

  def test_old_servers_that_cannot_tell_a_ttl_need_one
    old = OldServer.new
    clients = [client(old.address), @new]
    error = assert_raises(Pinyon::Unsupported) { Pinyon::MigratingClient.new(*clients).get(key) }
    assert_match(/1\.4\.15.*give the migrating client a ttl/, error.message)
    assert_equal "value", Pinyon::MigratingClient.new(*clients, ttl: 1000).get(key)
    value, ttl = @new.get_with_ttl(key)
    assert_equal "value", value
    assert_in_delta 1000, ttl, GENEROUS
  ensure
    old.stop
  end

  # What happens between reading the old pool and storing in the new one.
  in_every_model(:what_is_deleted_while_it_is_moved_does_not_come_back) do |_model|
    [[-> { @both.delete(key) }, nil], [-> { @both.set(key, "later") }, "later"]].each do |change, expected|
      serializer = Changing.new(change)
      old = client(*self.class.servers.map(&:address).first(2), serializer:)
      old.set(key, "value")
      @old = client(*self.class.servers.map(&:address).first(2))
      @both = Pinyon::MigratingClient.new(@old, @new)
      assert_equal "value", Pinyon::MigratingClient.new(old, @new).get(key)
      assert_predicate serializer, :changed?
      assert_equal [nil, expected], in_pools
      @both.delete(key)
    end
  end

  # Makes a change when it first loads a value: that is written for the new pool then.
  class Changing
    def initialize(change)
      @change = change
    end

    def changed?
      @change.nil?
    end

    def dump(value)
      [value, 0]
    end

    def load(bytes, _flags)
      change = @change
      @change = nil
      change&.call
      bytes.dup.force_encoding("UTF-8")
    end
  end

  in_every_model(:a_live_migration_loses_nothing) do |model|
    @old.set_many((0...200).to_h { |number| [key("read#{number}"), [number]] })
    wrong = []
    tasks = Array.new(4) { |seed| Models::Task.new(model) { read(Random.new(seed), wrong) } }
    tasks += Array.new(4) { |writer| Models::Task.new(model) { write(writer, wrong) } }
    tasks.each(&:value)
    assert_empty wrong
    assert_equal 0, @both.progress.refused
  end

  def read(chance, wrong)
    (0...200).to_a.sample(100, random: chance).each do |number|
      value = @both.get(key("read#{number}"))
      wrong << [number, value] unless value == [number]
    end
  end

  # Only this writer writes its keys, so it knows their values.
  def write(writer, wrong)
    chance = Random.new(writer)
    written = (0...20).to_h { |number| [key("#{writer}:#{number}"), number] }
    @old.set_many(written)
    100.times do |step|
      key = written.keys.sample(random: chance)
      written[key] = change(key, written[key], step, chance, wrong)
      value = @both.get(key)
      wrong << [key, value, written[key]] unless value == written[key]
    end
  end

  def change(key, before, step, chance, wrong)
    case chance.rand(4)
    when 0 then @both.set(key, step) && step
    when 1 then [@both.delete(key), nil].last
    when 2
      after = @both.incr(key)
      wrong << [key, before, after] unless after == before&.succ
      after
    else before
    end
  end

  def test_clients_that_would_delete_each_others_keys_are_refused
    address = memcached.address
    error = assert_raises(Pinyon::UsageError) { Pinyon::MigratingClient.new(client(address), client(address)) }
    assert_match(/give the new client a namespace/, error.message)
    assert_match(/are the same/, assert_raises(Pinyon::UsageError) { Pinyon::MigratingClient.new(@old, @old) }.message)
    apart = Pinyon::MigratingClient.new(client(address), client(address, namespace: "2:"))
    apart.old.set(key, "value")
    assert_equal ["value", true, nil], [apart.get(key), apart.set(key, "other"), apart.old.get(key)]
    assert_match(/no quiet batches/, assert_raises(Pinyon::UsageError) { apart.quiet }.message)
    assert_match(/migrates already/,
                 assert_raises(Pinyon::UsageError) { Pinyon::MigratingClient.new(apart, @new) }.message)
  end

  def test_both_clients_are_asked_and_closed
    assert_equal self.class.servers.map(&:address).sort, @both.version.keys.sort
    assert_equal @both.version.keys.sort, [@both.stats, @both.metrics].flat_map(&:keys).uniq.sort
    view = @both.using(on_failure: :miss)
    view.get(key)
    assert_equal 1, @both.progress.missing
    @both.close
    assert_predicate @both, :closed?
    assert_raises(Pinyon::Closed) { @both.get(key) }
  end
end
