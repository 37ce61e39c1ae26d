# frozen_string_literal: true

module ActiveSupport
  module Cache
    class PinyonStore < Store
      # Changes of values that nobody else has changed meanwhile, as IdentityCache requires them of a store.
      module CompareAndSwap
        # Change a value, unless another caller changes it meanwhile.
        #
        #   cache.cas("visitors") { |visitors| visitors + ["Ada"] }
        #
        # @param name [Object] the value's name, or what Rails makes a name from
        # @param options [Hash, nil] as for +write+, such as +:expires_in+
        # @yieldparam value [Object] the present value
        # @yieldreturn [Object] the new one. The block is not called if there is no value
        # @return [Boolean, nil] true if the new value was stored; false if another caller has changed or deleted the
        #   value meanwhile, or if the server failed; nil if there was no value
        def cas(name, options = nil)
          options = merged_options(options)
          key = normalize_key(name, options)
          instrument(:cas, SINCE_RAILS_7_1 ? key : name, options) do
            stored, token = failing_to([false]) { @client.gets(key) }
            next stored unless token

            entry = read_stored(name, stored, options)
            entry && swap(name, yield(entry.value), token, options)
          end
        end

        # Change many values, except those that another caller changes meanwhile.
        #
        # @param names [Array<Object>] their names
        # @param options [Hash] as for +write+
        # @yieldparam values [Hash] those that there are, by name
        # @yieldreturn [Hash] the new values of those to change, by name
        # @return [Hash, nil] the new values that were stored, by name; nil without names
        def cas_multi(*names, **options)
          return if names.empty?

          options = merged_options(options)
          keys = names.to_h { |name| [name, normalize_key(name, options)] }
          instrument(:cas_multi, SINCE_RAILS_7_1 ? keys.values : names, options) do
            stored = read_with_tokens(keys.values)
            entries = keys.transform_values { |key| stored[key] }.compact
            entries = entries.to_h { |name, (found, _)| [name, read_stored(name, found, options)] }.compact
            updates = yield(entries.transform_values(&:value)) || {}
            updates.slice(*entries.keys).select do |name, value|
              swap(name, value, stored[keys[name]].last, options)
            end
          end
        end

        private

        def read_with_tokens(keys)
          failed = {}
          stored = failing_to({}) { @client.gets_many(keys.uniq, failed:) }
          failed.each_value { |error| report(error) }
          stored
        end

        # The entry in what the server has; nil if it is out of date or cannot be read.
        def read_stored(name, stored, options)
          payload = failing_to(nil) { unpack(*stored, options[:raw]) }
          entry = deserialize_entry(payload, **options)
          return if entry.nil? || entry.expired? || entry.mismatched?(normalize_version(name, options))

          entry if failing_to(false) { readable { entry.value || true } }
        end

        # Whether the value was stored in place of the one with this token.
        def swap(name, value, token, options)
          key = normalize_key(name, options)
          entry = Entry.new(value, **options, version: normalize_version(name, options))
          stored = pack(serialize_entry(entry, **options), options[:raw])
          local_cache&.delete_entry(key)
          failing_to(false) { @client.cas(key, stored, token, ttl: ttl_of_entry(**options)) } == true
        end
      end
    end
  end
end
