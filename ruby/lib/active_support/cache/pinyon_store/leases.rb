# frozen_string_literal: true

module ActiveSupport
  module Cache
    class PinyonStore < Store
      # +fetch+ with the option +:lease+: one caller makes a missing value, in all processes and on all machines.
      #
      # The lease has a key of its own beside the entry's. A lease of memcached's under the entry's key would leave an
      # empty item there while the value is made, and Rails' MemCacheStore reads that as a value.
      module Leases
        # What is under the lease's key for a second after the value was made.
        MADE = ["made", 0].freeze
        # The same where the made value was not stored.
        NOT_STORED = ["not stored", 0].freeze
        # For how long.
        SECONDS_AFTER = 1
        # How often to ask for the lease, where made entries are deleted at once.
        ROUNDS = 3
        # No entry's key contains it: a percent sign is escaped there.
        MARK = "%lease:"

        # The block has raised an error of Pinyon's, which is none of this cache.
        class FailedBlock < StandardError; end
        private_constant :MADE, :NOT_STORED, :SECONDS_AFTER, :ROUNDS, :MARK, :FailedBlock

        private

        # Where Rails makes and writes what +fetch+ has not found. Rails 7.1 passes the key, too.
        def save_block_result_to_cache(name, *key, options, &block)
          return super if options[:lease].nil? || options[:force]

          made = nil
          entry = failing_to(nil) do
            made_elsewhere(name, options) do
              written = []
              made = [super(name, *key, options.merge(written:), &block)]
              written.last ? MADE : NOT_STORED
            end
          end
          return made.first if made

          entry ? entry.value : super
        rescue FailedBlock => e
          raise e.cause
        end

        # The entry that another caller has made. Nil if the block has made one here, or is to do so without a lease.
        def made_elsewhere(name, options)
          key = normalize_key(name, options)
          lease = lease_of(key, name, options)
          # While an expired value is made anew, the others read it.
          wait = 0 if options[:race_condition_ttl]
          entry = nil
          ROUNDS.times do
            left = await(lease, options[:lease], wait) do
              entry = read_again(name, key, options) if wait.nil?
              entry ? MADE : yield
            end
            return entry if entry || left != MADE

            entry = read_again(name, key, options) || outdated(lease) { read_again(name, key, options) }
            return entry if entry
          rescue Pinyon::LeaseTimeout
            raise if wait.nil?

            entry = read_again(name, key, options)
            return entry if entry

            wait = nil
            retry
          end
          nil
        end

        # What another caller has left under the lease's key. Nil if this caller has won, and the block was called.
        def await(lease, seconds, wait)
          won = false
          left = @client.fetch(lease, ttl: SECONDS_AFTER, lease: seconds, wait:) do
            won = true
            yield
          rescue Pinyon::Error => e
            raise FailedBlock, e.message
          end
          left unless won
        end

        # Takes away what was left under the lease's key, unless there is an entry by now.
        def outdated(lease)
          left, token = @client.gets(lease)
          entry = yield
          return entry if entry

          @client.cas(lease, left, token, ttl: -1) if token
          nil
        end

        # Reads what may have been written since the local cache of the request was filled.
        def read_again(name, key, options)
          local_cache&.delete_entry(key)
          entry = read_entry(key, **options)
          return if entry.nil? || entry.expired? || entry.mismatched?(normalize_version(name, options))

          entry if failing_to(false) { readable { entry.value || true } }
        end

        # Callers that want different versions do not wait for each other.
        def lease_of(key, name, options)
          digest = ActiveSupport::Digest.hexdigest("#{key} #{normalize_version(name, options)}")
          key[0, LONGEST_KEY - MARK.size - digest.size] + MARK + digest
        end
      end
    end
  end
end
