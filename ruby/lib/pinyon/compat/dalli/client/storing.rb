# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      class Client
        # What stores, deletes and counts.
        module Storing
          # Store a value.
          #
          # @param ttl [Integer, nil]
          # @param req_options [Hash, nil]
          # @return [Integer, nil] the CAS token, or true where the server does not tell it; nil in a quiet block
          # @raise [MarshalError, ValueOverMaxSize, DalliError]
          def set(key, value, ttl = nil, req_options = nil)
            put(:set, key, value, 0, ttl, req_options)
          end

          # Store a value if the item still has this CAS token; 0 stores in any case.
          #
          # @return [Integer, false] the new CAS token; false if nothing was stored
          # @see #set
          def set_cas(key, value, cas, ttl = nil, req_options = nil)
            put(:set, key, value, cas, ttl, req_options)
          end

          # Store a value unless the key has one.
          #
          # @return [Integer, false]
          # @see #set
          def add(key, value, ttl = nil, req_options = nil)
            put(:add, key, value, 0, ttl, req_options)
          end

          # Store a value if the key has one.
          #
          # @return [Integer, false]
          # @see #set
          def replace(key, value, ttl = nil, req_options = nil)
            put(:replace, key, value, 0, ttl, req_options)
          end

          # Store a value if the key has one with this CAS token; 0 stands for any.
          #
          # @return [Integer, false]
          # @see #set
          def replace_cas(key, value, cas, ttl = nil, req_options = nil)
            put(:replace, key, value, cas, ttl, req_options)
          end

          # Store many values with the same ttl. All servers are asked at the same time.
          #
          # @param hash [Hash] values by key
          # @return [true]
          # @raise [DalliError] a server failed; the values of the others were stored
          def set_multi(hash, ttl = nil, req_options = nil)
            seconds = seconds(ttl)
            stored = hash.map { |key, value| packed(key, value, req_options) }
            if (quiet = Quiet.of(self))
              stored.each { |key, value| guarded { quiet.submit { |batch| batch.store(:set, key, value, seconds) } } }
            else
              ask { |cache| cache.set_many(stored.to_h, ttl: seconds) }
            end
            true
          end

          # Change a value: the block gets it, and returns what to store in its place.
          #
          # @yieldparam value [Object]
          # @return [Integer, false, nil] the new CAS token; false if somebody else changed the value meanwhile; nil if
          #   there is none, and the block was not called
          # @raise [DalliError]
          def cas(key, ttl = nil, req_options = nil)
            value, cas = get_cas(key)
            value.nil? ? nil : put(:set, key, yield(value), cas, ttl, req_options)
          end

          # The same as {#cas}, but the block is also called with nil if there is no value.
          #
          # @return [Integer, false]
          def cas!(key, ttl = nil, req_options = nil)
            value, cas = get_cas(key)
            put(:set, key, yield(value), cas, ttl, req_options)
          end

          # Delete an item.
          #
          # @param req_options [Hash, nil] +invalidate: true+ marks it stale instead, and +tombstone_ttl:+ sets how many
          #   seconds it stays so
          # @return [Boolean] whether there was one
          # @raise [DalliError]
          def delete(key, req_options = nil)
            delete_cas(key, 0, req_options)
          end

          # Delete an item if it still has this CAS token; 0 stands for any.
          #
          # @return [Boolean]
          # @see #delete
          def delete_cas(key, cas = 0, req_options = nil)
            sent = sent(key, req_options)
            ttl = tombstone_ttl(req_options)
            cas = (cas unless cas.zero?)
            return change { |cache| cache.invalidate(sent, ttl, cas) } if req_options&.fetch(:invalidate, false)
            return change { |cache| cache.delete_if(sent, cas) } if cas

            change(->(batch) { batch.delete(sent) }) { |cache| cache.delete(sent) }
          end

          # Delete many items. All servers are asked at the same time.
          #
          # @return [Integer] how many there were; 0 in a quiet block
          # @raise [DalliError] a server failed
          def delete_multi(keys, req_options = nil)
            if Quiet.of(self) || req_options&.fetch(:invalidate, false)
              return keys.count { |key| delete(key, req_options) }
            end

            sent = keys.map { |key| sent(key, req_options) }
            ask { |cache| cache.delete_many(sent) }
          end

          # Add bytes to the end of a value that was stored with +raw: true+.
          #
          # @return [Boolean] whether there was one
          # @raise [DalliError]
          def append(key, value)
            extend_by(:append, key, value)
          end

          # Add bytes to the beginning of a value that was stored with +raw: true+.
          #
          # @return [Boolean] whether there was one
          # @raise [DalliError]
          def prepend(key, value)
            extend_by(:prepend, key, value)
          end

          # Add to a counter: a value that was stored with +raw: true+, or that this made.
          #
          # @param amt [Integer] 0 or more
          # @param ttl [Integer, nil] of a counter that is made
          # @param default [Integer, nil] the value of a counter that is missing; without it, none is made
          # @return [Integer, nil] the new value; nil if there is none
          # @raise [DalliError] the value is not a number
          def incr(key, amt = 1, ttl = nil, default = nil)
            count(:incr, key, amt, ttl, default)
          end

          # Subtract from a counter. It stops at 0.
          #
          # @see #incr
          def decr(key, amt = 1, ttl = nil, default = nil)
            count(:decr, key, amt, ttl, default)
          end

          private

          def put(mode, key, value, cas, ttl, options)
            ttl = seconds(ttl)
            sent, stored = packed(key, value, options)
            if cas.zero?
              change(->(batch) { batch.store(mode, sent, stored, ttl) }) do |cache|
                cache.store(mode, sent, stored, ttl) || false
              end
            else
              change { |cache| cache.store(mode, sent, stored, ttl, cas) || false }
            end
          end

          def packed(key, value, options)
            [sent(key, options), @values.pack(key, value, options)]
          end

          def extend_by(mode, key, value)
            sent = sent(key)
            piece = [value.to_s, 0]
            change(->(batch) { batch.store(mode, sent, piece, 0) }) { |cache| cache.public_send(mode, sent, piece) }
          end

          def count(name, key, amount, ttl, default)
            amount = whole(amount)
            raise ArgumentError, "#{name} takes 0 or more, not #{amount}" if amount.negative?
            if default && !default.is_a?(Integer)
              raise ArgumentError, "default must be an Integer, not #{default.inspect}"
            end

            sent = sent(key)
            ttl = seconds(ttl)
            silent = ->(batch) { batch.calculate(name == :incr, sent, amount) } unless default
            change(silent) { |cache| cache.public_send(name, sent, amount, initial: default, ttl:) }
          end

          def tombstone_ttl(options)
            return if options.nil?

            raise ArgumentError, "drop_value is not supported: leave it out" if options[:drop_value]

            ttl = options[:tombstone_ttl]
            raise ArgumentError, "tombstone_ttl requires invalidate: true" if ttl && !options[:invalidate]
            raise ArgumentError, "tombstone_ttl must be an Integer, not #{ttl.inspect}" if ttl && !ttl.is_a?(Integer)

            ttl
          end
        end
      end
    end
  end
end
