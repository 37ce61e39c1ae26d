# frozen_string_literal: true

require "socket"
require_relative "changing"
require_relative "tickets"
require_relative "wanted"

NANOSECONDS = 1_000_000_000

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

def nanoseconds(seconds)
  (seconds * NANOSECONDS).to_i
end

# When the world ends, as far as it is known now.
def ending(folder)
  Integer(File.read(File.join(folder, "start")))
end

# Appends lines to the file of this process.
class Recorder
  def initialize(folder)
    @folder = folder
    begin_anew
  end

  # A forked child writes a file of its own.
  def after_fork
    @file.close
    begin_anew
  end

  def call(event, attempt = "", at: now, **facts)
    @file.syswrite("#{JSON.dump([at, Process.pid, event, attempt, facts])}\n")
  end

  private

  def begin_anew
    flags = File::WRONLY | File::CREAT | File::APPEND
    @file = File.open(File.join(@folder, "#{Process.pid}-#{now}.lines"), flags).tap { |file| file.sync = true }
  end
end

# The register that enforces tokens. Its script is that of pinyon_verify/locks/register.py.
class Register
  SCRIPT = File.read(File.expand_path("../../pinyon_verify/locks/register.py", __dir__))[/_SCRIPT = """(.*?)"""/m, 1]

  def initialize(path)
    @socket = UNIXSocket.new(path)
  end

  # Whether the write was accepted, and its position among all writes and reads.
  def write(name, token)
    accepted, order = ask(name, token)
    [accepted == 1, order]
  end

  # The token that was written last, 0 if there is none, and the position.
  def read(name, token)
    ask(name, token, "read")
  end

  private

  def ask(name, token, *mode)
    parts = ["EVAL", SCRIPT, "1", "register:#{name}", token.to_s, *mode]
    @socket.write("*#{parts.size}\r\n#{parts.map { |part| "$#{part.bytesize}\r\n#{part}\r\n" }.join}")
    answer = @socket.gets
    raise "the register has answered #{answer}" unless answer == "*2\r\n"

    Array.new(2) { Integer(@socket.gets.delete_prefix(":")) }
  end
end

# What one worker draws and records.
class Share
  include Changing

  # How often a holder checks that it still holds the lock, and how early it leaves, in seconds.
  SLICE = 0.01
  MARGIN = 0.005
  # The first number of workers inside others' locks.
  INNER = 1000
  # A sleep is recorded if it took so much longer than requested, in seconds.
  LATE = 0.005
  # How much more often a worker looks for a ticket than it leaves one.
  FINDS = 5

  # What the attempt wants, and what it adopts, if it does.
  attr_reader :wanted, :ticket

  # @param outer [Array<String>] names that are held meanwhile
  def initialize(settings, recorder, number, outer: [])
    @settings = settings
    @recorder = recorder
    @number = number
    @outer = outer
    @random = Random.new((settings[:seed] * 100_000) + number)
    @register = Register.new(settings[:register])
    @tickets = Tickets.new(settings[:folder], @random)
    @attempts = 0
  end

  def [](setting)
    @settings[setting]
  end

  # Whether what happens so often is to happen now.
  def chance(setting)
    @random.rand < @settings[setting]
  end

  def goes_on?
    now < ending(@settings[:folder])
  end

  def record(event, **facts)
    @recorder.call(event, @attempt, **facts)
  end

  def violated(text)
    record("violation", text:)
  end

  # Chooses the names and the kind of the next attempt. Returns the settings for +lock+, and after how many seconds to
  # cancel it.
  def draw
    cancel_after = [@random.rand * @settings[:cancel_within], 0.0005].max if chance(:cancels)
    options = { timeout: chance(:tries) ? 0 : @settings[:patience], renew: !chance(:unrenewed) }
    @ticket = @random.rand < FINDS * @settings[:hand_overs] ? @tickets.find : nil
    return [begin_adoption(options), cancel_after] if @ticket

    others = Array.new(@settings[:names]) { |number| "n#{number}" } - @outer
    @wanted = Wanted.draw(@settings, @random, others, "m#{Process.pid}.#{@number}")
    begin_attempt
    [options.merge(@wanted.options(@settings[:limit])), cancel_after]
  end

  def begin_attempt(**facts)
    @attempt = "#{Process.pid}.#{@number}.#{@attempts += 1}"
    record("invoke", **@wanted.facts, **facts)
  end

  # Whether to hand the lock over now, instead of releasing it.
  def hands_over?
    @wanted.handed_over? && chance(:hand_overs)
  end

  # Leaves the ticket to others. If nobody uses it in time, the lock ends by its ttl.
  def handed_over(text, sent)
    record("handed", sent:, until: now + nanoseconds(@settings[:ttl]))
    @tickets.leave(Tickets::Ticket.new(text, @wanted.names, @attempt))
  end

  def used_ticket
    @tickets.remove(@ticket) if @ticket
  end

  # How many permits of a rate to ask for now, or nil.
  def asks_rate
    @random.rand(1..3) if chance(:rates)
  end

  def rate_terms
    { limit: @settings[:rate_limit], per: @settings[:rate_per], burst: @settings[:rate_burst] }
  end

  def rated(count, sent, allowed)
    record("rated", count:, sent:, allowed:, **rate_terms)
  end

  # Now and then, the share of a worker that takes other names while these are held.
  def inner
    return unless @outer.empty? && chance(:nested)

    names = @wanted.names
    @inner = @inner&.within(names) || Share.new(@settings, @recorder, @number + INNER, outer: names)
  end

  def within(names)
    @outer = names
    self
  end

  # Now and then, for how many seconds to wait on a condition. The names are free meanwhile.
  def waits
    return unless chance(:conditions)

    record("release")
    record("released", kept: nil)
    begin_attempt
    @random.rand * 0.05
  end

  # In a forked child, which is another process's worker. It works less, and does not fork.
  def after_fork
    @recorder.after_fork
    @register = Register.new(@settings[:register])
    @settings = @settings.merge(forks: 0, cancels: 1, patience: 0.3, long_stays: 0)
    @attempt = ""
  end

  # Stays in the critical section, and yields after each pause.
  def stay(held, &block)
    record("granted", token: held.token, until: now + nanoseconds(held.remaining))
    reliable = believes(held) or return
    record("begin")
    begin
      stay_inside(held, reliable, &block)
    ensure
      record("end")
    end
  end

  # For how many seconds the client may rely on the lock; nil if it may not.
  def believes(held)
    at = now
    remaining = held.remaining
    unless remaining.positive?
      record("lost")
      return
    end
    record("believes", until: at + nanoseconds(remaining))
    [remaining - MARGIN, 0.0].max
  end

  def rest
    sleep(@random.rand * @settings[:rest])
  end

  private

  def stay_inside(held, reliable, &block)
    use(held, @wanted.names.first)
    left = chance(:long_stays) ? @settings[:ttl] * @random.rand(0.5..1.5) : @random.rand * @settings[:stay]
    while left.positive?
      pause([left, SLICE, reliable].min, &block)
      left -= SLICE
      reliable = believes(held) or return
    end
    use(held, @wanted.names.last)
    believes(held)
  end

  def pause(seconds)
    due = now + nanoseconds(seconds)
    sleep(seconds)
    yield
    record("late", at: due) if now - due > nanoseconds(LATE)
  end

  # Writes to the register of a name to write, and reads that of another.
  def use(held, name)
    return unless name

    sent = now
    token = held.token
    if @wanted.read.include?(name)
      newest, order = @register.read(name, token)
      record("read", name:, token:, sent:, newest:, order:)
    else
      accepted, order = @register.write(name, token)
      record("write", name:, token:, sent:, accepted:, order:)
    end
  end

  def begin_adoption(options)
    @wanted = Wanted.new(@ticket.names)
    begin_attempt(source: @ticket.attempt)
    options.merge(timeout: @settings[:patience])
  end
end
