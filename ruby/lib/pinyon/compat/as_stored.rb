# frozen_string_literal: true

module Pinyon
  module Compat
    # A serializer for clients that convert values themselves: a value is its bytes and client flags.
    #
    # @api private
    module AsStored
      def self.dump(packed) = packed
      def self.load(bytes, flags) = [bytes, flags]
    end
  end
end
