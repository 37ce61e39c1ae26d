# frozen_string_literal: true

require_relative "support"

# A Rails application in real servers, and its visitors.
module RailsSites
  FOLDER = File.expand_path("site", __dir__)
  FILE = File.join(FOLDER, "config.ru")
  # How each server is started: threads, forked workers, and the fibers of async.
  WAYS = {
    threads: %W[puma --threads 1:4 --bind unix://SOCKET #{FILE}],
    cluster: %W[puma --threads 1:4 --bind unix://SOCKET --workers 2 --preload #{FILE}],
    async: %W[ruby #{File.join(FOLDER, "async_server.rb")} SOCKET #{FILE}]
  }.freeze

  # A server with the site.
  class Site < Support::Server
    # @param settings [Hash] further variables of the environment
    def initialize(way, **settings)
      environment = { RUBYLIB: $LOAD_PATH.join(":"), RAILS_ENV: "production", **settings }
      super("env", *environment.map { |name, value| "#{name}=#{value}" }, *WAYS.fetch(way))
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
        socket.write("GET /#{page} HTTP/1.0\r\nHost: site\r\nCookie: #{@cookie}\r\n\r\n")
        socket.read
      end
      @cookie = answer[/^Set-Cookie: (site=[^;]*)/i, 1] || @cookie
      answer.match?(%r{\AHTTP/1\.[01] 200}) ? answer.split("\r\n\r\n", 2).last : answer
    end
  end

  # Starts the site of a test on its memcached.
  def serve(way, **settings)
    skip "async-http is not installed" if way == :async && !async_http?
    @log = File.join(@folder = Dir.mktmpdir("pinyon"), "log")
    @site = Site.new(way, MEMCACHE_SERVERS: @cache.address, LOG: @log, **settings)
  end

  def teardown
    super
    @site&.stop
    @cache.stop
    FileUtils.rm_rf(@folder) if @folder
  end

  private

  def async_http?
    Gem::Specification.any? { |gem| gem.name == "async-http" }
  end
end
