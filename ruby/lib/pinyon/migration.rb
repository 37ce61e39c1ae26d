# frozen_string_literal: true

module Pinyon
  # One operation of a {MigratingClient}. The core says what it does next on which pool.
  #
  # @api private
  class Migration
    MISSING = Object.new.freeze
    # Operations whose first argument is an Array of keys.
    OF_MANY = %i[get_many gets_many delete_many].freeze
    # The settings of these create an item that is missing. They are left out until neither pool has one.
    CREATE = %i[incr_or_create decr_or_create].freeze
    # Steps without a next one.
    ENDS = %i[return return_object return_values return_default raise need_ttl].freeze
    private_constant :MISSING, :OF_MANY, :CREATE, :ENDS

    def initialize(old, new, method, arguments, settings)
      @pools = { old:, new: }
      @method = method
      @arguments = arguments
      @settings = settings
      @keys = OF_MANY.include?(method) ? arguments.first : arguments.first(1)
      @objects = []
      @values = {}
    end

    # Returns the result of the operation.
    def run(plan, counts, ttl, &block)
      @first = CREATE.include?(plan) ? {} : @settings
      @block = block
      @machine = Native::Migration.new(plan, @keys.size, !@settings[:failed].nil?, counts, ttl)
      step = @machine.begin
      step = following(*step) until ENDS.include?(step.first)
      finish(*step)
    end

    private

    # Carries out a step. Returns the next one.
    def following(name, *details)
      @machine.next(*send(name, *details))
    rescue Error => e
      @error = e
      @machine.failed(e)
    end

    def finish(name, result = nil)
      case name
      when :return then result
      when :return_object then @objects[result]
      when :return_values then @values
      when :return_default then @arguments[1]
      when :raise then raise @error
      when :need_ttl then raise Unsupported, "#{@error.message}; #{result}", cause: @error
      end
    end

    # The steps. Each returns its outcome.

    def get(pool)
      value = @pools[pool].get(key, MISSING)
      MISSING.equal?(value) ? [:missing, nil] : [:value, number(value)]
    end

    def get_with_ttl(pool)
      value, ttl = found = @pools[pool].get_with_ttl(key)
      found ? [:value_and_ttl, [number(value), ttl]] : [:missing, nil]
    end

    def delete(pool)
      return [:done, @pools[pool].delete_many(key.keys)] if @method == :set_many

      [:done, @pools[pool].delete(key)]
    end

    def lease(seconds)
      @lease = @pools[:new].lease(key, lease: seconds)
      [:lease, [@lease.state, @lease.value? ? number(@lease.value) : nil, @lease.open?]]
    end

    def store(value, ttl)
      [:stored, @lease.fulfil(@objects[value], ttl:)]
    end

    def give_back
      [:done, @lease.give_back]
    end

    def operate(settings = @first)
      answer = @pools[:new].public_send(@method, *@arguments, **settings, &@block)
      [:operated, [number(answer), answer ? true : false]]
    end

    def create
      operate(@settings)
    end

    def read(pool, indexes)
      found = @pools[pool].public_send(@method, @keys.values_at(*indexes), **@settings)
      @values.update(found)
      [:found, indexes.select { |index| found.key?(@keys[index]) }]
    end

    def tell
      @settings[:failed][@error.server] ||= @error
      [:told, nil]
    end

    def key
      @keys[@machine.key]
    end

    def number(object)
      @objects << object
      @objects.size - 1
    end
  end
end
