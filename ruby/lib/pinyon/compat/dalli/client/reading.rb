# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      class Client
        # What reads values.
        module Reading
          # The value of a key.
          #
          # @param req_options [Hash, nil] with +cache_nils: true+, a miss is {NOT_FOUND}
          # @return [Object, nil] nil if there is none
          # @raise [DalliError]
          def get(key, req_options = nil)
            stored = stored_under(key, req_options)
            return req_options&.fetch(:cache_nils, false) ? NOT_FOUND : nil if stored.nil?

            @values.unpack(key, stored, req_options)
          end

          # The value of a key, or else that of the block, which is stored unless somebody else was first.
          #
          # @param ttl [Integer, nil]
          # @return [Object, nil]
          # @raise [DalliError]
          def fetch(key, ttl = nil, req_options = nil)
            stored = stored_under(key, req_options)
            value = stored && @values.unpack(key, stored, req_options)
            return value unless block_given? && (cache_nils ? stored.nil? : value.nil?)

            made = yield
            add(key, made, ttl, req_options)
            made
          end

          # The value of a key. If there is none, or if it expires within +recache_threshold+ seconds, one caller makes
          # a new one in the block. The others get the value that there is, or nil.
          #
          # @param ttl [Integer, nil] of the new value
          # @param lock_ttl [Integer] seconds after which another caller may make a missing value
          # @param recache_threshold [Integer, nil]
          # @return [Object, nil]
          # @raise [DalliError]
          def fetch_with_lock(key, ttl: nil, lock_ttl: 30, recache_threshold: nil, req_options: nil)
            raise ArgumentError, "fetch_with_lock needs a block that makes the value" unless block_given?

            sent = only_aloud(:fetch_with_lock, key, req_options)
            state, found, stored, win = ask { |cache| cache.lease(sent, lock_ttl, recache_threshold || 0) }
            return found ? @values.unpack(key, stored, req_options) : nil unless state == :won

            made = yield
            set(key, made, ttl, req_options)
            win = nil
            made
          ensure
            ask { |cache| cache.give_back(sent, win) } if win
          end

          # Return the value of a key, and set its ttl.
          #
          # @return [Object, nil] nil if there is none
          # @raise [DalliError]
          def gat(key, ttl = nil)
            sent = only_aloud(:gat, key)
            ttl = seconds(ttl)
            stored = ask { |cache| cache.gat(sent, ttl) }
            stored && @values.unpack(key, stored, nil)
          end

          # Set the ttl of a key.
          #
          # @return [true, nil] nil if there is no such item
          # @raise [DalliError]
          def touch(key, ttl = nil)
            sent = only_aloud(:touch, key)
            ttl = seconds(ttl)
            ask { |cache| cache.touch(sent, ttl) } || nil
          end

          # The value of a key and its CAS token.
          #
          # @yieldparam value [Object, nil]
          # @yieldparam cas [Integer]
          # @return [Array(Object, Integer), Object] both, +[nil, 0]+ for a miss; with a block, what it returned
          # @raise [DalliError]
          def get_cas(key)
            value, cas = valued(key, read(:get_cas, key, &:gets))
            block_given? ? yield(value, cas) : [value, cas]
          end

          # The values of many keys. Keys of a server that cannot be asked, and values that cannot be read, are missing.
          #
          # @param keys [Array]
          # @yieldparam key [String]
          # @yieldparam value [Object]
          # @return [Hash{String => Object}, nil] nil with a block
          def get_multi(*keys, req_options: nil, &block)
            found = many(:get_multi, keys, req_options) { |cache, sent, failed| cache.get_many(sent, failed:) }
            found = found.filter_map { |key, stored| readable(key) { [key, @values.unpack(key, stored, req_options)] } }
            return found.to_h unless block_given?

            found.each(&block)
            nil
          end

          # The values of many keys, and their CAS tokens.
          #
          # @yieldparam key [String]
          # @yieldparam pair [Array(Object, Integer)]
          # @return [Hash{String => Array(Object, Integer)}, nil] nil with a block
          # @see #get_multi
          def get_multi_cas(*keys, &block)
            found = many(:get_multi_cas, keys, nil) { |cache, sent, failed| cache.gets_many(sent, failed:) }
            found = found.filter_map { |key, pair| readable(key) { [key, valued(key, pair)] } }
            return found.to_h unless block_given?

            found.each(&block)
            nil
          end

          private

          def stored_under(key, options)
            sent = only_aloud(:get, key, options)
            ask { |cache| cache.get(sent) }
          end

          def read(name, key)
            sent = only_aloud(name, key)
            ask { |cache| yield cache, sent }
          end

          def valued(key, pair)
            return [nil, 0] if pair.nil?

            stored, cas = pair
            [@values.unpack(key, stored, nil), cas]
          end

          # What was found of many keys, by the keys as they were given.
          def many(name, keys, options)
            given = keys.flatten.compact.to_h { |key| [only_aloud(name, key, options), key.to_s] }
            return {} if given.empty?

            found = tolerating { |failed| ask { |cache| yield cache, given.keys, failed } }
            found.transform_keys(given)
          end

          def readable(key)
            yield
          rescue UnmarshalError => e
            Dalli.logger.debug { "left out of the values of many keys: #{e.message} (#{key.inspect})" }
            nil
          end
        end
      end
    end
  end
end
