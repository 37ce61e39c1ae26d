# frozen_string_literal: true

require_relative "support"
require_relative "making"

# Methods and blocks whose results are cached.
class TestCached < PinyonTest
  extend Models
  include Making

  # Counts what runs.
  class Shop
    attr_reader :name, :calls

    def initialize(name = "shop")
      @name = name
      @calls = 0
    end

    def product(id, currency: "EUR")
      @calls += 1
      [@name, id, currency, @calls]
    end

    def self.rate(currency)
      "rate of #{currency}"
    end

    def call_secret(id)
      secret(id)
    end

    private

    def secret(id)
      id
    end
  end

  def a_class
    Class.new(Shop) { def self.to_s = "Shop" }
  end

  in_every_model(:one_of_many_callers_runs_the_block) do |model|
    maker = Maker.new(model, { "made" => 1 }, held: true)
    make = maker.to_proc
    made = client.cached(key: "#{key}:{id}", ttl: 60) { |id| make.call(id) }
    tasks = Array.new(20) { Models::Task.new(model) { made.call(5) } }
    maker.begun
    maker.held = false
    assert_equal [{ "made" => 1 }], tasks.map(&:value).uniq
    assert_equal 1, maker.calls
  end

  in_every_model(:a_result_is_looked_at_deleted_and_made_anew) do |_model|
    cache = client
    calls = 0
    product = cache.cached(key: "#{key}:{id}", ttl: 60, stale: 30) { |id| [id, calls += 1] }
    assert_equal "#{key}:7", product.key(7)
    assert_nil product.peek(7)
    refute product.invalidate(7)
    assert_equal [[7, 1], [7, 1], [7, 1]], [product.call(7), product[7], product.peek(7)]
    assert product.invalidate(7)
    assert_nil product.peek(7)
    assert_equal [[7, 2], [8, 3]], [7, 8].map(&product)
    assert_equal [7, 4], product.refresh(7)
    assert_equal [[7, 4], 4], [product.call(7), calls]
    assert_operator cache.get_with_ttl(product.key(7)).last, :>, 80
    assert_equal [9, 5], product.refresh(9)
  end

  in_every_model(:a_call_that_began_earlier_does_not_overwrite_what_was_refreshed) do |model|
    maker = Maker.new(model, "of before", held: true)
    make = maker.to_proc
    before = client.cached(key:, ttl: 60) { make.call }
    after = client.cached(key:, ttl: 60) { "of after" }
    task = Models::Task.new(model) { before.call }
    maker.begun
    assert_equal "of after", after.refresh
    maker.held = false
    assert_equal "of before", task.value
    assert_equal ["of after", "of after"], [after.peek, before.call]
  end

  def test_a_refresh_that_fails_leaves_the_old_result
    made = ["old"]
    product = client.cached(key:, ttl: 60, stale: 30, on_error: :stale) { made.pop || raise("no database") }
    assert_equal "old", product.call
    assert_raises(RuntimeError) { product.refresh }
    assert_equal %w[old old], [product.call, product.peek]
  end

  def test_nil_is_a_result_like_any_other
    calls = 0
    nothing = client.cached(key:, ttl: 60) do
      calls += 1
      nil
    end
    assert_equal [nil, nil, 1], [nothing.call, nothing.call, calls]
  end

  def test_a_result_says_how_long_it_is_kept
    cache = client
    short = cache.cached(key: "#{key}:{id}", ttl: 60) { |id| Pinyon::Made.new(id, ttl: 5) }
    assert_equal [7, 7], [short.refresh(7), short.call(7)]
    assert_operator cache.get_with_ttl(short.key(7)).last, :<=, 5
  end

  def test_methods_of_objects
    shop = a_class
    product = client.cached(:product, of: shop, key: "#{key}:{self.name}:{id}", ttl: 60)
    here = shop.new("here")
    there = shop.new("there")
    assert_equal [["here", 7, "EUR", 1]] * 2, [here.product(7), here.product(7)]
    assert_equal ["there", 7, "EUR", 1], there.product(7)
    bound = product.bind(here)
    assert_equal ["here", 7, "EUR", 1], bound.peek(7)
    assert bound.invalidate(7)
    assert_equal ["here", 7, "USD", 2], here.product(7, currency: "USD")
    assert_equal ["here", 7, "EUR", 3], bound.refresh(7)
    assert_equal [3, ["there", 7, "EUR", 1]], [here.calls, product.bind(there).call(7)]
    assert_raises(TypeError) { product.bind("text") }
    assert_match(/bind Shop#product to one/, assert_raises(Pinyon::UsageError) { product.key(7) }.message)
  end

  def test_a_method_whose_key_needs_no_object
    shop = a_class
    product = client.cached(:product, of: shop, key: "#{key}:{id}", ttl: 60)
    shop.new.product(7)
    assert_equal ["shop", 7, "EUR", 1], product.peek(7)
    assert product.invalidate(7)
    assert_match(/runs in an object/, assert_raises(Pinyon::UsageError) { product.refresh(7) }.message)
  end

  def test_methods_of_classes_and_private_methods
    shop = a_class
    rate = client.cached(:rate, of: shop.singleton_class, key: "#{key}:{currency}", ttl: 60)
    assert_equal ["rate of EUR", "rate of EUR"], [shop.rate("EUR"), rate.peek("EUR")]
    client.cached(:secret, of: shop, key: "#{key}:{0}", ttl: 60)
    assert_equal 5, shop.new.call_secret(5)
    assert_raises(NoMethodError) { shop.new.secret(5) }
  end

  def test_a_proc_makes_keys_of_all_arguments
    shop = a_class
    name = key
    by = ->(id, currency: "EUR") { "#{name}:#{self.name}:#{id}:#{currency}" }
    product = client.cached(:product, of: shop, key: by, ttl: 60)
    assert_equal ["shop", 7, "USD", 1], shop.new.product(7, currency: "USD")
    assert_equal "#{name}:shop:7:EUR", product.bind(shop.new).key(7)
  end

  def test_where_arguments_are
    cache = client
    each = cache.cached(key: "{{{a}:{c}:{d.size}}}") { |a, b = 1, *rest, c, d:, **more| [a, b, rest, c, d, more] }
    assert_equal "{1:2:1}", each.key(1, 2, d: "x")
    assert_equal "{1:5:1}", each.key(1, 2, 3, 4, 5, d: "x", e: 1)
    assert_raises(ArgumentError) { each.key(1, d: "x") }
    numbered = cache.cached(key: "{0}:{2}:{more}", ttl: 60) { |*all, **keywords| [all, keywords] }
    assert_equal "1:3:4", numbered.key(1, 2, 3, more: 4)
    assert_match(/fills "2"/, assert_raises(Pinyon::UsageError) { numbered.key(1, more: 4) }.message)
    assert_match(/fills "more"/, assert_raises(Pinyon::UsageError) { numbered.key(1, 2, 3) }.message)
    assert_raises(ArgumentError) { cache.cached(key: "a", ttl: 60) { |id| id }.key(1, 2) }
  end

  [
    ["{missing}", /no argument of the block fills "missing" in the key/],
    ["{1}", /fills "1"/],
    ["{self}", /fills "self"/],
    ["{currency}", /gives "currency" a default/],
    ["{id", /is no key: "{" names no argument; a brace itself is written twice/],
    ["{}", /is no key: "{}"/],
    ["{id-1}", /is no key/],
    ["", /key is a String/],
    [nil, /key is a String/]
  ].each do |template, says|
    define_method("test_#{template.inspect}_is_refused") do
      call = -> { client.cached(key: template) { |id, currency = "EUR"| [id, currency] } }
      error = assert_raises(Pinyon::UsageError, &call)
      assert_match says, error.message
    end
  end

  def test_what_cannot_be_cached_is_refused
    shop = a_class
    shop.define_method(:each) { |&block| block.call }
    block = proc {}
    {
      "takes a method and its class" => -> { client.cached(key: "a") },
      "as in cached" => -> { client.cached(:product, key: "a") },
      "or a block" => -> { client.cached(:product, of: shop, key: "a", &block) },
      "takes a block" => -> { client.cached(:each, of: shop, key: "a") },
      "stail" => -> { client.cached(key: "a", stail: 5, &block) },
      "needs stale" => -> { client.cached(key: "a", ttl: 5, on_error: :stale, &block) },
      "belongs to no object" => -> { client.cached(key: "a", ttl: 5, &block).bind(shop) }
    }.each { |says, call| assert_includes assert_raises(Pinyon::UsageError, &call).message, says }
    assert_raises(NameError) { client.cached(:missing, of: shop, key: "a") }
  end
end
