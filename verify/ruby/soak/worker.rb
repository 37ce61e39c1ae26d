# frozen_string_literal: true

# The workers of one client, who know each other's keys.
Tribe = Struct.new(:name, :client, :ledger, :numbers) do
  def keys_of(worker)
    Array.new(Worker::OWN_KEYS) { |number| "#{name}:#{worker}:#{number}" }
  end

  def shared_keys
    Array.new(Worker::SHARED_KEYS) { |number| "#{name}:shared:#{number}" }
  end
end

# Random operations on a worker's own keys and on shared ones; every outcome is recorded and judged.
class Worker
  # The number of keys that only one worker writes, and of keys that all write.
  OWN_KEYS = 4
  SHARED_KEYS = 16
  # A counter is its worker's number times this, plus what was added.
  COUNTER = 10**12
  # The errors that a fault may cause.
  EXPECTED = [Pinyon::Timeout, Pinyon::ConnectError, Pinyon::ConnectionLost, Pinyon::ServerDown].freeze

  # The current operation and its start; nil between operations.
  attr_reader :busy, :record, :number

  def initialize(number, tribe, record, settings, ends)
    @number = number
    @tribe = tribe
    @client = tribe.client
    @ledger = tribe.ledger
    @record = record
    @random = Random.new((settings[:seed] * 1000) + number)
    @operations = settings[:operations].flat_map { |name, weight| [name] * weight }
    @ends = ends
    @written = tribe.keys_of(number) + tribe.shared_keys
    @read = tribe.numbers.flat_map { |each| tribe.keys_of(each) } + tribe.shared_keys
    @counted = 0
  end

  def work(model)
    while now < @ends
      operate(@operations.sample(random: @random))
      @record.operations += 1
      # A server that is down fails at once; without a pause, nothing else would happen.
      model.pause((@record.operations % 16).zero? ? 0.01 : 0.001)
    end
  end

  private

  def operate(name)
    begun = now
    @busy = [name, begun]
    send(name)
  rescue *EXPECTED => e
    count(e)
  rescue Pinyon::BatchError => e
    judge_batch(e)
  rescue StandardError => e
    @record.findings << "error: #{name} raised #{e.inspect}"
  ensure
    @busy = nil
    @record.slowest = [@record.slowest, now - begun].max
  end

  def count(error)
    @record.errors[error.class.name.delete_prefix("Pinyon::")] += 1
  end

  def judge_batch(error)
    count(error)
    error.failures.each do |failure|
      next if failure.error.nil? || EXPECTED.include?(failure.error.class)

      @record.findings << "error: a batch failed by #{failure.error.inspect}"
    end
  end

  def saw(key, value, mark)
    return if value.nil?

    @record.hits += 1
    wrong = @ledger.judge(key, value, mark)
    @record.findings << wrong if wrong
  end

  def one_of(keys)
    keys.sample(random: @random)
  end

  def get
    key = one_of(@read)
    mark = @ledger.mark(key)
    saw(key, @client.get(key), mark)
  end

  def gets
    key = one_of(@read)
    mark = @ledger.mark(key)
    saw(key, @client.gets(key)&.first, mark)
  end

  def get_many
    keys = @read.sample(30, random: @random)
    marks = keys.to_h { |key| [key, @ledger.mark(key)] }
    read_together(keys).each do |key, value|
      mark = marks[key]
      mark ? saw(key, value, mark) : @record.findings << "identity: get_many returned #{key}, which was not asked for"
    end
  end

  def read_together(keys)
    @client.get_many(keys)
  rescue *EXPECTED => e
    count(e)
    e.partial || {}
  end

  # The block writes a generation, and returns whether the server stored it.
  def write(key)
    generation = @ledger.begin(key)
    if yield(generation)
      @ledger.acknowledge(key, generation)
    else
      @ledger.refuse(key, generation, "by the server")
    end
  rescue *EXPECTED => e
    @ledger.refuse(key, generation, e.message) if e.sent == :no
    raise
  end

  def set
    key = one_of(@written)
    write(key) { |generation| @client.set(key, @ledger.value_of(key, generation)) }
  end

  def add
    key = one_of(@written)
    write(key) { |generation| @client.add(key, @ledger.value_of(key, generation)) }
  end

  def cas
    key = one_of(@written)
    mark = @ledger.mark(key)
    value, token = @client.gets(key)
    return unless token

    saw(key, value, mark)
    write(key) { |generation| @client.cas(key, @ledger.value_of(key, generation), token) }
  end

  # Deleted, or not there: it is gone in either case.
  def delete
    key = one_of(@written)
    write(key) { [@client.delete(key)] }
  end

  def incr
    base = @number * COUNTER
    @counted += 1
    key = "#{@tribe.name}:#{@number}:counter"
    count = @client.incr(key, initial: base)
    return if count.between?(base, base + @counted)

    @record.findings << "counter: #{key} is #{count}; #{@counted} were added to #{base}"
  end

  def touch
    @client.touch(one_of(@read), 3600)
  end

  def set_many
    write_together { |values| @client.set_many(values) }
  end

  def batch
    write_together do |values|
      @client.quiet { |batch| values.each { |key, value| batch.set(key, value) } }
      []
    end
  end

  # Writes all own keys. The block returns those that were not stored. After an error, all are in doubt.
  def write_together
    generations = @tribe.keys_of(@number).to_h { |key| [key, @ledger.begin(key)] }
    refused = yield(generations.to_h { |key, generation| [key, @ledger.value_of(key, generation)] })
    generations.each do |key, generation|
      next @ledger.acknowledge(key, generation) unless refused.include?(key)

      @ledger.refuse(key, generation, "by the server, with others")
    end
  end
end
