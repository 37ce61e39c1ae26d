# frozen_string_literal: true

# One thread or fiber at its share of the work.
class Worker
  # The pause after an error from the server, and how long a forked child may take, in seconds.
  AFTER_ERROR = 0.02
  CHILD = 30

  def initialize(model, share, locks)
    @model = model
    @share = share
    @locks = locks
  end

  def work
    take while @share.goes_on?
  end

  # Acquires one lock, however late it is.
  def take
    options, cancel_after = @share.draw
    held = acquire(options, cancel_after)
    inside(held) && release(held) if held
    ask_rate
    @share.rest
  end

  private

  def acquire(options, cancel_after)
    ticket = @share.ticket
    @model.acquire(cancel_after, options) do |terms|
      ticket ? @locks.adopt(ticket.text, **terms) : @locks.lock(*@share.wanted.written, **terms)
    end
  rescue Pinyon::LockTimeout
    @share.record("cancel")
    nil
  rescue Pinyon::Error => e
    failed(e, cancelled: !cancel_after.nil?)
    sleep(AFTER_ERROR)
    nil
  ensure
    @share.used_ticket
  end

  def failed(error, cancelled: true)
    @share.record("failed", error: "#{error.class}: #{error.message}", cancelled:)
  end

  # Whether it is to be released.
  def inside(held)
    stay(held)
    inner = @share.inner
    Worker.new(@model, inner, @locks).take if inner
    change_modes(held)
    timeout = @share.waits
    return waited?(held, timeout) if timeout

    !(@share.hands_over? && handed_over?(held))
  end

  # Gives the lock other modes, perhaps several times, and stays inside each time.
  def change_modes(held)
    while (change = @share.changes)
      return unless changed?(held, change)

      stay(held)
    end
  end

  def changed?(held, change)
    sent = now
    @share.begin_change(change)
    change.of(held)
    @share.changed(change, sent)
    true
  rescue Pinyon::Error => e
    e.is_a?(Pinyon::LockTimeout) ? @share.record("cancel") : failed(e)
    @share.not_changed(change, held)
    false
  end

  # Whether it is another's now.
  def handed_over?(held)
    sent = now
    @share.handed_over(held.hand_over, sent)
    true
  rescue Pinyon::Error
    false
  end

  def ask_rate
    count = @share.asks_rate or return
    sent = now
    answer = @locks.rate("api", **@share.rate_terms).allow(count)
    @share.rated(count, sent, answer.allowed?)
  rescue Pinyon::Error
    nil
  end

  def stay(held)
    @share.stay(held) { fork_inside(held) if @share.chance(:forks) }
  end

  # Notifies another holder, and waits for a notification. Whether the names are to be released.
  def waited?(held, timeout)
    token = held.token
    notify(held)
    held.wait(timeout)
    # With the same token it was woken before the server knew: the names were held all the time.
    held.token == token ? @share.record("cancel") : stay(held)
    true
  rescue Pinyon::LockTimeout
    @share.record("cancel")
    false
  rescue Pinyon::Error => e
    failed(e)
    give_back(held)
    false
  end

  def notify(held)
    held.notify
  rescue Pinyon::Error
    nil
  end

  def give_back(held)
    held.release
  rescue Pinyon::Error
    nil
  end

  def release(held)
    @share.record("release")
    @share.record("released", kept: held.release)
  rescue Pinyon::Error => e
    @share.record("released", kept: nil, error: e.message)
  end

  # A child must not hold, renew or release its parent's locks; it uses locks of its own. In a child, a fiber with a
  # scheduler cannot wait.
  def fork_inside(held)
    child = fork do
      Fiber.new(blocking: true) { be_child(held) }.resume
      exit!(0)
    rescue Exception => e # rubocop:disable Lint/RescueException
      warn(e.full_message(highlight: false))
      exit!(1)
    end
    status = status_of(child, held)
    @share.violated("a forked child ended with #{status}") unless status.success?
  end

  # How the child has ended. The parent holds its lock meanwhile.
  def status_of(child, held)
    give_up = now + nanoseconds(CHILD)
    until (ended = Process.wait2(child, Process::WNOHANG))
      Process.kill(:KILL, child) if now > give_up
      sleep(0.002)
      @share.believes(held)
    end
    ended.last
  end

  def be_child(held)
    @share.after_fork
    @model = Models::Threads
    @share.violated("a forked child holds its parent's lock") if held.remaining.positive? || !held.lost?
    @share.violated("a forked child released its parent's lock") if released_in_child?(held)
    3.times { take }
  end

  def released_in_child?(held)
    held.release
  rescue Pinyon::Error
    false
  end
end
