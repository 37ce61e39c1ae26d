# frozen_string_literal: true

# The part of a share that changes the modes of a lock, as pinyon_verify/locks/share.py does.
module Changing
  # How often a lock with names in both modes is upgraded, and not downgraded.
  UPGRADES = 0.7

  # Names to write that a lock reads, or else to read that it writes; for how many seconds to wait for them; the attempt
  # that has the lock, and what it wanted.
  Change = Struct.new(:names, :upgrades, :timeout, :former, :before) do
    # Asks for the other modes.
    def of(held)
      upgrades ? held.upgrade(*names, timeout:) : held.downgrade(*names)
    end
  end

  # Which names to upgrade or to downgrade now, or nil.
  def changes
    return unless @wanted.changeable? && chance(:changes) && goes_on?

    read = @wanted.read
    written = @wanted.written
    upgrades = read.any? && (written.empty? || @random.rand < UPGRADES)
    names = upgrades ? read : written
    return if names.empty?

    names = names.sample(@random.rand(1..names.size), random: @random).sort if @random.rand < 0.5
    Change.new(names, upgrades, chance(:tries) ? 0 : @settings[:patience], @attempt, @wanted)
  end

  # Begins an attempt: the same lock in other modes.
  def begin_change(change)
    record("changing")
    @wanted = @wanted.changed(change.names, upgrades: change.upgrades)
    begin_attempt(former: change.former)
  end

  def changed(change, sent)
    @recorder.call("changed", change.former, sent:)
  end

  # Goes on with the lock in its former modes, if it is held.
  def not_changed(change, held)
    @attempt = change.former
    @wanted = change.before
    believes(held)
  end
end
