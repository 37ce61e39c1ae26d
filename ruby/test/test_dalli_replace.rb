# frozen_string_literal: true

require "open3"
require_relative "dallis"

# Programs that name `Dalli`, with Pinyon's in its place.
class TestDalliReplace < PinyonTest
  include Dallis

  REPLACED = 'require "pinyon/compat/dalli/replace"'

  # Prints what Rails' store for memcached returns.
  RAILS = <<~RUBY
    require "active_support"
    require "active_support/cache"
    require "active_support/cache/mem_cache_store"
    Dalli.logger = Logger.new(IO::NULL)
    up, down = %w[SERVER 127.0.0.1:1].map do |server|
      ActiveSupport::Cache::MemCacheStore.new(server, namespace: "rails", socket_timeout: 60)
    end
    p down.read("k"), down.write("k", 1), down.fetch("k") { 3 }, down.delete("k"), down.read_multi("k")
    up.clear
    p !!up.write("k", { x: 1 }), up.read("k"), up.fetch("l") { "made" }, up.fetch("l") { 5 }, up.read("long" * 80)
    p !!up.write("long" * 80, 2), up.read("long" * 80), up.read_multi("k", "l", "missing"), up.exist?("missing")
    p !!up.write("k", 1, unless_exist: true), !!up.write("ü k", 4, unless_exist: true), up.read("ü k"), up.delete("k")
    p !!up.write("n", 5, raw: true), up.increment("n"), up.decrement("n", 2), up.read("n", raw: true), !!up.delete("k")
    p !!up.write("big", "x" * 9000), up.read("big").size, up.write_multi({ "q" => 1 }).size, up.read("q"), up.stats.size
  RUBY

  def test_require_finds_pinyons
    program = <<~RUBY
      #{REPLACED}
      require "dalli"
      require "dalli/client"
      require "dalli/cas/client"
      cache = Dalli::Client.new("#{memcached.address}", namespace: "replaced")
      p cache.set("k", 1).positive?, cache.get("k"), Dalli.name, $LOADED_FEATURES.grep(%r{/dalli-})
    RUBY
    assert_equal "true\n1\n\"Pinyon::Compat::Dalli\"\n[]\n", said_by(program)
  end

  def test_it_cannot_be_replaced_once_it_is_loaded
    skip "ruby-dalli is not installed" unless defined?(Dalli)
    program = %(require "dalli"; begin; #{REPLACED}; rescue LoadError => e; puts e; end)
    assert_match(/\ADalli is already loaded.*require pinyon.* before dalli$/, said_by(program))
  end

  def test_rails_store_for_memcached_does_the_same_with_both
    program = RAILS.sub("SERVER", memcached.address)
    on_pinyon = said_by("#{REPLACED}\n#{program}")
    skip "ruby-activesupport is not installed" if on_pinyon.include?("cannot load such file -- active_support")
    # A write that fails is false in Rails 6.1, and nil in Rails 7.1.
    assert_match(/\Anil\n(false|nil)\n3\nfalse\n{}\ntrue\n/, on_pinyon)
    skip "ruby-dalli is not installed" unless defined?(Dalli)
    assert_equal said_by(%(require "dalli"\n#{program})), on_pinyon
  end

  def said_by(program)
    said, = Open3.capture2e(RbConfig.ruby, "-I", File.expand_path("../lib", __dir__), stdin_data: program)
    said
  end

  # A server of these tests alone, as Rails' store flushes it.
  def memcached
    Support::SERVERS[:replaced] ||= Support::Server.new(*Support::MEMCACHED)
  end
end
