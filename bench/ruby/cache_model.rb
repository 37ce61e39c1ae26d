# frozen_string_literal: true

require_relative "calls"

module PinyonBench
  # A model of a cache: a Hash that predicts every reply.
  #
  # In a quiet row a get may overtake earlier quiet commands. So a key that the row deletes may also be absent.
  class CacheModel
    # Everything that must be stored now.
    attr_reader :items

    def initialize(row)
      @row = row
      @items = {}
      steps = row[:phases].flat_map { |phase| phase[:steps] }
      @unsettled = row[:quiet] ? steps.filter_map { |step| step[1] if step[0] == "delete" } : []
    end

    # Applies one step. Raises WrongResult if its reply is wrong.
    def check(step, reply)
      operation, key, *rest = step
      case operation
      when "set", "add", "replace" then store(operation, key, PinyonBench.value_of(@row, rest.first), reply)
      when "get" then compare(key, reply)
      when "multiget" then WrongResult.unless_equal(operation, key, reply, @items.slice(*key))
      when "delete" then remove(key, reply)
      else count(step, reply)
      end
    end

    private

    def store(operation, key, value, reply)
      allowed = operation == "set" || (operation == "add") == !@items.key?(key)
      @items[key] = value if allowed
      WrongResult.unless_equal(operation, key, !!reply, allowed) unless @row[:quiet]
    end

    def compare(key, reply)
      return if reply.nil? && @unsettled.include?(key)

      WrongResult.unless_equal("get", key, reply, @items[key])
    end

    def remove(key, reply)
      was_stored = !@items.delete(key).nil?
      WrongResult.unless_equal("delete", key, !!reply, true) if was_stored && !@row[:quiet]
    end

    def count(step, reply)
      operation, key, delta, initial = step
      if @items.key?(key)
        @items[key] = [0, @items[key] + (operation == "incr" ? delta : -delta)].max
      elsif initial
        @items[key] = initial
      end
      WrongResult.unless_equal(operation, key, reply, @items[key])
    end
  end
end
