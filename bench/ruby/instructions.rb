# frozen_string_literal: true

# The program whose instructions are counted: `ruby instructions.rb MODEL SOCKET`. `callgrind.py` describes its marks.
#
# Garbage is not collected, and the heap is large from the start (`STEADY` there), so that neither is part of a count.

$LOAD_PATH.unshift(File.expand_path("../../ruby/lib", __dir__))
require "pinyon"

# The operations that are counted, in threads and fibers.
module Instructions
  MORE = 3
  ROUNDS = 5
  # How many fibers at once, in each model.
  FIBERS = { "fibers" => [1, 16, 64], "async" => [64], "eventmachine" => [64] }.freeze
  KEYS = Array.new(100) { |number| format("%036d", number).freeze }.freeze
  VALUE = ("v" * 36).b.freeze
  STORED = KEYS.to_h { |key| [key, VALUE] }.freeze
  # Far longer than any operation takes, even on slow processors.
  TIMEOUT = 30.0
  # Seconds for which hot keys in memory are fresh.
  FOREVER = 10_000.0
  LOCK_TTL = 10_000

  # A thread.
  class Blocking
    def initialize(address)
      @client = Instructions.client(address)
      @near = Instructions.client(address, near: { fresh: FOREVER })
    end

    # Loops by `while`, and on locals, cost least beside the client.
    def count
      client = @client
      key = KEYS[0]
      Instructions.count("ruby:get", 100) { |left| client.get(key) while (left -= 1) >= 0 }
      Instructions.count("ruby:set", 100) { |left| client.set(key, VALUE) while (left -= 1) >= 0 }
      Instructions.count("ruby:get_many:100", 10) { |left| client.get_many(KEYS) while (left -= 1) >= 0 }
      near = @near
      Instructions.count("ruby:near:get", 100) { |left| near.get(key) while (left -= 1) >= 0 }
    end
  end

  # A lock of one name, acquired and released by one thread.
  class Locks
    def initialize(address)
      @locks = Pinyon::Locks.new("unix://#{address}", connect_timeout: TIMEOUT)
    end

    def count
      Instructions.count("ruby:locks:pair", 60) do |times|
        times.times { @locks.synchronize("name", ttl: LOCK_TTL, timeout: TIMEOUT) { nil } }
      end
    end
  end

  # Fibers that share a client, each with its own key.
  class Fibers
    def initialize(address, model)
      require_relative "models/#{model}"
      require "pinyon/eventmachine" if model == "eventmachine"
      @client = Instructions.client(address)
      @model = model
    end

    def count
      PinyonBench::MODEL.run { FIBERS.fetch(@model).each { |fibers| count_with(fibers) } }
    end

    private

    def count_with(fibers)
      few = fibers == 1 ? 50 : 10
      keys = KEYS.first(fibers)
      client = @client
      Instructions.count("ruby:#{@model}:get:#{fibers}", few, fibers) do |times|
        together(keys) { |key, left = times| client.get(key) while (left -= 1) >= 0 }
      end
      Instructions.count("ruby:#{@model}:set:#{fibers}", few, fibers) do |times|
        together(keys) { |key, left = times| client.set(key, VALUE) while (left -= 1) >= 0 }
      end
    end

    def together(keys)
      PinyonBench::MODEL.together(keys.map { |key| -> { yield key } })
    end
  end

  module_function

  # Returns a client whose server has all keys.
  def client(address, **settings)
    client = Pinyon::Client.new(address, timeout: TIMEOUT, connect_timeout: TIMEOUT, **settings)
    client.set_many(STORED)
    raise "the server does not hold what was set" unless client.get_many(KEYS) == STORED

    client
  end

  # Does an operation few times, and more often, and prints its name.
  def count(name, few, at_once = 1, &operation)
    operation.call(few)
    ROUNDS.times do
      [few, MORE * few].each do |times|
        Process.ppid
        operation.call(times)
      end
    end
    Process.ppid
    $stdout.write("#{name}\t#{few * (MORE - 1) * at_once}\n")
    $stdout.flush
  end

  # Returns what counts the operations of a model.
  def model(name, address)
    case name
    when "ruby" then Blocking.new(address)
    when "ruby:locks" then Locks.new(address)
    else Fibers.new(address, name.delete_prefix("ruby:"))
    end
  end
end

GC.disable
Instructions.model(*ARGV).count
# The end of the interpreter under callgrind is of no interest.
exit!(0)
