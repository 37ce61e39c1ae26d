# frozen_string_literal: true

require "json"
require_relative "support"
require "pinyon/one_at_a_time"

# One job of a kind at a time: the rules, as scenarios/unique_jobs.json has them for every language.
class TestUniqueJobs < PinyonTest
  FILE = JSON.parse(File.read(File.join(Support::ROOT, "scenarios", "unique_jobs.json")))
  LONG = { ttl: 60, timeout: 60, queue_ttl: 3600, retry_in: 0.1 }.freeze
  KIND = "report:7"

  # A scenario, in a namespace of its own.
  class Playing
    include Support

    def initialize(scenario, locks)
      @steps = scenario["steps"]
      given = scenario["terms"].to_h { |term, value| [term.to_sym, value.is_a?(String) ? value.to_sym : value] }
      @terms = LONG.merge(given)
      @locks = locks
      @watching = locks.call
      @claims = {}
      @runs = {}
    end

    def play
      @steps.each do |step|
        (verb, of), (_, wanted) = step.to_a
        given = send(verb, of)
        raise "#{step}, and it gives #{given}" if wanted && given != wanted
      end
      raise "something is left" unless eventually { nothing_left? }
    end

    private

    def rules
      Pinyon::OneAtATime.new(@locks.call, @terms)
    end

    def enqueue(job)
      (@claims[job] = rules.enqueue(KIND)) ? "claim" : "nothing"
    rescue Pinyon::OneAtATime::Conflict => e
      said(e)
    rescue Pinyon::LockTimeout
      "timeout"
    end

    def begin(job)
      made = rules
      @runs[job] = [made.begin(KIND, job, @claims[job]), made.locks]
      "runs"
    rescue Pinyon::OneAtATime::Conflict => e
      said(e)
    end

    def end(job)
      @runs.delete(job).first.end
      "released"
    rescue Pinyon::LockLost
      "lost"
    end

    def retry(job)
      run, = @runs.delete(job)
      @claims[job] = run.hand_on(@terms[:queue_ttl])
      run.end
      nil
    end

    def die(job)
      @runs.delete(job).last.close
      nil
    end

    def give_up(job)
      rules.give_up(@claims.delete(job))
      nil
    end

    def force_release(_)
      raise "it was not locked" unless @watching.force_release(KIND) == 1
    end

    def locked(expected)
      raise "it is not so" unless eventually { @watching.locked?(KIND) == expected }
    end

    def nothing_left?
      @watching.execute("KEYS", "#{@watching.prefix}*").grep_v(/:#[fp]\z|:#x:/).empty?
    end

    def said(conflict)
      conflict.class.name[/\w+\z/].downcase
    end
  end

  def test_the_scenarios
    redis # Started before the threads, which share it.
    players = FILE["scenarios"].each_with_index.map do |scenario, number|
      Thread.new do
        Thread.current.report_on_exception = false
        Playing.new(scenario, -> { locks(namespace: key(number)) }).play
      end
    end
    failed = FILE["scenarios"].zip(players).filter_map do |scenario, player|
      player.join && nil
    rescue StandardError => e
      "#{scenario["name"]}: #{e.full_message}"
    end
    assert_empty failed
  end

  def test_names_that_the_rules_use_themselves
    FILE["refused_names"].each do |name|
      %i[enqueued running].each do |from|
        rules = Pinyon::OneAtATime.new(locks, { when: from })
        [-> { rules.enqueue(name) }, -> { rules.begin(name, "first") }].each do |call|
          error = assert_raises(Pinyon::UsageError, name, &call)
          assert_includes error.message, name.inspect
        end
      end
    end
    FILE["names"].each do |name|
      rules = Pinyon::OneAtATime.new(locks, { when: :running })
      assert_nil rules.enqueue(name)
      rules.begin(name, "first").end
    end
  end

  def test_terms_that_make_no_sense
    [{ when: :later }, { on_conflict: :raise }, { when: :running, on_conflict: :replace }, { ttl: 0 },
     { queue_ttl: -1 }, { timeout: "1" }, { retry_in: Float::INFINITY }, { retries: 1 }].each do |terms|
      assert_raises(Pinyon::UsageError, terms.inspect) { Pinyon::OneAtATime.new(locks, terms) }
    end
    assert_raises(Pinyon::UsageError) { Pinyon::OneAtATime.new("redis://", {}) }
  end
end
