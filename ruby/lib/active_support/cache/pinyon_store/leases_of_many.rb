# frozen_string_literal: true

module ActiveSupport
  module Cache
    class PinyonStore < Store
      # +fetch_multi+ with the option +:lease+: each missing value is made by one caller, those that a caller makes are
      # written together, and all leases are asked for together.
      module Leases
        # The values of many names. The block makes those that are missing.
        #
        #   cache.fetch_multi("product:1", "product:2", lease: 10, expires_in: 60) { |name| product(name) }
        #
        # @param names [Array<Object>] the names, or what Rails makes names from; last, a Hash with the options of
        #   +fetch+. With +:lease+, one caller of all processes makes each missing value, and all others wait for it
        # @yieldparam name [Object] a name whose value this caller makes
        # @yieldreturn [Object] the value. An error is raised here: then none of the values that this call has made is
        #   written, and the next callers make them
        # @return [Hash] values by name, in the order of the names
        # @raise [ArgumentError] there is no block
        def fetch_multi(*names, &block)
          asked = names.dup
          options = merged_options(asked.extract_options!)
          return super if options[:lease].nil? || asked.empty? || block.nil?

          values = found_at_once(asked, options)
          missing = asked.reject { |name| values.key?(name) }
          values.merge!(made_anyhow(missing, options, &block)) unless missing.empty?
          asked.index_with { |name| values[name] }
        end

        private

        # What need not be made, by name. Rails is told of it before anything is made.
        def found_at_once(names, options)
          told = SINCE_RAILS_8 ? ->(each) { each.map { |name| normalize_key(name, options) } } : :itself.to_proc
          instrument_many(:read_multi, told.call(names), options) do |payload|
            found = options[:force] ? {} : read_and_prolong(names, options)
            payload[:hits] = told.call(found.keys)
            payload[:super_operation] = :fetch_multi
            found
          end
        end

        def instrument_many(...)
          respond_to?(:instrument_multi, true) ? instrument_multi(...) : instrument(...)
        end

        # Expired values that others may still read are put back for them, as Rails' +fetch+ does.
        def read_and_prolong(names, options)
          seconds = options[:race_condition_ttl].to_i
          return read_multi_entries(names, **options) unless seconds.positive?

          found = read_multi_entries(names, **options, expired: (expired = {}))
          now = Time.now
          late = expired.select { |_key, entry| now.to_f - entry.expires_at.to_f <= seconds }
          late.each_value { |entry| entry.expires_at = now + seconds }
          write_multi_entries(late, expires_in: seconds * 2) unless late.empty?
          found
        end

        # The values by name. Names with the same key have one lease.
        def made_anyhow(names, options, &block)
          leases = names.group_by { |name| lease_of(normalize_key(name, options), name, options) }
          firsts = leases.transform_values(&:first)
          values = options[:force] ? {} : made_by_leases(firsts, options, &block)
          alone = firsts.values.reject { |name| values.key?(name) }
          values.merge!(alone.empty? ? {} : made_here(alone, options, &block).first)
          leases.each_value.with_object({}) do |same, all|
            same.each { |name| all[name] = values[same.first] }
          end
        end

        # The values that this caller, or others, have made under a lease. What is left out is to be made without one.
        def made_by_leases(leases, options, &block)
          values = {}
          # While expired values are made anew, the others read them.
          wait = 0 if options[:race_condition_ttl]
          ROUNDS.times do
            left, failed = await_many(leases.keys, options, wait) do |won|
              make_won(leases.slice(*won), values, options, again: wait.nil?, &block)
            end
            leases = leases.reject { |_lease, name| values.key?(name) }
            leases = still_to_be_made(leases, values, options, left, failed)
            break if leases.empty?

            wait = nil
          end
          values
        rescue FailedBlock => e
          raise e.cause
        end

        # What is under the keys of leases in the end, and those for which this caller has not waited.
        def await_many(leases, options, wait)
          failed = {}
          left = failing_to({}) do
            @client.fetch_many(leases, ttl: SECONDS_AFTER, lease: options[:lease], wait:, failed:) do |won|
              yield won
            rescue Pinyon::Error => e
              raise FailedBlock, e.message
            end
          end
          timeouts = failed.select { |_lease, error| wait && error.is_a?(Pinyon::LeaseTimeout) }
          others = failed.except(*timeouts.keys).values.uniq { |error| [error.class, error.message] }
          others.each { |error| failing_to(nil) { raise error } }
          [left, timeouts]
        end

        # Makes and writes values. +again+: unless others have done so before these leases were won.
        #
        # @return [Hash] what to leave under the keys of the leases
        def make_won(leases, values, options, again:, &block)
          values.merge!(read_many_again(leases.values, options)) if again
          missing = leases.values.reject { |name| values.key?(name) }
          made, kept = missing.empty? ? [{}, []] : made_here(missing, options, &block)
          values.merge!(made)
          not_kept = missing - kept
          leases.transform_values { |name| not_kept.include?(name) ? NOT_STORED : MADE }
        end

        # The leases for which to ask again. +values+ receives what other callers have made.
        def still_to_be_made(leases, values, options, left, timeouts)
          return leases if leases.empty?

          values.merge!(read_many_again(leases.values, options))
          leases.select do |lease, name|
            next if values.key?(name)
            next timeouts.key?(lease) unless left[lease] == MADE

            failing_to(nil) { outdated(lease) { read_again(name, normalize_key(name, options), options) } }
            true
          end
        end

        # Makes values and writes them together.
        #
        # @return [Array(Hash, Array)] the values by name, and the names of those that are stored
        def made_here(names, options, &block)
          made = names.index_with(&block)
          stored = options[:skip_nil] ? made.compact : made
          written = stored.empty? || write_multi(stored, options)
          [made, written ? stored.keys : read_many_again(stored.keys, options).keys]
        end

        def read_many_again(names, options)
          names.each { |name| local_cache&.delete_entry(normalize_key(name, options)) }
          read_multi_entries(names, **options)
        end
      end
    end
  end
end
