# frozen_string_literal: true

require "digest/md5"

module Pinyon
  module Compat
    module Dalli
      # Dalli's keys. Pinyon itself knows its rule, but neither a namespace that is asked for each time nor another
      # digest: those are applied here.
      #
      # @api private
      class Keys
        MOST = 250
        MARK = ":md5:"

        def initialize(options)
          @namespace = options[:namespace]
          @separator = checked(options.fetch(:namespace_separator, ":"))
          @digest = options[:digest_class]
          return if @digest.nil? || @digest.respond_to?(:hexdigest)

          raise ArgumentError, "digest_class must have a method hexdigest, as Digest::SHA256 has"
        end

        # The namespace that Pinyon puts before every key, if it can.
        def namespace
          "#{@namespace}#{@separator}" if @namespace && !own?
        end

        # A user's key as Pinyon is to send it.
        def of(key)
          own? ? whole(key.to_s) : key.to_s
        end

        private

        def own?
          @namespace.is_a?(Proc) || @digest
        end

        def whole(key)
          raise ArgumentError, "the key is blank; a key has at least one character" if key.empty?

          before = @namespace.is_a?(Proc) ? @namespace.call : @namespace
          key = "#{before}#{@separator}#{key}" if before
          return key if key.length <= MOST

          digest = (@digest || Digest::MD5).hexdigest(key)
          beginning = MOST - (before ? 0 : 1) - MARK.length - digest.length
          "#{key[0, beginning]}#{MARK}#{digest}"
        end

        def checked(separator)
          return separator if separator.is_a?(String) && separator.match?(/\A[[:graph:]&&[^[:alnum:]]]\z/)

          raise ArgumentError, "namespace_separator must be one printable character that is no letter and no digit, " \
                               "not #{separator.inspect}"
        end
      end
    end
  end
end
