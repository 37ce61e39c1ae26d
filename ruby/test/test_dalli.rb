# frozen_string_literal: true

require_relative "dallis"

# What each method of Dalli's client returns: Dalli 5's documented answer, and, played on the Dalli that is installed,
# that version's.
class TestDalli < PinyonTest
  include Dallis

  # A CAS token.
  TOKEN = Object.new

  # For each call its answer, and where they are others that of Dalli 3, by version where those differ, and that of
  # Dalli 5.2.1; :absent if Dalli 3 does not have the method.
  # In every client, "there" is 1, "count" is a counter at 5, "text" raw, and nothing else is stored.
  # rubocop:disable Style/Semicolon -- short calls stay on a line
  ANSWERS = {
    "get" => [->(c) { [c.get("there"), c.get("missing"), c.get(:there)] }, [1, nil, 1]],
    "get with options" => [->(c) { c.get("there", raw: true) }, Marshal.dump(1), 1],
    "get of a cached nil" => [->(c) { [c.set("k", nil) && c.get("k"), c.get("k", cache_nils: true)] }, [nil, nil]],
    "gat" => [->(c) { [c.gat("there", 100), c.gat("there"), c.gat("missing", 100)] }, [1, 1, nil]],
    "touch" => [->(c) { [c.touch("there", 100), c.touch("there"), c.touch("missing")] }, [true, true, nil]],
    "fetch" => [->(c) { [c.fetch("k", 9) { 3 }, c.fetch("k") { 4 }, c.fetch("there"), c.fetch("missing")] },
                [3, 3, 1, nil]],
    "fetch of false" => [->(c) { [c.set("k", false) && c.fetch("k") { 1 }, c.get("k")] }, [false, false]],
    "fetch of nil" => [->(c) { [c.fetch("k") { nil }, c.fetch("k") { 2 }, c.get("k")] }, [nil, 2, nil]],
    "get_cas" => [->(c) { [c.get_cas("there"), c.get_cas("missing")] }, [[1, TOKEN], [nil, 0]]],
    "get_cas with a block" => [->(c) { c.get_cas("there") { |value, cas| [cas, value] } }, [TOKEN, 1]],
    "get_multi" => [->(c) { c.get_multi("there", [:text, "missing"], nil) }, { "there" => 1, "text" => "b" }],
    "get_multi of nothing" => [->(c) { [c.get_multi, c.get_multi([])] }, [{}, {}]],
    "get_multi with a block" => [->(c) { got = []; [c.get_multi("there") { |k, v| got << k << v }, got] },
                                 [nil, ["there", 1]]],
    "get_multi_cas" => [->(c) { c.get_multi_cas("there", "missing") }, { "there" => [1, TOKEN] }],
    "get_multi_cas with a block" => [->(c) { got = []; c.get_multi_cas("there") { |k, pair| got << k << pair }; got },
                                     ["there", [1, TOKEN]]],
    "get_with_metadata" => [->(c) { c.get_with_metadata("there") },
                            { value: 1, cas: TOKEN, miss: false, won_recache: false, stale: false,
                              lost_recache: false }, :absent],
    "get_with_metadata of what is missing" => [->(c) { c.get_with_metadata("missing").values_at(:value, :miss) },
                                               [nil, true], :absent],
    "get_with_metadata and more" => [
      lambda do |c|
        asked = { return_hit_status: true, return_last_access: true, return_ttl_remaining: true }
        first = c.get_with_metadata("there", { skip_lru_bump: true, **asked })
        second = c.get_with_metadata("there", asked)
        third = c.get_with_metadata("there", asked)
        [first, second, third].map { |known| known.values_at(:hit_before, :ttl_remaining) }
      end, [[false, -1], [false, -1], [true, -1]], :absent
    ],
    "get_with_metadata_result" => [
      lambda do |c|
        results = [c.get_with_metadata_result("there"), c.get_with_metadata_result("missing")]
        results.map { |result| [result.value, result.hit?, result.miss?, result.stale?, result.ttl_remaining] }
      end, [[1, true, false, false, nil], [nil, false, true, false, nil]], :absent
    ],
    "get_multi_with_metadata" => [
      ->(c) { c.get_multi_with_metadata("there", "missing").map { |key, known| [key, known[:value]] } },
      [["there", 1]], :absent
    ],
    "get_multi_with_metadata_result" => [->(c) { c.get_multi_with_metadata_result(%w[there]).transform_values(&:hit?) },
                                         { "there" => true }, :absent],
    "vivify" => [
      ->(c) { Array.new(2) { c.get_with_metadata("k", vivify_ttl: 30).values_at(:won_recache, :lost_recache) } },
      [[true, false], [false, true]], :absent
    ],
    "fetch_with_lock" => [->(c) { [c.fetch_with_lock("k", ttl: 100) { 3 }, c.fetch_with_lock("k") { 4 }, c.get("k")] },
                          [3, 3, 3], :absent],
    "fetch_with_lock for the second" => [->(c) { c.fetch_with_lock("k") { c.fetch_with_lock("k") { 1 }.inspect } },
                                         "nil", :absent, '""'],
    "set" => [->(c) { [c.set("k", 1), c.set("k", 2, 100), c.set(:k, "3", nil, raw: true), c.get("k")] },
              [TOKEN, TOKEN, TOKEN, "3"]],
    "set_cas" => [->(c) { token = c.set("k", 1); [c.set_cas("k", 2, token), c.set_cas("k", 3, token), c.get("k")] },
                  [TOKEN, false, 2]],
    "set_cas of what is missing" => [->(c) { c.set_cas("k", 2, 7) }, false, { "3.0.6" => 0, "3.2.8" => nil }],
    "add" => [->(c) { [c.add("k", 1), c.add("k", 2), c.get("k")] }, [TOKEN, false, 1]],
    "replace" => [->(c) { [c.replace("there", 2), c.get("there")] }, [TOKEN, 2]],
    "replace of what is missing" => [->(c) { c.replace("k", 2) }, false, { "3.0.6" => 0, "3.2.8" => nil }],
    "replace_cas" => [->(c) { token = c.set("k", 1); [c.replace_cas("k", 2, token), c.replace_cas("k", 3, token)] },
                      [TOKEN, false]],
    "set_multi" => [->(c) { [c.set_multi({ "k" => 1, l: 2 }, 100), c.get_multi("k", "l")] },
                    [true, { "k" => 1, "l" => 2 }], :absent],
    "cas" => [->(c) { [c.cas("there") { |old| old + 1 }, c.get("there"), c.cas("missing") { flunk }] },
              [TOKEN, 2, nil]],
    "cas that comes too late" => [->(c) { [c.cas("there") { c.set("there", 5) && 2 }, c.get("there")] }, [false, 5]],
    "cas!" => [->(c) { [c.cas!("k", &:inspect), c.get("k"), c.cas!("k", &:size), c.get("k")] },
               [TOKEN, "nil", TOKEN, 3]],
    "delete" => [->(c) { [c.delete("there"), c.get("there")] }, [true, nil]],
    "delete of what is missing" => [->(c) { c.delete("k") }, false, { "3.0.6" => nil, "3.2.8" => false }],
    "delete_cas" => [->(c) { token = c.set("k", 1); [c.delete_cas("k", token + 1), c.delete_cas("k", token)] },
                     [false, true]],
    "delete with invalidate" => [
      lambda do |c|
        token = c.set("k", 1)
        [c.delete_cas("k", token + 1, invalidate: true), c.delete_cas("k", token, invalidate: true, tombstone_ttl: 99),
         c.get_with_metadata("k", return_ttl_remaining: true).values_at(:value, :stale).push(c.delete("k")),
         c.delete("missing", invalidate: true)]
      end, [false, true, [1, true, true], false], :absent
    ],
    "delete_multi" => [->(c) { [c.delete_multi(%w[there count missing]), c.delete_multi([])] }, [2, 0], :absent],
    "append" => [->(c) { [c.append("text", "c"), c.append("missing", "c"), c.get("text")] }, [true, false, "bc"]],
    "prepend" => [->(c) { [c.prepend("text", :a), c.prepend("missing", "a"), c.get("text")] }, [true, false, "ab"]],
    "incr" => [->(c) { [c.incr("count"), c.incr("count", 4), c.incr("missing"), c.get("count")] }, [6, 10, nil, "10"]],
    "incr with a default" => [->(c) { [c.incr("k", 2, 0, 7), c.incr("k", 2, 0, 7), c.get("k")] }, [7, 9, "9"]],
    "decr" => [->(c) { [c.decr("count"), c.decr("count", 100), c.decr("k", 1, 100, 3), c.decr("missing")] },
               [4, 0, 3, nil]],
    "quiet" => [
      lambda do |c|
        inside = c.multi do
          [c.set("k", 1), c.add("k", 2), c.replace("there", 3), c.delete("missing"), c.delete("text"), c.set("l", 4)]
        end
        [inside, c.get_multi("k", "there", "text", "l")]
      end, [[nil] * 6, { "k" => 1, "there" => 3, "l" => 4 }]
    ],
    "quiet, 5" => [
      lambda do |c|
        inside = c.quiet do
          [c.append("text", "c"), c.prepend("text", "a"), c.incr("count"), c.decr("count", 3), c.incr("k", 1, 0, 2),
           c.incr("k"), c.set_cas("there", 9, 1), c.quiet { c.set("there", 2) }]
        end
        [inside, c.get_multi("text", "count", "k", "there")]
      end, [[nil] * 8, { "text" => "abc", "count" => "3", "k" => "3", "there" => 2 }], :absent
    ],
    "flush in a quiet block" => [->(c) { [c.quiet { c.set("k", 1); c.flush }, c.get("k")] }, [[nil], nil], :absent],
    "flush" => [->(c) { [c.flush, c.get("there"), c.flush_all] }, [[true], nil, [true]]],
    "stats" => [->(c) { [c.stats.values.first["pid"].to_i.positive?, c.stats(:settings).values.first["verbosity"]] },
                [true, "0"]],
    "reset_stats" => [->(c) { c.reset_stats }, [true]],
    "version" => [->(c) { c.version.values.map { |version| version.start_with?("1.") } }, [true]],
    "alive!" => [->(c) { c.alive!.nil? }, false],
    "close" => [->(c) { [c.close, c.get("there"), c.reset, c.get("there")] }, [nil, 1, nil, 1]],
    "with" => [->(c) { c.with { |same| same.equal?(c) } }, true],
    "drain_deferred_responses" => [->(c) { c.drain_deferred_responses }, nil, :absent],
    "cache_nils, not_found?" => [->(c) { [c.cache_nils, c.not_found?(nil), c.not_found?(false)] }, [nil, true, false]],
    "blank keys" => [->(c) { ["", nil].map { |key| raised { c.get(key) } } }, [ArgumentError] * 2],
    "an amount below 0" => [->(c) { [raised { c.incr("count", -1) }, raised { c.decr("count", -1) }] },
                            [ArgumentError] * 2],
    "a ttl that is no number" => [->(c) { raised { c.set("k", 1, Object.new) } }, ArgumentError],
    "what cannot be marshalled" => [->(c) { raised { c.set("k", proc {}) } }, "MarshalError"],
    "incr of a text" => [->(c) { raised { c.incr("text") } }, "ServerError", "DalliError", "DalliError"],
    "a large value" => [->(c) { raised { c.set("k", Random.bytes(1_100_000)) } }, "ValueOverMaxSize"],
    "a get in a quiet block" => [->(c) { c.quiet { raised { c.get("there") } } }, "NotPermittedMultiOpError", :absent],
    "a tombstone's ttl without one" => [->(c) { raised { c.delete("k", tombstone_ttl: 1) } }, ArgumentError, :absent]
  }.freeze
  # rubocop:enable Style/Semicolon

  METHODS = %i[
    add alive! append cache_nils cas cas! close decr delete delete_cas delete_multi drain_deferred_responses fetch
    fetch_with_lock flush flush_all gat get get_cas get_multi get_multi_cas get_multi_with_metadata
    get_multi_with_metadata_result get_with_metadata get_with_metadata_result incr inspect multi not_found? prepend
    quiet replace replace_cas reset reset_stats set set_cas set_multi stats touch version with
  ].freeze

  ANSWERS.each do |name, (call, answer, *others)|
    define_method("test_#{name}") { played(ours, call, answer) }
    other = FIVE ? others.drop(1) : others.take(1)
    next if other == [:absent]

    define_method("test_#{name} of Dalli itself") do
      played(theirs, call, other.empty? ? answer : of_installed(other.first))
    end
  end

  def test_every_method_is_there_and_played
    # Rails gives every object a method `with`.
    here = (Ours::Client.instance_methods - Object.instance_methods) | Ours::Client.instance_methods(false)
    assert_equal METHODS, here.sort
    played = ANSWERS.keys.join(" ").split(/[ ,]+/)
    aliases = %i[flush_all reset multi inspect]
    assert_empty METHODS.map(&:to_s) - played - aliases.map(&:to_s)
    skip "ruby-dalli is not installed" unless defined?(Dalli)
    assert_empty Dalli::Client.instance_methods - Object.instance_methods - METHODS
  end

  # The answer of the version that is installed.
  def of_installed(other)
    other.is_a?(Hash) ? other.fetch(INSTALLED, other.values.last) : other
  end

  # Plays a call on a server of its own, as some flush it.
  def played(cache, call, answer)
    cache.flush
    cache.set("there", 1)
    cache.set("count", "5", nil, raw: true)
    cache.set("text", "b", nil, raw: true)
    said = instance_exec(cache, &call)
    assert matches?(answer, said), "expected #{answer.inspect}, not #{said.inspect}"
  end

  # Whether it is the same, with a token where one is expected.
  def matches?(expected, said)
    case expected
    when Array then said.is_a?(Array) && said.size == expected.size && expected.zip(said).all? { matches?(*_1) }
    when Hash then said.is_a?(Hash) && matches?(expected.sort.flatten(1), said.sort.flatten(1))
    when TOKEN then said.is_a?(Integer) && said.positive?
    else expected == said
    end
  end

  # The kind of what the block raises.
  def raised
    yield
    nil
  rescue ArgumentError
    ArgumentError
  rescue StandardError => e
    e.class.name.split("::").last
  end

  # A server of these tests alone.
  def memcached
    Support::SERVERS[:dalli] ||= Support::Server.new(*Support::MEMCACHED)
  end
end
