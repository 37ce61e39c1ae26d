# frozen_string_literal: true

# A Fiber::Scheduler by select alone. It resumes what was unblocked whether or not it is still parked.
class PlainScheduler
  # Raised by {#with_timeout}.
  class Expired < StandardError; end

  Timer = Struct.new(:at, :action)

  # How often a fiber waited for a descriptor.
  attr_reader :waits

  def initialize
    @readable = {}.compare_by_identity
    @timers = []
    @unblocked = Queue.new
    @blocked = 0
    @held = {}.compare_by_identity
    @bell, @ring = IO.pipe
    @waits = 0
  end

  def close
    turn until @readable.empty? && @timers.empty? && @unblocked.empty? && @blocked.zero?
    [@bell, @ring].each(&:close)
  end

  def fiber(&block)
    Fiber.new(blocking: false, &block).tap(&:resume)
  end

  # Holds the fibers that wait for Ruby's own locks. The others must be held by what they wait for.
  def block(blocker, timeout = nil)
    fiber = Fiber.current
    @blocked += 1
    @held[fiber] = true unless blocker.is_a?(IO)
    within(timeout, -> { fiber.resume(false) }) { Fiber.yield }
  ensure
    @blocked -= 1
    @held.delete(fiber)
  end

  def unblock(_blocker, fiber)
    @unblocked << fiber
    @ring.write_nonblock(".", exception: false)
  end

  def io_wait(io, events, timeout = nil)
    raise NotImplementedError unless events == IO::READABLE

    @waits += 1
    fiber = Fiber.current
    @readable[fiber] = io
    within(timeout, -> { fiber.resume(false) }) { Fiber.yield }
  ensure
    @readable.delete(fiber)
  end

  def kernel_sleep(seconds = nil)
    block(nil, seconds)
  end

  def with_timeout(seconds, &block)
    fiber = Fiber.current
    within(seconds, -> { fiber.raise(Expired) }, &block)
  end

  private

  def turn
    wait
    Array.new(@unblocked.size) { @unblocked.pop }.each { |fiber| fiber.resume if fiber.alive? }
    @timers.select { |timer| timer.at <= now }.each { |timer| timer.action.call if @timers.delete(timer) }
  end

  def wait
    due = @timers.map(&:at).min
    left = due && [due - now, 0].max
    ready, = IO.select([@bell, *@readable.values.uniq], nil, nil, @unblocked.empty? ? left : 0)
    @bell.read_nonblock(4096, exception: false) if ready&.include?(@bell)
    @readable.to_a.each { |fiber, io| fiber.resume(IO::READABLE) if ready&.include?(io) }
  end

  def within(seconds, action)
    timer = Timer.new(now + seconds, action) if seconds
    @timers << timer if timer
    yield
  ensure
    @timers.delete_if { |each| each.equal?(timer) }
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end
end
