# frozen_string_literal: true

# What an attempt wants: names to write, names to read, and permits of pools, as pinyon_verify/locks/wanted.py draws it.
class Wanted
  # The most permits of a pool that one attempt wants, and between how many seconds a lock is kept at least.
  MOST_PERMITS = 2
  LEAST_TIMES = 0.01..0.05

  # All names, and those of them to read.
  attr_reader :names, :read

  # @param random [Random] draws
  # @param names [Array<String>] what there is
  # @param mark [String] a name that only this worker has
  def self.draw(settings, random, names, mark)
    count = random.rand(settings[:fewest]..[settings[:most], names.size].min)
    drawn = names.sample(count, random:)
    read = read_of(settings[:reads], random, drawn)
    permits = permits_of(settings, random)
    drawn = read = [] if permits.any? && random.rand < 0.5
    drawn += [mark] if settings[:marked]
    at_least = random.rand(LEAST_TIMES) if read.empty? && permits.empty? && random.rand < settings[:at_least]
    new(drawn.sort, read, permits, at_least)
  end

  def self.read_of(often, random, names)
    kind = random.rand
    return names if kind < often

    kind < 1.5 * often ? names.select { random.rand < 0.5 } : []
  end

  def self.permits_of(settings, random)
    return {} unless random.rand < settings[:permits]

    { "p#{random.rand(settings[:pools])}" => random.rand(1..MOST_PERMITS) }
  end
  private_class_method :read_of, :permits_of

  def initialize(names, read = [], permits = {}, at_least = nil)
    @names = names
    @read = read
    @permits = permits
    @at_least = at_least
  end

  def written
    @names - @read
  end

  # Whether an upgrade or a downgrade is not refused.
  def changeable?
    @at_least.nil?
  end

  # The same with these names written, or else read.
  def changed(names, upgrades:)
    read = upgrades ? @read - names : @names & (@read | names)
    Wanted.new(@names, read, @permits, @at_least)
  end

  def handed_over?
    @read.empty? && @permits.empty?
  end

  # The settings of +lock+ for what is beside the names to write. A plain lock has none.
  def options(limit)
    permits = @permits.transform_values { |count| [count, limit] }
    { read: @read, permits:, at_least: @at_least }.reject { |_, value| [nil, [], {}].include?(value) }
  end

  # What the history says of it.
  def facts
    { names: @names, read: @read, permits: @permits, at_least: @at_least || 0 }
  end
end
