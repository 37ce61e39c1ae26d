# frozen_string_literal: true

# The process under test in `python -m pinyon_verify soak`: all workers of one of Ruby's models.
#
#   ruby soak.rb SETTINGS
#
# It does what pinyon_verify/soak/client.py does, and prints the same facts as JSON.

require "json"
require "pinyon"
require_relative "../../ruby/test/reactors"
require_relative "soak/ledger"
require_relative "soak/sabotage"
require_relative "soak/worker"

# Threads, in the vocabulary of reactors.
module Threads
  module_function

  def run
    @threads = []
    yield
    @threads.each(&:join)
  end

  def start(&block)
    @threads << Thread.new(&block)
  end

  def pause(seconds)
    sleep(seconds)
  end
end

MODELS = { threads: Threads, **Reactors::ALL }.freeze

# The findings of a process's workers.
Record = Struct.new(:operations, :hits, :errors, :findings, :slowest)

# Watches memory and descriptors, and ends the process when an operation hangs.
class Watch
  attr_reader :most_sockets
  attr_accessor :workers

  def self.descriptors
    open.size
  end

  # How many connections the process has. A caller that waits for one holds both ends of a pipe instead.
  def self.sockets
    open.count { |name| name.start_with?("socket:") }
  end

  # What the process's descriptors are of, such as socket:[4711]. Some are closed meanwhile, as that of the folder is.
  def self.open
    Dir.children("/proc/self/fd").filter_map do |name|
      File.readlink("/proc/self/fd/#{name}")
    rescue Errno::ENOENT
      nil
    end.sort
  end

  def self.memory
    File.read("/proc/self/status")[/VmRSS:\s+(\d+)/, 1].to_i << 10
  end

  def initialize(settings)
    @settings = settings
    @warm_at = now + (settings[:seconds] * settings[:warm])
    @workers = []
    # The operation of each worker at the last look, and at how many looks in a row it was the same.
    @found = {}
    @most_sockets = 0
    @thread = Thread.new { loop { look && sleep(@settings[:look]) } }
  end

  def stop
    @thread.kill.join
  end

  def warm_memory
    @warm_memory || Watch.memory
  end

  private

  def look
    @most_sockets = [@most_sockets, Watch.sockets].max
    @warm_memory ||= Watch.memory if now > @warm_at
    # cas is two operations.
    most = ((2 * @settings[:timeout]) + @settings[:margin]) / @settings[:look]
    hanging = @workers.find { |worker| looks_at(worker) > most }
    hanging ? give_up(hanging) : true
  end

  # How many looks in a row have found the worker in this operation. They are counted, not seconds: a process that its
  # machine keeps from running does not look either.
  def looks_at(worker)
    busy = worker.busy
    return 0 unless busy

    before, looks = @found[worker]
    @found[worker] = [busy, busy.equal?(before) ? looks + 1 : 1]
    @found[worker].last
  end

  def give_up(worker)
    Thread.list.each { |thread| warn(thread.backtrace&.join("\n"), "") }
    worker.record.findings << "hang: #{worker.busy&.first} of worker #{worker.number} does not return"
    puts JSON.dump(facts(worker.record, 0, 0, self))
    $stdout.flush
    exit!(0)
  end
end

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC)
end

def facts(record, before, after, watch)
  { **record.to_h, descriptors_before: before, descriptors_after: after, most_sockets: watch.most_sockets,
                   open: Watch.open, warm_memory: watch.warm_memory, memory: Watch.memory }
end

# Descriptors that a model opens once and keeps are no leak.
def warm_up(model, settings)
  client = Pinyon::Client.new(*settings[:servers], timeout: 5, connect_timeout: 5)
  model.run { model.start { client.get("warm") } }
  client.close
end

def tribes(settings)
  half = settings[:workers] / 2
  { "stay" => [false, 0...half], "move" => [true, half...settings[:workers]] }.map do |name, (failover, numbers)|
    client = Pinyon::Client.new(*settings[:servers], timeout: settings[:timeout],
                                                     connect_timeout: settings[:timeout] / 2, failover:)
    used = settings[:sabotage].empty? ? client : Sabotage::ALL.fetch(settings[:sabotage]).new(client)
    Tribe.new(name, used, Ledger.new(settings[:sizes], keys_stay: !failover), numbers)
  end
end

def soak(model, settings, record, watch)
  ends = now + settings[:seconds]
  both = tribes(settings)
  watch.workers = both.flat_map do |tribe|
    tribe.numbers.map { |number| Worker.new(number, tribe, record, settings, ends) }
  end
  File.write(settings[:begun], "")
  model.run { watch.workers.each { |worker| model.start { worker.work(model) } } }
  both.each { |tribe| tribe.client.close }
end

# The descriptors that stay open. A reactor's close when nothing refers to its scheduler any more. What is left of it on
# a stack looks like a reference, so reactors run in threads that end.
def descriptors_left(model, expected)
  100.times do
    GC.start
    break if Watch.descriptors <= expected

    Thread.new { model.run { model.start { model.pause(0.001) } } }.join
  end
  Watch.descriptors
end

settings = JSON.parse(ARGV.fetch(0), symbolize_names: true)
model = MODELS.fetch(settings[:model].delete_prefix("ruby-").to_sym)
record = Record.new(0, 0, Hash.new(0), [], 0.0)
Thread.new { warm_up(model, settings) }.join
before = descriptors_left(model, 0)
watch = Watch.new(settings)
Thread.new { soak(model, settings, record, watch) }.join
watch.stop
puts JSON.dump(facts(record, before, descriptors_left(model, before), watch))
