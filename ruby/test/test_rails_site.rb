# frozen_string_literal: true

require_relative "support"
require "socket"

# A Rails application in Puma, in threads and in forked workers.
class TestRailsSite < PinyonTest
  FILE = File.expand_path("site/config.ru", __dir__)
  WAYS = { threads: [], cluster: %w[--workers 2 --preload] }.freeze

  # Puma with the site.
  class Puma < Support::Server
    def initialize(*arguments, servers:, log:)
      environment = { MEMCACHE_SERVERS: servers, LOG: log, RUBYLIB: $LOAD_PATH.join(":"), RAILS_ENV: "production" }
      super("env", *environment.map { |name, value| "#{name}=#{value}" }, "puma", "--threads", "1:4", "--bind",
            "unix://SOCKET", *arguments, FILE)
    end

    # Lets the workers end.
    def kill
      Process.kill(:TERM, @pid)
      Process.wait(@pid)
      @pid = nil
    end
  end

  # A browser.
  class Visitor
    attr_accessor :cookie

    def initialize(site)
      @site = site
    end

    # The body of the answer; the whole answer if it is an error.
    def visit(page)
      answer = UNIXSocket.open(@site.address) do |socket|
        socket.write("GET /#{page} HTTP/1.0\r\nCookie: #{@cookie}\r\n\r\n")
        socket.read
      end
      @cookie = answer[/^Set-Cookie: (site=[^;]*)/i, 1] || @cookie
      answer.start_with?("HTTP/1.0 200") ? answer.split("\r\n\r\n", 2).last : answer
    end
  end

  def setup
    @cache = Support::Server.new(*MEMCACHED)
    @log = File.join(@folder = Dir.mktmpdir("pinyon"), "log")
  end

  def teardown
    super
    @site&.stop
    @cache.stop
    FileUtils.rm_rf(@folder)
  end

  WAYS.each_key do |way|
    define_method("test_a_site_in_#{way}") do
      @site = Puma.new(*WAYS.fetch(way), servers: @cache.address, log: @log)
      check_shared(@site, way)
      check_the_end_of_a_session(@site)
      check_outage(@site)
    end
  end

  # All threads and workers see one cache, and the same sessions.
  def check_shared(site, way)
    answers = Array.new(8) { Thread.new { visits(site) } }.flat_map(&:value)
    assert_equal((1..80).to_a, answers.map { |_pid, number| number.to_i }.sort)
    visitor = Visitor.new(site)
    workers = answers.map(&:first)
    assert(eventually { (workers << visitor.visit("visit").split.first).uniq.size == (way == :cluster ? 2 : 1) })
    made = visitor.visit("cached")
    assert_match(/\Amade by/, made)
    assert_equal([made], Array.new(20) { visitor.visit("cached") }.uniq)
    assert_equal((1..20).map(&:to_s), Array.new(20) { visitor.visit("count") })
  end

  # The number of the worker, and the number of the visit.
  def visits(site)
    visitor = Visitor.new(site)
    Array.new(10) { visitor.visit("visit").split }
  end

  def check_the_end_of_a_session(site)
    visitor = Visitor.new(site)
    visitor.visit("count")
    cookie = visitor.cookie
    visitor.visit("out")
    assert_equal "1", visitor.visit("count")
    refute_equal cookie, visitor.cookie
    visitor.cookie = cookie
    assert_equal "1", visitor.visit("count")
  end

  # memcached ends and begins again.
  def check_outage(site)
    visitor = Visitor.new(site)
    assert_equal "1", visitor.visit("count")
    cookie = visitor.cookie
    @cache.kill
    assert_match(/\Amade by/, visitor.visit("cached"))
    assert_equal "1", visitor.visit("count")
    assert_equal cookie, visitor.cookie
    assert_match(/Pinyon::ConnectError/, File.read(@log))
    @cache.start
    assert(eventually { visitor.visit("count") == "2" })
    assert(eventually { Array.new(5) { visitor.visit("cached") }.uniq.size == 1 })
  end
end
