# frozen_string_literal: true

module Pinyon
  # What clients do where Ruby would copy them: when they are passed to a Ractor without being shared.
  # @api private
  module Sharing
    def initialize_clone(*, **)
      raise UsageError,
            "a #{self.class} cannot be cloned. To use it in another Ractor, share it: Ractor.make_shareable(client)"
    end
  end
end
