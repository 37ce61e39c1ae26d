# frozen_string_literal: true

require_relative "support"
require_relative "models"

# Servers from a configuration endpoint.
class TestDiscovery < PinyonTest
  extend Models

  # Lists servers, as the endpoints of ElastiCache and Memorystore do.
  class Endpoint < Support::ScriptedServer
    def initialize(*servers)
      change(*servers)
      super()
    end

    def change(*servers)
      @version = @version.to_i + 1
      listed = servers.map { |server| server.address.then { |address| "127.0.0.1|127.0.0.1|#{address[/\d+\z/]}" } }
      @listing = "#{@version}\n#{listed.join(" ")}\n"
    end

    private

    def answer(command = nil, *)
      greeting = { "version" => "VERSION 1.6.22\r\n", "mn" => "MN\r\n" }
      greeting.fetch(command) { "CONFIG cluster 0 #{@listing.bytesize}\r\n#{@listing}\r\nEND\r\n" }
    end
  end

  def setup
    memcached = ["memcached", "-u", Etc.getpwuid.name, "-l", "127.0.0.1", "-p", "PORT", "-U", "0"]
    @servers = Array.new(2) { Server.new(*memcached) }
    @endpoint = Endpoint.new(@servers.first)
  end

  def teardown
    super
    [@endpoint, *@servers].each(&:stop)
  end

  in_every_model(:servers_that_are_added_are_used) do |model|
    @endpoint.change(@servers.first)
    events = []
    told = ->(event) { events << event.kind }
    cache = client(@endpoint.address, discovery: "config", discovery_interval: 0.1, on_event: told)
    assert cache.set("key", "value")
    assert_equal [@servers.first.address], cache.servers
    @endpoint.change(*@servers)
    Models.wait_until(model) { [cache.get("key"), cache.servers.size].last == 2 }
    assert_equal @servers.map(&:address).sort, cache.servers.sort
    Models.wait_until(model) { [cache.get("key"), events.include?(:servers)].last }
    pairs = (1..40).to_h { |number| ["key:#{number}", number] }
    assert_empty cache.set_many(pairs)
    assert_equal pairs, cache.get_many(pairs.keys)
    assert(cache.stats.each_value.all? { |figures| figures.fetch("curr_items").to_i.positive? })
  end
end
