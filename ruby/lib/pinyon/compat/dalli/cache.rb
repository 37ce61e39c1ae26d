# frozen_string_literal: true

module Pinyon
  module Compat
    module Dalli
      # What Dalli asks of a server beyond {Pinyon::Client}'s own methods.
      #
      # @api private
      class Cache < Pinyon::Client
        # Stores a value in this mode, with a token only if the item still has it.
        #
        # @return [Integer, true, false, nil] the new CAS token; true if the server does not tell it
        def store(mode, key, value, ttl, cas = nil)
          @native.store(mode, key, value, ttl, cas)
        ensure
          tell
        end

        def delete_if(key, cas)
          @native.give_back(key, cas, false)
        ensure
          tell
        end

        # Marks an item stale, for +ttl+ seconds or the life that it has.
        def invalidate(key, ttl, cas)
          @native.invalidate(key, ttl, cas)
        ensure
          tell
        end

        def get_with_metadata(key, bumps)
          @native.get_with_metadata(key, bumps)
        ensure
          tell
        end

        # The state, whether there is a value, the value, and the token of whoever won.
        def lease(key, ttl, recache)
          @native.ask_lease(key, ttl, recache, [])
        ensure
          tell
        end

        def give_back(key, win)
          @native.give_back(key, *win)
        ensure
          tell
        end

        # The version of each server that answers.
        def versions(failed)
          @native.version(failed)
        ensure
          tell
        end

        # The statistics of each server that answers.
        def statistics(kind, failed)
          @native.stats(kind, failed)
        ensure
          tell
        end

        def batch
          Native::Batch.new(@native)
        end
      end
    end
  end
end
