# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      class Client
        # What reads values with what the servers know of them.
        module Metadata
          # The value of a key, and what the server knows of it.
          #
          # @param options [Hash] +return_hit_status+, +return_last_access+, +return_ttl_remaining+ and
          #   +skip_lru_bump+ are true or false. With +vivify_ttl+, one caller gets +won_recache+ for a missing key, for
          #   so many seconds; with +recache_ttl+ beside it, also for a value that expires within so many seconds
          # @return [Hash{Symbol => Object}] +value+, +cas+, +miss+, +won_recache+, +stale+, +lost_recache+; if asked
          #   for, +hit_before+, +last_access+ and +ttl_remaining+ (-1 for never)
          # @raise [DalliError]
          def get_with_metadata(key, options = {})
            return won_or_lost(key, options) if options[:vivify_ttl]

            raise ArgumentError, "recache_ttl needs vivify_ttl beside it" if options[:recache_ttl]

            sent = only_aloud(:get_with_metadata, key, options)
            found = ask { |cache| cache.get_with_metadata(sent, !options[:skip_lru_bump]) }
            described(key, found, options)
          end

          # The same as {#get_with_metadata} in an object.
          #
          # @return [CacheResult]
          def get_with_metadata_result(key, options = {})
            CacheResult.new(get_with_metadata(key, options))
          end

          # The values of many keys, and what the servers know of them. They are asked for one after the other.
          #
          # @yieldparam key [String]
          # @yieldparam found [Hash]
          # @return [Hash{String => Hash}, nil] without the keys that have no value; nil with a block
          # @see #get_with_metadata
          def get_multi_with_metadata(*keys, req_options: nil, &block)
            options = req_options || {}
            found = keys.flatten.compact.map(&:to_s).uniq.to_h { |key| [key, get_with_metadata(key, options)] }
            found = found.reject { |_, known| known[:miss] }
            return found unless block_given?

            found.each(&block)
            nil
          end

          # The same as {#get_multi_with_metadata} in objects.
          #
          # @return [Hash{String => CacheResult}]
          def get_multi_with_metadata_result(*keys, req_options: nil)
            get_multi_with_metadata(*keys, req_options:).transform_values { |found| CacheResult.new(found) }
          end

          private

          def won_or_lost(key, options)
            sent = only_aloud(:get_with_metadata, key, options)
            lease, recache = options.values_at(:vivify_ttl, :recache_ttl)
            state, found, stored, win = ask { |cache| cache.lease(sent, lease, recache || 0) }
            stale = state == :stale || win&.last || false
            {
              value: found ? @values.unpack(key, stored, options) : nil, cas: win&.first || 0,
              miss: !found, won_recache: state == :won, stale:, lost_recache: %i[stale filling].include?(state)
            }
          end

          def described(key, found, options)
            stored, cas, (won, stale, lost), (hit_before, last_access, left) = found
            known = {
              value: stored && @values.unpack(key, stored, options), cas: cas || 0,
              miss: found.nil?, won_recache: won || false, stale: stale || false, lost_recache: lost || false
            }
            known[:hit_before] = hit_before if options[:return_hit_status]
            known[:last_access] = last_access if options[:return_last_access]
            known[:ttl_remaining] = found && (left || -1) if options[:return_ttl_remaining]
            known
          end
        end
      end
    end
  end
end
