# frozen_string_literal: true

# Fibers and threads that are stopped at random while they read from a cache: python -m pinyon_verify ruby
#
#   ruby stops.rb '{"model": "async", "servers": ["127.0.0.1:11211"], "stops": 2000, "seed": 1}'
#
# It prints what it has found, as JSON.

require "json"
require "pinyon"
require_relative "../../ruby/test/reactors"

# Callers of one client that are stopped, timed out, raised at and killed.
class Stops
  # Raised at threads.
  class Raised < StandardError; end

  # Callers at a time.
  TOGETHER = { fibers: 32, threads: 8 }.freeze
  # A timeout that is no reason for a caller to end.
  GENEROUS = 60
  # Bytes of values, from empty ones to some that arrive in many parts.
  SIZES = [0, 10, 1000, 100_000].freeze

  def initialize(servers:, stops:, seed:)
    @servers = servers
    @stops = stops
    @random = Random.new(seed)
    @wrong = Queue.new
    @counts = Hash.new(0)
    @values = Array.new(32) { |number| ["key:#{number}", "#{number} " + ("x" * SIZES[number % SIZES.size])] }
  end

  # In one of the reactors: some fibers are stopped, some have too little time, the others are to read on.
  def fibers(reactor)
    measured do |cache, share|
      until %i[stopped timed_out].all? { |kind| @counts[kind] >= @stops * share }
        reactor.run { 20.times { round_of_fibers(reactor, cache) } }
      end
    end
  end

  def threads
    measured { |cache, share| round_of_threads(cache) until @counts[:ended] >= @stops * share }
  end

  private

  # Does half of the work, and then all of it. Returns what was found, and what was left behind.
  def measured
    with_client { |cache| fill(cache) && yield(cache, 0.5) }
    before = left
    with_client { |cache| yield cache, 1 }
    after = left
    { findings: Array.new(@wrong.size) { @wrong.pop }, counts: @counts, before:, after: }
  end

  def with_client
    cache = Pinyon::Client.new(*@servers, timeout: GENEROUS, connect_timeout: GENEROUS)
    yield cache
    check_all(cache)
  ensure
    cache.close
  end

  def fill(cache)
    @values.each { |key, value| cache.set(key, value) }
  end

  def check_all(cache)
    @values.each { |key, value| check(cache, key, value) }
    @wrong << "values are missing" unless cache.get_many(@values.map(&:first)) == @values.to_h
  end

  def check(cache, key, value)
    read = cache.get(key)
    read == value ? @counts[:right] += 1 : @wrong << "#{key} is #{read.inspect[0, 60]}"
  rescue Pinyon::Error => e
    @wrong << "#{key}: #{e.class}: #{e.message}"
  end

  def round_of_fibers(reactor, cache)
    fibers = Array.new(TOGETHER.fetch(:fibers)) { |number| fiber(reactor, cache, number % 4) }
    reactor.pause(@random.rand / 500)
    fibers.each_slice(4) { |first, *| reactor.stop(first) }
  end

  # @param kind [Integer] 0: is stopped; 1: has too little time
  def fiber(reactor, cache, kind)
    reactor.start do
      ended = false
      reactor.with_timeout(kind == 1 ? @random.rand / 200 : GENEROUS) do
        read_some(cache, kind < 2 ? 1000 : 10)
        ended = true
      end
    rescue reactor::EXPIRED
      @counts[:timed_out] += 1
      ended = true
    ensure
      @counts[:stopped] += 1 unless ended
    end
  end

  def read_some(cache, number)
    first = @random.rand(@values.size)
    number.times { |index| check(cache, *@values[(first + index) % @values.size]) }
  end

  def round_of_threads(cache)
    threads = Array.new(TOGETHER.fetch(:threads)) do
      Thread.new { read_some(cache, 1_000_000) }
    end
    sleep(@random.rand / 200)
    threads.each_with_index { |thread, number| number.even? ? thread.kill : thread.raise(Raised) }
    threads.each { |thread| ended(thread) }
  end

  def ended(thread)
    @wrong << "a thread does not end" unless thread.join(GENEROUS)
    @counts[:ended] += 1
  rescue Raised
    @counts[:ended] += 1
  end

  # Open descriptors and bytes of memory.
  def left
    3.times { GC.start }
    memory = File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i << 10
    { descriptors: Dir.children("/proc/self/fd").size, memory: }
  end
end

Thread.report_on_exception = false
settings = JSON.parse(ARGV.fetch(0), symbolize_names: true)
stops = Stops.new(**settings.except(:model))
model = settings.fetch(:model)
found = model == "threads" ? stops.threads : stops.fibers(Reactors::ALL.fetch(model.to_sym))
puts JSON.dump(found)
