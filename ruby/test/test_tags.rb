# frozen_string_literal: true

require "set"
require_relative "support"
require_relative "making"

# Tags: values that are invalidated together, in threads and in fibers. What an operation asks for and when, the core's
# own tests say.
class TestTags < PinyonTest
  extend Models
  include Making

  # A client that asks for tags each time.
  def asking(*servers, **settings)
    client(*servers, generation_ttl: 0, **settings)
  end

  def setup
    super
    @tag = "tag of #{name}".tr(" ", "-")
  end

  in_every_model(:a_value_is_read_in_every_way_until_its_tag_is_invalidated) do |_model|
    cache = asking(compression: "zlib")
    other = asking
    ["text", 7, { "a" => [1, nil] }, "\xFFx".b * 30_000, "long " * 10_000, "".b, true].each do |value|
      assert cache.set(key, value, ttl: 100, tags: [@tag, "page"])
      assert_equal [[value] * 7] * 2, ([cache, other].map { |each| read_in_every_way(each) })
      assert_nil other.invalidate_tags(@tag)
      assert_equal [[nil] * 7] * 2, ([cache, other].map { |each| read_in_every_way(each) })
      assert_equal "default", cache.get(key, "default")
    end
  end

  in_every_model(:every_way_to_store_takes_tags) do |_model|
    cache = asking
    names = %w[set add replace cas one two made made1 made2 plain]
    keys = names.to_h { |each| [each, key(each)] }
    2.times do
      cache.delete_many(keys.values)
      cache.set_many(keys.values_at("replace", "cas", "plain").to_h { |each| [each, 0] })
      _, token = cache.gets(keys["cas"])
      assert_equal true, cache.set(keys["set"], 1, tags: [@tag])
      assert_equal [true, false], Array.new(2) { cache.add(keys["add"], 1, tags: @tag) }
      assert_equal true, cache.replace(keys["replace"], 1, tags: @tag.to_sym)
      assert_equal [true, false], Array.new(2) { cache.cas(keys["cas"], 1, token, tags: Set[@tag]) }
      assert_empty cache.set_many(keys.values_at("one", "two").to_h { |each| [each, 1] }, tags: [@tag, :another])
      assert_equal 1, cache.fetch(keys["made"], ttl: 10, tags: @tag) { 1 }
      made = keys.values_at("made1", "made2")
      assert_equal [1, 1], cache.fetch_many(made, ttl: 10, tags: [@tag]) { |each| each.to_h { |key| [key, 1] } }.values
      assert_equal [*[1] * 9, 0], cache.get_many(keys.values).values_at(*keys.values)
      cache.invalidate_tags("one-that-no-value-has", @tag.to_sym)
      assert_equal({ keys["plain"] => 0 }, cache.get_many(keys.values))
    end
  end

  in_every_model(:an_invalidated_value_is_made_anew_and_is_not_stale) do |_model|
    cache = asking
    other = asking
    3.times do |number|
      made = [cache, other].map { |each| each.fetch(key, ttl: 60, stale: 30, tags: @tag) { number } }
      assert_equal [number, number], made
      other.invalidate_tags(@tag)
    end
    3.times do |number|
      made = cache.fetch_many([key, key(2)], ttl: 60, tags: @tag) { |keys| keys.to_h { |each| [each, number] } }
      assert_equal({ key => number, key(2) => number }, made)
      other.invalidate_tags(@tag)
    end
  end

  in_every_model(:what_is_made_during_an_invalidation_does_not_count) do |_model|
    cache = asking
    other = asking
    made = cache.fetch(key, ttl: 60, tags: @tag) { other.invalidate_tags(@tag) || "old" }
    assert_equal ["old", nil], [made, cache.get(key)]
    assert_equal "new", other.fetch(key, ttl: 60, tags: @tag) { "new" }
    assert_equal "new", cache.get(key)
    made = cache.fetch_many([key(2)], ttl: 60, tags: @tag) do |keys|
      other.invalidate_tags(@tag)
      keys.to_h { |each| [each, "old"] }
    end
    assert_equal [{ key(2) => "old" }, nil], [made, other.get(key(2))]
    refreshed = lambda do |&make|
      cache.cached(key: key(3), ttl: 60, tags: @tag, &make).refresh
    end
    assert_equal "old", (refreshed.call { other.invalidate_tags(@tag) || "old" })
    assert_nil cache.get(key(3))
    assert_equal %w[new new], [refreshed.call { "new" }, cache.get(key(3))]
  end

  in_every_model(:what_is_made_behind_its_caller_has_tags) do |model|
    cache = asking
    other = asking
    terms = { ttl: 100, early: 90, refresh: :behind, tags: @tag, executor: Models::Executor.new }
    cache.set(key, "old", ttl: 50, tags: @tag)
    assert_equal "old", cache.fetch(key, **terms) { "new" }
    Models.wait_until(model) { cache.get(key) == "new" }
    other.invalidate_tags(@tag)
    assert_nil cache.get(key)
  end

  in_every_model(:an_old_value_that_is_kept_keeps_its_tags) do |_model|
    cache = asking
    terms = { ttl: 60, stale: 30, on_error: :stale, retry_after: 20 }
    cache.set_many({ key => "old", key(2) => "old" }, ttl: 60, tags: @tag)
    [key, key(2)].each { |each| assert cache.delete(each, stale: 60) }
    assert_equal "old", cache.fetch(key, **terms) { raise "no database" }
    assert_equal "old", cache.fetch_many([key(2)], **terms) { raise "no database" }[key(2)]
    assert_equal %w[old old], cache.get_many([key, key(2)]).values
    assert_equal "old", cache.fetch(key, **terms) { flunk "it was stored, so that nobody tries again at once" }
    assert_equal "old", cache.fetch_many([key(2)], **terms) { flunk }[key(2)]
    cache.invalidate_tags(@tag)
    assert_empty cache.get_many([key, key(2)])
    assert_raises(RuntimeError) { cache.fetch(key, **terms) { raise "no database" } }
  end

  def test_while_a_pool_is_left_values_are_stored_with_tags_in_the_new_one
    with_server do |server|
      old = asking(server.address)
      new = asking
      both = Pinyon::MigratingClient.new(old, new)
      old.set(key, 1, tags: @tag)
      assert_nil both.get(key)
      assert_equal 2, both.fetch(key, ttl: 60, tags: @tag) { 2 }
      assert_equal true, both.set(key(2), 2, tags: @tag)
      assert_empty both.set_many({ key(3) => 2 }, tags: @tag)
      keys = [key, key(2), key(3)]
      assert_equal [2, 2, 2], new.get_many(keys).values
      both.invalidate_tags(@tag)
      assert_equal [{}, {}], [both.get_many(keys), new.get_many(keys)]
    end
  end

  def test_a_tag_whose_server_is_away
    with_server do |away|
      cache = client(away.address, memcached.address, timeout: 0.5, connect_timeout: 0.5)
      tag, there = [["!tag:", away], ["", memcached]].map do |prefix, server|
        (1..).find { |number| cache.servers_of("#{prefix}#{key(number)}").first == server.address }
      end
      cache.set(key(there), 1, tags: key(tag))
      away.kill
      error = assert_raises(Pinyon::Error) { cache.invalidate_tags(key(tag)) }
      assert_equal [away.address, "invalidate_tags"], [error.server, error.command]
      assert_nil cache.get(key(there)), "nobody knows whether it was invalidated"
      missing = cache.using(on_failure: :miss)
      assert_raises(Pinyon::Error) { missing.invalidate_tags(key(tag)) }
    end
  end

  def test_a_cached_block_has_tags
    numbers = (0..).each
    number = asking.cached(key:, ttl: 60, tags: [@tag]) { numbers.next }
    assert_equal [0, 0], [number.call, number.call]
    asking.invalidate_tags(@tag)
    assert_equal [1, 1, 1], [number.call, number.call, number.peek]
  end

  def test_names_that_no_tag_can_have_are_refused
    cache = client
    {
      [""] => [Pinyon::UsageError, /at least one byte/],
      ["a b"] => [Pinyon::InvalidKey, /the tag "a b"/],
      ["x" * 248] => [Pinyon::InvalidKey, /250/],
      Array.new(65, &:to_s) => [Pinyon::UsageError, /64 tags/],
      7 => [Pinyon::UnsupportedType, "tags must be a String, not an Integer"],
      [["a"]] => [Pinyon::UnsupportedType, "tags must be a String, not an Array"],
      { "a" => 1 } => [Pinyon::UnsupportedType, "tags must be a String, not Hash"]
    }.each do |tags, (kind, message)|
      [
        -> { cache.set(key, 1, tags:) },
        -> { cache.cas(key, 1, 1, tags:) },
        -> { cache.set_many({ key => 1 }, tags:) },
        -> { cache.fetch(key, ttl: 60, tags:, &NEVER) },
        -> { cache.fetch_many([key], ttl: 60, tags:, &NEVER) },
        -> { cache.cached(key:, ttl: 60, tags:) { 1 } },
        -> { cache.invalidate_tags(*(tags.is_a?(Hash) ? [tags] : tags)) }
      ].each { |call| assert_match message, assert_raises(kind, &call).message }
    end
    assert_nil cache.get(key)
    assert cache.set(key, 1, tags: [])
    assert_nil cache.invalidate_tags
  end

  def test_other_dialects_have_no_tags
    pylibmc = client(dialect: "pylibmc")
    [-> { pylibmc.set(key, "1", tags: @tag) }, -> { pylibmc.invalidate_tags(@tag) },
     -> { pylibmc.fetch(key, ttl: 60, tags: @tag, &NEVER) }].each do |call|
      assert_match(/dialect/, assert_raises(Pinyon::UsageError, &call).message)
    end
  end

  private

  # What each way of reading finds.
  def read_in_every_way(cache)
    one = [cache.get(key), cache.gat(key, 100), cache.gets(key)&.first, cache.get_with_ttl(key)&.first]
    many = [cache.get_many([key]), cache.gat_many([key], 100), cache.gets_many([key]).transform_values(&:first)]
    one + many.map { |found| found[key] }
  end
end
