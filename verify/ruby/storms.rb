# frozen_string_literal: true

# Threads that are interrupted at random while they acquire locks and leases: python -m pinyon_verify storms
#
#   ruby storms.rb '{"model": "ruby-threads", "redis": "/r", "memcached": "/m", "interrupts": 1000, "seed": 1}'
#
# It prints what it has found, as JSON.

require "json"
require "timeout"
require "pinyon"
require_relative "storms/callers"

# Interrupts of every kind, until there were enough of each.
class Storm
  # Raised at threads.
  class Cut < StandardError; end

  # Threads that acquire, at a time.
  TOGETHER = 4
  # Seconds within which a thread that was interrupted must end.
  PATIENCE = 60
  # Up to how many seconds a thread works before it is interrupted.
  LONGEST = 0.0008

  def initialize(redis:, memcached:, interrupts:, seed:, ways: [])
    @callers = Callers.new(redis, memcached, seed, ways)
    @interrupts = interrupts
    @random = Random.new(seed)
    @counts = Hash.new(0)
    @mutex = Mutex.new
  end

  # A third of the interrupts is of each kind, and a tenth of them comes while another thread is busy.
  def run
    %i[timeout raise kill].each do |kind|
      strike_until(kind, @interrupts * 3 / 10)
      busily { strike_until(kind, @interrupts / 3) }
    end
    { findings: @callers.findings, counts: @counts }
  end

  private

  def strike_until(kind, number)
    until @counts[kind] >= number
      deadline = @counts[kind] + [number - @counts[kind], 500].min
      send(:"by_#{kind}", deadline)
      @callers.look
    end
  end

  # A thread that needs the processor for some milliseconds at a time, as others of a server do.
  def busily
    thread = Thread.new do
      loop do
        ends = now + 0.002
        nil while now < ends
        sleep(0.001)
      end
    end
    yield
  ensure
    thread.kill.join
  end

  def by_timeout(number)
    together do |random|
      until @counts[:timeout] >= number
        begin
          Timeout.timeout(random.rand * LONGEST) { @callers.act(random) }
        rescue Timeout::Error
          count(:timeout)
        end
      end
    end
  end

  def by_raise(number)
    stops = false
    victims = Array.new(TOGETHER) { |index| victim(Random.new(@random.rand(1 << 30) + index)) { stops } }
    until @counts[:raise] >= number
      sleep(@random.rand * LONGEST)
      victims.sample(random: @random).raise(Cut)
    end
    stops = true
    finish(victims)
  end

  # A thread that can be cut while it acts, and at no other time.
  def victim(random)
    Thread.new do
      Thread.handle_interrupt(Cut => :never) do
        until yield
          begin
            Thread.handle_interrupt(Cut => :immediate) { @callers.act(random) }
          rescue Cut
            count(:raise)
          end
        end
      end
    end
  end

  def by_kill(number)
    until @counts[:kill] >= number
      threads = Array.new(TOGETHER) do
        random = Random.new(@random.rand(1 << 30))
        Thread.new { loop { @callers.act(random) } }
      end
      threads.each do |thread|
        sleep(@random.rand * LONGEST)
        thread.kill
        count(:kill)
      end
      finish(threads)
    end
  end

  def together
    threads = Array.new(TOGETHER) do
      random = Random.new(@random.rand(1 << 30))
      Thread.new { yield random }
    end
    finish(threads)
  end

  def finish(threads)
    threads.each { |thread| ended(thread) }
  end

  def ended(thread)
    @callers.wrong("a thread does not end: #{thread.backtrace&.first(20)&.join(" < ")}") unless thread.join(PATIENCE)
  rescue Cut
    nil
  end

  def count(kind)
    @mutex.synchronize { @counts[kind] += 1 }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end

Thread.report_on_exception = false
settings = JSON.parse(ARGV.fetch(0), symbolize_names: true)
puts JSON.dump(Storm.new(**settings.except(:model)).run)
