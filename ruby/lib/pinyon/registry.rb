# frozen_string_literal: true

module Pinyon
  # Finds objects by numbers, and keeps none of them alive.
  #
  # @api private
  class Registry
    # Before Ruby 3.3, an +ObjectSpace::WeakMap+ follows no object that compaction has moved, and the process crashes.
    COMPACTABLE = RUBY_VERSION >= "3.3"

    def initialize
      @objects = COMPACTABLE ? ObjectSpace::WeakMap.new : {}
    end

    if COMPACTABLE
      def []=(number, object)
        @objects[number] = object
      end

      def [](number)
        @objects[number]
      end
    else
      def []=(number, object)
        return if @objects[number] == object.object_id

        @objects[number] = object.object_id
        if object.frozen? # It takes no finalizer.
          (@kept ||= []) << object
        else
          ObjectSpace.define_finalizer(object, self.class.forgetting(@objects, number))
        end
      end

      def [](number)
        id = @objects[number]
        id && ObjectSpace._id2ref(id)
      rescue RangeError
        nil
      end

      # What forgets a number. It must not know the object.
      def self.forgetting(objects, number)
        ->(_id) { objects.delete(number) }
      end
    end
  end
  private_constant :Registry
end
