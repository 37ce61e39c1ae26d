# frozen_string_literal: true

require "pinyon"

module Pinyon
  # One job of a kind at a time: the rules for any queue of jobs. Python and Perl have the same, and play the same
  # scenarios.
  #
  # A kind of job has a lock. A job that is unique from its enqueueing hands its lock over to its own message, so
  # nothing holds it but the server, until a worker adopts it. While a job runs, its worker also locks the job's id, and
  # reads the mark "runs" of the kind. The id shows a message that is delivered again that its own first worker is in
  # its way, dead or alive. The mark shows whether a job may be replaced. A job that was replaced is marked by the token
  # of its lock.
  # @api private
  class OneAtATime
    # A job must not be enqueued, or must not run, because there is another one of its kind.
    class Conflict < StandardError; end
    # There is one already.
    class Skipped < Conflict; end
    # A later one has taken its place.
    class Replaced < Conflict; end
    # Another one runs, and the job is to wait in the queue.
    class Later < Conflict; end

    # A job that runs, and its locks.
    class Run
      attr_reader :held

      def initialize(held, here)
        @held = held
        @here = here
      end

      # A claim for the message with which the job will run again, which must begin within +ttl+ seconds.
      def hand_on(ttl)
        OneAtATime.claim(@held, ttl)
      end

      # Releases the locks.
      #
      # @raise [LockLost] the lock was lost while the job ran, unless it has failed anyway
      def end(failed: false)
        @held.leave(failed)
      ensure
        @here&.release
      end
    end

    TERMS = { when: :enqueued, on_conflict: :skip, ttl: 10, timeout: nil, queue_ttl: 3600, retry_in: 10 }.freeze
    WHEN = %i[enqueued running].freeze
    ON_CONFLICT = %i[skip wait replace].freeze
    # How many seconds a job that replaces waits for a running one before it looks again.
    LOOK = 1.0
    # The time to wait where nothing else is said, in seconds, as {Locks} has it.
    PATIENCE = 10
    # What a queue tries again, as nothing of the job has run.
    OUTAGES = [Timeout, ConnectError, ConnectionLost, ServerDown].freeze
    private_constant :WHEN, :ON_CONFLICT, :LOOK, :PATIENCE

    # Refuses the name of a kind that would also be the name of another kind's mark, or of a job of it.
    #
    # @raise [UsageError] the name has a part that marks have
    def self.check_name(name)
      return name unless name.include?(":job:") || name.include?(":replaced:") || name.end_with?(":runs")

      raise UsageError, "a job cannot have the lock #{name.inspect}: unique jobs use names with \":job:\" or " \
                        "\":replaced:\" in them, or \":runs\" at the end, for themselves; change the name"
    end

    # What a message carries: the token of its lock, and the ticket by which a worker adopts it.
    def self.claim(held, ttl)
      token = held.token
      "#{token} #{held.hand_over(ttl)}"
    end

    attr_reader :terms

    # @param locks [Locks, Proc] a Proc returns them on first use
    # @raise [UsageError] a term makes no sense
    def initialize(locks, terms)
      unknown = terms.keys - TERMS.keys
      raise UsageError, "unique has no argument #{unknown.map(&:inspect).join(", ")}" if unknown.any?
      unless locks.is_a?(Locks) || locks.respond_to?(:call)
        raise UsageError, "locks: must be a Pinyon::Locks, or a Proc that returns it, not #{locks.inspect}"
      end

      @given = locks
      @terms = TERMS.merge(terms).freeze
      check_terms
    end

    def locks
      @locks ||= @given.is_a?(Locks) ? @given : @given.call
    end

    def from_enqueueing?
      @terms[:when] == :enqueued
    end

    # Lock a job that is about to be enqueued.
    #
    # @param name [String] the lock of its kind
    # @param delay [Numeric] seconds before which no worker will run it
    # @return [String, nil] the claim for its message, if it needs one
    # @raise [UsageError] the name is one that these rules use themselves
    # @raise [Skipped] there is one already
    # @raise [LockTimeout] the time to wait for it is over
    def enqueue(name, delay = 0)
      OneAtATime.check_name(name)
      return unless from_enqueueing?

      held = case @terms[:on_conflict]
             when :skip then try(name) || raise(Skipped, "there is a job that has the lock #{name.inspect} already")
             when :wait then take(name, timeout: @terms[:timeout])
             else replace(name)
             end
      OneAtATime.claim(held, @terms[:queue_ttl] + delay)
    end

    # Release the lock of a job that could not be enqueued, if no other one has it by now.
    def give_up(claim)
      locks.adopt(ticket(claim)).release
    rescue LockLost
      false
    end

    # Lock a job that a worker is about to run.
    #
    # @param name [String] the lock of its kind
    # @param job [String] its id, which stays the same when it is delivered or tried again
    # @param claim [String, nil] what {#enqueue} or {Run#hand_on} returned
    # @return [Run]
    # @raise [UsageError] the name is one that these rules use themselves
    # @raise [Skipped, Replaced] it must not run
    # @raise [Later] it must wait in the queue, with its claim if that was not used
    def begin(name, job, claim = nil)
      OneAtATime.check_name(name)
      return Run.new(by_name_with(name, job), nil) unless from_enqueueing?

      here = here(name, job)
      begin
        run = Run.new(adopted(claim) || by_name(name, claim), here)
      ensure
        here.release unless run
      end
    end

    private

    def try(*names, ttl: @terms[:ttl], read: nil)
      locks.try_lock(*names, ttl:, read:, reentrant: false)
    end

    def take(*names, timeout:, ttl: @terms[:ttl], read: nil)
      locks.lock(*names, ttl:, read:, timeout:, reentrant: false)
    end

    # Takes the lock away from a job that waits in the queue. Waits for one that runs.
    def replace(name)
      ends = now + (@terms[:timeout] || PATIENCE)
      replaced = []
      loop do
        left = ends - now
        replaced.concat(take_away(name))
        held = begin
          take(name, timeout: left.clamp(0, LOOK))
        rescue LockTimeout
          left.positive? ? next : raise
        end
        return marked(held, name, replaced)
      end
    end

    # The token first: if the job begins to run now, its token changes, and the lock is not taken away.
    def take_away(name)
      token = locks.status(name).first.token
      return [] if token.nil? || locks.locked?("#{name}:runs")

      locks.force_release(name, token:).positive? ? [token] : []
    end

    # Keeps the names of replaced jobs locked without a holder, for as long as their messages may wait.
    def marked(held, name, tokens)
      tokens.each { |token| try("#{name}:replaced:#{token}")&.hand_over(@terms[:queue_ttl]) }
      marked = held
    ensure
      held.release unless marked
    end

    # Locks a kind and a job's id together, so that both end at the same time if the worker dies.
    def by_name_with(name, job)
      names = [name, "#{name}:job:#{job}"]
      return or_later(*names) if @terms[:on_conflict] == :wait

      held = try(*names)
      return held if held

      # A worker may have begun the same job and died: wait for its ttl, and no longer.
      left = locks.status(names.last).first.left
      begin
        take(*names, timeout: left ? left + LOOK : 0)
      rescue LockTimeout
        raise Skipped, "another job has the lock #{name.inspect}"
      end
    end

    # Locks a job's id, for longer than the lock of its kind would outlive the worker.
    def here(name, job)
      ours = "#{name}:job:#{job}"
      beside = { ttl: 2 * @terms[:ttl], read: "#{name}:runs" }
      held = try(ours, **beside)
      return held if held

      left = locks.status(ours).first.left || 0
      begin
        take(ours, timeout: left + LOOK, **beside)
      rescue LockTimeout
        raise Skipped, "this job runs in another worker already: the lock #{ours.inspect} is held"
      end
    end

    # nil if the claim was used before, its time is over, or a later job has taken the lock away.
    def adopted(claim)
      locks.adopt(ticket(claim), ttl: @terms[:ttl]) if claim
    rescue LockLost
      nil
    end

    def by_name(name, claim)
      return or_later(name) if @terms[:on_conflict] == :wait

      held = try(name)
      return held || raise(Skipped, "another job has the lock #{name.inspect}") if @terms[:on_conflict] == :skip

      # The mark is looked for with the lock held: whoever replaces sets it before the lock is free again.
      raise Replaced, "a later job has the lock #{name.inspect}" unless held
      return held unless claim && locks.locked?("#{name}:replaced:#{claim[/\A\d+/]}")

      held.release
      raise Replaced, "a later job had the lock #{name.inspect}"
    end

    def or_later(*names)
      take(*names, timeout: @terms[:timeout])
    rescue LockTimeout => e
      raise Later, e.message
    end

    def ticket(claim)
      claim[/ (.*)/, 1].to_s
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end

    def check_terms
      one_of(:when, WHEN)
      one_of(:on_conflict, ON_CONFLICT)
      if !from_enqueueing? && @terms[:on_conflict] == :replace
        raise UsageError, "on_conflict: :replace replaces jobs that wait in the queue: it needs when: :enqueued"
      end

      { ttl: 0.001, queue_ttl: 0.001, retry_in: 0, timeout: 0 }.each do |term, least|
        given = @terms[term]
        next if term == :timeout && given.nil?
        next if given.is_a?(Numeric) && given >= least && given.to_f.finite?

        raise UsageError, "#{term}: must be seconds, at least #{least}, not #{given.inspect}"
      end
    end

    def one_of(term, known)
      return if known.include?(@terms[term])

      raise UsageError, "#{term}: is #{known.map(&:inspect).join(" or ")}, not #{@terms[term].inspect}"
    end
  end
end
