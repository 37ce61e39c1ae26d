# frozen_string_literal: true

# What was written, and therefore what may be read: the claims of pinyon_verify/soak/ledger.py. Every value says its key
# and its generation.
class Ledger
  # How many acknowledged generations of a key are kept, and for how many refused ones the reasons.
  REMEMBERED = 400
  REASONS = 50

  # @param sizes [Array<Integer>] the sizes of values, chosen by generation
  # @param keys_stay [Boolean] whether each key stays on its server, so that a replaced value cannot come back
  def initialize(sizes, keys_stay:)
    @sizes = sizes
    @keys_stay = keys_stay
    @mutex = Mutex.new
    @clock = 0
    @last = Hash.new(0)
    @floor = Hash.new(0)
    @open, @acknowledged, @refused = Array.new(3) { Hash.new { |all, key| all[key] = {} } }
  end

  # Notes the start of a write or deletion. Returns its generation.
  def begin(key)
    @mutex.synchronize do
      @open[key][@last[key] += 1] = @clock += 1
      @last[key]
    end
  end

  # The server has done it.
  def acknowledge(key, generation)
    @mutex.synchronize do
      @clock += 1
      @floor[key] = [@floor[key], @open[key].delete(generation)].max
      remember(@acknowledged[key], generation, @clock, REMEMBERED)
    end
  end

  # It was not done, and never will be.
  def refuse(key, generation, why)
    @mutex.synchronize do
      @open[key].delete(generation)
      remember(@refused[key], generation, why, REASONS)
    end
  end

  # Notes the start of a read: it must not return what has ended by now.
  def mark(key)
    @mutex.synchronize { @floor[key] }
  end

  # What is wrong with a value that was read under this key; nil if nothing is.
  def judge(key, value, mark)
    generation = generation_of(key, value)
    return "identity: under #{key} was read #{value.inspect[0, 60]}" unless generation

    @mutex.synchronize do
      last = @last[key]
      next "future: under #{key} was read generation #{generation}; the last is #{last}" if generation > last

      revived(key, generation, mark) if @keys_stay && !@open[key].key?(generation)
    end
  end

  def value_of(key, generation)
    "#{key} #{generation} #{(97 + (generation % 26)).chr * @sizes[generation % @sizes.size]}"
  end

  private

  def generation_of(key, value)
    generation = value[/\A#{Regexp.escape(key)} (\d+) [a-z]+\z/, 1]&.to_i if value.is_a?(String)
    generation if generation && value == value_of(key, generation)
  end

  def revived(key, generation, mark)
    acknowledged = @acknowledged[key][generation]
    return if acknowledged && acknowledged >= mark

    why = (reason = @refused[key][generation]) ? "was refused: #{reason}" : "had ended before"
    "revival: under #{key} was read generation #{generation}, which #{why}"
  end

  def remember(remembered, generation, fact, most)
    remembered[generation] = fact
    remembered.delete(remembered.first.first) if remembered.size > most
  end
end
