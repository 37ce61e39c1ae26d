# frozen_string_literal: true

module Pinyon
  # What clients do where Ruby would copy them: when they are passed to a Ractor without being shared, or dumped for
  # another process.
  # @api private
  module Sharing
    def initialize_clone(*, **)
      raise UsageError,
            "a #{self.class} cannot be cloned. To use it in another Ractor, share it: Ractor.make_shareable(client)"
    end

    def marshal_dump
      raise Unpicklable,
            "a #{self.class} cannot be dumped: share it within its process, and make another one in each other process"
    end
  end
end
