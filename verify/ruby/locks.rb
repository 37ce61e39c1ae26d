# frozen_string_literal: true

# A client process of Ruby's among those of `python -m pinyon_verify locks`:
#
#   ruby locks.rb SETTINGS
#
# It works and records as pinyon_verify/locks/share.py and work.py do, in threads or in the fibers of async.

require "json"
require "pinyon"
require "socket"

NAMESPACE = "verify"
# How often a holder checks that it still holds the lock, and how early it leaves, in seconds.
SLICE = 0.01
MARGIN = 0.005
# A sleep is recorded if it took so much longer than requested, in seconds.
LATE = 0.005
AFTER_ERROR = 0.02
NANOSECONDS = 1_000_000_000

def now
  Process.clock_gettime(Process::CLOCK_MONOTONIC, :nanosecond)
end

# Appends lines to the file of this process.
class Recorder
  def initialize(folder)
    flags = File::WRONLY | File::CREAT | File::APPEND
    @file = File.open(File.join(folder, "#{Process.pid}-#{now}.lines"), flags).tap { |file| file.sync = true }
  end

  def call(event, attempt = "", at: now, **facts)
    @file.syswrite("#{JSON.dump([at, Process.pid, event, attempt, facts])}\n")
  end
end

# The register that enforces tokens. Its script is that of pinyon_verify/locks/register.py.
class Register
  SCRIPT = File.read(File.expand_path("../pinyon_verify/locks/register.py", __dir__))[/_SCRIPT = """(.*?)"""/m, 1]

  def initialize(path)
    @socket = UNIXSocket.new(path)
  end

  # Whether the write was accepted, and its position among all writes.
  def write(name, token)
    parts = ["EVAL", SCRIPT, "1", "register:#{name}", token.to_s]
    @socket.write("*#{parts.size}\r\n#{parts.map { |part| "$#{part.bytesize}\r\n#{part}\r\n" }.join}")
    raise "the register has answered #{line}" unless @socket.gets == "*2\r\n"

    accepted, order = Array.new(2) { Integer(@socket.gets.delete_prefix(":")) }
    [accepted == 1, order]
  end
end

# One thread or fiber at its share of the work.
class Worker
  def initialize(settings, recorder, number)
    @settings = settings
    @recorder = recorder
    @number = number
    @random = Random.new((settings[:seed] * 1000) + number)
    @register = Register.new(settings[:register])
    @attempts = 0
  end

  def work(locks)
    take(locks) while now < @settings[:until]
  end

  private

  def chance(setting)
    @random.rand < @settings[setting]
  end

  def record(event, **facts)
    @recorder.call(event, @attempt, **facts)
  end

  def take(locks)
    @attempt = "#{Process.pid}.#{@number}.#{@attempts += 1}"
    @names = Array.new(@settings[:names]) { |number| "n#{number}" }
                  .sample(@random.rand(@settings[:fewest]..@settings[:most]), random: @random).sort
    options = { timeout:, renew: !chance(:unrenewed) }
    record("invoke", names: @names)
    held = acquire(locks, options) or return
    inside(held)
    release(held)
    sleep(@random.rand * @settings[:rest])
  end

  # A wait is cancelled by its timeout, as those of Python's threads are.
  def timeout
    return 0 if chance(:tries)

    chance(:cancels) ? [@random.rand * @settings[:cancel_within], 0.0005].max : @settings[:patience]
  end

  def acquire(locks, options)
    locks.lock(*@names, **options)
  rescue Pinyon::LockTimeout
    record("cancel")
    nil
  rescue Pinyon::Error => e
    record("failed", error: "#{e.class}: #{e.message}")
    sleep(AFTER_ERROR)
    nil
  end

  def inside(held)
    record("granted", token: held.token, until: now + nanoseconds(held.remaining))
    reliable = believes(held) or return
    record("begin")
    stay(held, reliable)
  ensure
    record("end") if reliable
  end

  def stay(held, reliable)
    write(held, @names.first)
    left = chance(:long_stays) ? @settings[:ttl] * @random.rand(0.5..1.5) : @random.rand * @settings[:stay]
    while left.positive?
      pause([left, SLICE, reliable].min)
      left -= SLICE
      reliable = believes(held) or return
    end
    write(held, @names.last)
    believes(held)
  end

  def pause(seconds)
    due = now + nanoseconds(seconds)
    sleep(seconds)
    record("late", at: due) if now - due > nanoseconds(LATE)
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

  def write(held, name)
    sent = now
    accepted, order = @register.write(name, held.token)
    record("write", name:, token: held.token, sent:, accepted:, order:)
  end

  def release(held)
    record("release")
    record("released", kept: held.release)
  rescue Pinyon::Error => e
    record("released", kept: nil, error: e.message)
  end

  def nanoseconds(seconds)
    (seconds * NANOSECONDS).to_i
  end
end

def wait_for_start(folder)
  path = File.join(folder, "start")
  sleep(0.005) until File.exist?(path)
  Integer(File.read(path))
end

# Records when this process got no processor time.
def watch_for_stalls(recorder, time)
  Thread.new do
    while (before = now) < time
      sleep(0.02)
      recorder.call("stall", at: before, until: now) if now - before > 80_000_000
    end
  end
end

def in_threads(workers, locks)
  workers.map { |worker| Thread.new { worker.work(locks) } }.each(&:join)
end

def in_fibers(workers, locks)
  require "async"
  Async { |task| workers.map { |worker| task.async { worker.work(locks) } }.each(&:wait) }
end

settings = JSON.parse(File.read(ARGV.fetch(0)), symbolize_names: true)
recorder = Recorder.new(settings[:folder])
recorder.call("ready")
settings[:until] = wait_for_start(settings[:folder])
watch_for_stalls(recorder, settings[:until])
own = settings.slice(:ttl, :heartbeat, :command_timeout, :handler, :fairness)
connect_timeout = [1.0, own[:command_timeout]].max
locks = Pinyon::Locks.new(settings[:url], namespace: NAMESPACE, connect_timeout:, **own)
workers = Array.new(settings[:workers]) { |number| Worker.new(settings, recorder, number) }
settings[:model] == "ruby-async" ? in_fibers(workers, locks) : in_threads(workers, locks)
locks.close
recorder.call("over")
