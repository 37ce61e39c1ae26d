# frozen_string_literal: true

# What one worker's candidate draws and records, as pinyon_verify/locks/candidate.py does. A candidate calls back in a
# thread or a fiber of its own.
class Candidacy
  # How long +on_lost+ takes, in seconds.
  LOSING = 0.002
  # How often a leader writes to the register when it looks.
  USES = 0.3
  # How much longer than a lock's waiter a candidate waits before it gives up.
  PATIENT = 20

  attr_reader :name

  def initialize(settings, recorder, number)
    @settings = settings
    @recorder = recorder
    @name = "n#{number % settings[:names]}"
    @candidate = "#{Process.pid}.#{number}"
    @random = Random.new((settings[:seed] * 100_000) + number)
    @register = Register.new(settings[:register])
    @led = {}
    @attempts = 0
    @lock = Mutex.new
  end

  def goes_on?
    now < ending(@settings[:folder])
  end

  # Before the candidate is started.
  def begins
    @is_ending = false
    ask
  end

  # The callback +on_elected+.
  def elected(token)
    since = now
    @lock.synchronize do
      ask if @is_paused
      @is_asking = false
      @led[token] = @attempt
    end
    @resigns_at = since + nanoseconds(stay)
    @recorder.call("granted", @attempt, token:, until: since)
    called("elected", @attempt, token, since)
  end

  # The callback +on_lost+.
  def lost(token)
    since = now
    attempt = @led.fetch(token, "")
    @recorder.call("lost", attempt, at: since)
    sleep(LOSING)
    called("lost", attempt, token, since)
    ask unless @is_ending
  end

  # Records whether the candidate leads, and does what is due.
  def look(leader)
    sent = now
    token = leader.token
    answered = now
    return follow(leader.state) unless token

    @recorder.call("leads", at: sent, token:, answered:, name: @name, candidate: @candidate)
    lead(leader, @led[token], token) if @led[token]
  end

  # Whether the candidate is to end, and to begin anew, as it was not elected.
  def gives_up?
    @is_asking && now > @gives_up_at
  end

  # Before the candidate is stopped.
  def ends
    @is_ending = true
  end

  # When it has stopped.
  def ended
    @recorder.call("cancel", @attempt) if @is_asking
    @is_asking = @is_paused = false
  end

  private

  def ask
    @attempts += 1
    @attempt = "#{@candidate}.#{@attempts}"
    waits = @settings[:patience]
    waits = @random.rand * PATIENT * @settings[:cancel_within] if @random.rand < @settings[:cancels]
    @gives_up_at = now + nanoseconds(waits)
    @is_asking = true
    @is_paused = false
    @recorder.call("invoke", @attempt, names: [@name])
  end

  def stay
    return @random.rand(0.5..1.5) * @settings[:ttl] if @random.rand < @settings[:long_stays]

    @random.rand * @settings[:stay]
  end

  def called(what, attempt, token, since)
    @recorder.call("called", attempt, what:, token:, since:, candidate: @candidate)
  end

  # Notes that the candidate pauses after a failure, or asks again.
  def follow(state)
    @lock.synchronize do
      if state == :paused && @is_asking
        @is_asking = false
        @is_paused = true
        @recorder.call("failed", @attempt, error: "it pauses", cancelled: true)
      elsif state == :candidate && @is_paused
        ask
      end
    end
  end

  def lead(leader, attempt, token)
    use(attempt, token) if @random.rand < USES
    return if now < @resigns_at

    @recorder.call("release", attempt)
    @recorder.call("resigned", attempt) if leader.resign
  end

  def use(attempt, token)
    sent = now
    accepted, order = @register.write(@name, token)
    @recorder.call("write", attempt, name: @name, token:, sent:, accepted:, order:)
  end
end

# One thread or fiber that is a candidate until time is up. It ends now and then, and begins anew.
class Candidate
  # How often it looks whether it leads, in seconds.
  LOOK = 0.01

  def initialize(candidacy, locks)
    @candidacy = candidacy
    on_elected = candidacy.method(:elected)
    @leader = locks.leader(candidacy.name, on_elected:, on_lost: candidacy.method(:lost))
  end

  def work
    campaign while @candidacy.goes_on?
  end

  private

  def campaign
    @candidacy.begins
    @leader.start
    while @candidacy.goes_on? && !@candidacy.gives_up?
      sleep(LOOK)
      @candidacy.look(@leader)
    end
    @candidacy.ends
    @leader.stop
    @candidacy.ended
  end
end
