# frozen_string_literal: true

# This file stands outside the folder of Pinyon because Rails finds it by its path. It uses the public client alone.

require "active_support"
require "active_support/cache"
require "active_support/core_ext/marshal" if ActiveSupport::VERSION::MAJOR < 7 # loads missing classes
require "pinyon"
require "pinyon/failures"
require "zlib"
require "active_support/cache/pinyon_store/compare_and_swap"
require "active_support/cache/pinyon_store/leases"
require "active_support/cache/pinyon_store/leases_of_many"

# What Rails' libraries have in common.
module ActiveSupport
  # Its caches.
  module Cache
    # Rails' cache on memcached, by a {Pinyon::Client}.
    #
    #   config.cache_store = :pinyon_store, "cache1:11211", "cache2:11211", { namespace: "shop", timeout: 0.3 }
    #
    # It stores the same bytes, with the same client flags and under the same keys, as Rails' MemCacheStore. An
    # application can therefore change from one to the other while its servers are in use.
    #
    # A server that fails causes no error. The store logs the failure, reports it to +Rails.error+, and behaves like an
    # empty cache.
    class PinyonStore < Store
      # @return [Gem::Version] stores return, instrument and report differently in each version of Rails
      RAILS = ActiveSupport.gem_version
      IN_RAILS_6 = RAILS < Gem::Version.new("7.0.0")
      SINCE_RAILS_7_1 = RAILS >= Gem::Version.new("7.1.0")
      SINCE_RAILS_7_2 = RAILS >= Gem::Version.new("7.2.0")
      SINCE_RAILS_8 = RAILS >= Gem::Version.new("8.0.0")
      # Options of Rails' that are not settings of the client.
      OF_RAILS = [*UNIVERSAL_OPTIONS, :skip_nil, :raw].freeze
      # Options of its own that a call can set, too.
      OF_CALLS = %i[lease].freeze
      # What other stores do with a pool of connections; the client has its own.
      OF_POOLS = %i[pool pool_size pool_timeout].freeze
      # Seconds for which the server keeps an entry longer where +race_condition_ttl+ is used, as in MemCacheStore.
      GRACE = 300
      # Dalli's client flags.
      MARSHALLED = 1
      COMPRESSED = 2
      LONGEST_KEY = 250
      REFUSED_IN_KEYS = /[\x00-\x20%\x7F-\xFF]/n
      BEFORE_DIGEST = IN_RAILS_6 ? ":md5:" : ":hash:"
      # What a write returns if no server carried it out.
      NOT_WRITTEN = SINCE_RAILS_7_2 ? nil : false
      # What cannot be read raises these.
      UNREADABLE = [ArgumentError, TypeError, NameError, Zlib::Error].freeze
      # After so many reasons why values cannot be read, no further one is told: each value may have its own.
      MOST_REASONS = 100
      LEVELS = { debug: :debug, info: :info, warning: :warn }.freeze
      # rubocop:disable Naming/VariableNumber
      private_constant :RAILS, :IN_RAILS_6, :SINCE_RAILS_7_1, :SINCE_RAILS_7_2, :SINCE_RAILS_8
      # rubocop:enable Naming/VariableNumber
      private_constant :OF_RAILS, :OF_CALLS, :OF_POOLS, :GRACE, :MARSHALLED, :COMPRESSED, :LONGEST_KEY,
                       :REFUSED_IN_KEYS, :BEFORE_DIGEST, :NOT_WRITTEN, :UNREADABLE, :MOST_REASONS, :LEVELS

      # Rails 6.1 looks for the coder here. Entries are marshalled as they are.
      DEFAULT_CODER = NullCoder if IN_RAILS_6

      # Rails 6.1 leaves it to the store that a raw value in the local cache is a String, as on the server.
      # @api private
      module LocalCacheWithRaw
        private

        def write_entry(key, entry, **options)
          return super unless options[:raw] && local_cache

          raw = Entry.new(entry.value.to_s)
          raw.expires_at = entry.expires_at
          super(key, raw, **options)
        end
      end

      # In Rails 7.0 to 7.2, a name that the local cache knows to be missing would be one of the many that were found.
      # @api private
      module LocalCacheWithMisses
        private

        def read_multi_entries(names, **options)
          return super unless local_cache

          keys = names.map { |name| normalize_key(name, options) }
          keys.each { |key| local_cache.delete_entry(key) if local_cache.read_entry(key).nil? }
          super
        end
      end

      # A serializer for pairs of bytes and client flags: one value that cannot be read does not prevent reading others.
      # @api private
      module Stored
        def self.dump(stored)
          stored
        end

        def self.load(bytes, flags)
          [bytes, flags]
        end
      end

      # A coder of Rails 7.0 that stores entries as Rails 6.1 does.
      # @api private
      module Entries
        def self.dump(entry)
          entry
        end

        def self.dump_compressed(entry, threshold)
          entry.compressed(threshold)
        end

        def self.load(payload)
          Coders::Loader.load(payload)
        end
      end
      private_constant :LocalCacheWithRaw, :LocalCacheWithMisses, :Stored, :Entries

      include Pinyon::Failures
      include Leases
      include CompareAndSwap
      prepend Strategy::LocalCache
      prepend LocalCacheWithRaw if IN_RAILS_6
      prepend LocalCacheWithMisses unless IN_RAILS_6

      # @return [true] the version of a record can be in its entry instead of in its key
      def self.supports_cache_versioning?
        true
      end

      # @return [Pinyon::Client] the client of this store. It reads and writes pairs of bytes and client flags.
      attr_reader :client

      # @param addresses [Array<String, Hash>] the servers as +"host:port"+, +"host:port:weight"+ or a socket's path, or
      #   several in one String, separated by commas; last, a Hash with options of Rails' stores and settings of
      #   {Pinyon::Client}. Without servers, the environment variable +MEMCACHE_SERVERS+, or else +127.0.0.1:11211+
      # @raise [ArgumentError] an option that does not exist; the message names the closest one
      # @raise [Pinyon::UsageError] a setting with a value that makes no sense
      def initialize(*addresses)
        addresses = addresses.flatten
        options = addresses.extract_options!
        super(options.slice(*OF_RAILS, *OF_CALLS))
        settings = { **options.except(*OF_RAILS, *OF_CALLS, *OF_POOLS), **cleared_namespace(options) }
        servers = addresses.compact.flat_map { |address| address.split(",").map(&:strip) }
        @client = Pinyon::Client.new(*servers, ring: "dalli", on_event: method(:log), **settings, serializer: Stored)
      end

      # Add to a counter. A missing one is created with this amount.
      #
      # @param name [Object] the counter's name, or what Rails makes a name from
      # @param amount [Integer] from 0
      # @param options [Hash, nil] +:expires_in+: the life of a counter that is created
      # @return [Integer, nil] the new value; nil if no server carried it out
      # @raise [RangeError] a negative amount
      def increment(name, amount = 1, options = nil)
        options = merged_options(options)
        key = normalize_key(name, options)
        instrument_counter(:increment, name, key, amount) do
          @client.incr(key, amount, initial: amount, ttl: options[:expires_in])
        end
      end

      # Subtract from a counter. It stops at 0, where a missing one begins.
      #
      # @see #increment
      def decrement(name, amount = 1, options = nil)
        options = merged_options(options)
        key = normalize_key(name, options)
        instrument_counter(:decrement, name, key, amount) do
          @client.decr(key, amount, initial: 0, ttl: options[:expires_in])
        end
      end

      # Clear the +namespace+ of the store if it is +clearable+. Otherwise empty all servers, also of what other
      # programs have stored there.
      #
      # @return [true, nil] nil if a server did not carry it out
      def clear(_options = nil)
        failing_to(nil) do
          @clearable ? @client.clear_namespace : @client.flush_all
          true
        end
      end

      # The statistics of each server, by its name.
      #
      # @return [Hash{String => Hash{String => String}}] empty if a server failed
      def stats
        failing_to({}) { @client.stats }
      end

      # @return [String]
      def inspect
        "#<#{self.class} options=#{options.inspect} client=#{@client.inspect}>"
      end

      private

      def read_entry(key, **options)
        deserialize_entry(read_serialized_entry(key, **options), **options)
      end

      def read_serialized_entry(key, raw: false, **)
        failing_to(nil) { (stored = @client.get(key)) && unpack(*stored, raw) }
      end

      # @param expired [Hash, nil] receives the entries that have expired, by key
      def read_multi_entries(names, expired: nil, **options)
        names_by_key = names.to_h { |name| [normalize_key(name, options), name] }
        payloads = read_together(names_by_key.keys, options[:raw])
        names_by_key.each_with_object({}) do |(key, name), values|
          entry = deserialize_entry(payloads[key], **options)
          next if entry.nil? || entry.mismatched?(normalize_version(name, options))
          next expired&.store(key, entry) if entry.expired?

          failing_to(nil) { values[name] = readable { entry.value } }
        end
      end

      # The payloads that the servers have, by key. Those that fail are left out.
      def read_together(keys, raw)
        failed = {}
        stored = failing_to({}) { @client.get_many(keys, failed:) }
        failed.each_value { |error| report(error) }
        stored.transform_values { |bytes, flags| failing_to(nil) { unpack(bytes, flags, raw) } }
      end

      def write_entry(key, entry, **options)
        write_serialized_entry(key, serialize_entry(entry, **options), **options)
      end

      # @param together [Hash, nil] receives the value, which is then sent with others
      # @param written [Array, nil] receives whether it was stored
      def write_serialized_entry(key, payload, raw: false, unless_exist: false, together: nil, written: nil, **options)
        stored = pack(payload, raw)
        if together
          together[key] = stored
          return true
        end
        ttl = ttl_of_entry(raw:, **options)
        outcome = failing_to(NOT_WRITTEN) { @client.public_send(unless_exist ? :add : :set, key, stored, ttl:) }
        written&.push(outcome)
        outcome
      end

      # Each entry passes through the local cache. Then all are sent together.
      def write_multi_entries(entries, **options)
        return super if options[:unless_exist]

        super(entries, **options, together: (together = {}))
        ttl = ttl_of_entry(**options)
        failing_to(NOT_WRITTEN) do
          @client.set_many(together, ttl:).empty?
        rescue Pinyon::ValueTooLarge
          # With it the client has refused all others, too.
          together.map { |key, stored| failing_to(NOT_WRITTEN) { @client.set(key, stored, ttl:) } }.all? || NOT_WRITTEN
        end
      end

      # @param together [Array, nil] receives the key, which is then sent with others
      def delete_entry(key, together: nil, **)
        return true if together&.push(key)

        failing_to(false) { @client.delete(key) }
      end

      def delete_multi_entries(keys, **options)
        super(keys, **options, together: (together = []))
        failing_to(0) { @client.delete_many(together) }
      end

      def serialize_entry(entry, raw: false, **options)
        return entry.value.to_s if raw

        own_copy(IN_RAILS_6 ? super(entry) : super(entry, raw:, **options))
      end

      def deserialize_entry(payload, raw: false, **)
        return own_copy(payload) if payload.nil? || payload.is_a?(Entry)

        entry = raw ? payload : super(payload)
        entry.nil? || entry.is_a?(Entry) ? entry : Entry.new(entry, compress: false)
      end

      # A payload that shares no object with the local cache, which since Rails 7.0 keeps payloads as they are. In most
      # formats they are bytes; in that of Rails 6.1, and without a coder, they are entries.
      def own_copy(payload)
        return payload unless payload.is_a?(Entry) && local_cache_keeps_payloads?

        payload.dup.tap(&:dup_value!)
      end

      # Rails 6.1 keeps entries, and copies them itself.
      def local_cache_keeps_payloads?
        !IN_RAILS_6 && !local_cache.nil?
      end

      # Rails 7.0.
      def default_coder
        as_in_rails_6? ? Entries : super
      end

      # Rails 7.1 and newer.
      def default_serializer
        as_in_rails_6? ? SerializerWithFallback[:passthrough] : super
      end

      # Whether this version of Rails can write the format of Rails 6.1, and is to do so.
      def as_in_rails_6?
        RAILS < Gem::Version.new("7.2.0") && Cache.format_version.to_s == "6.1"
      end

      def pack(payload, raw)
        raw ? [payload.to_s, 0] : [Marshal.dump(payload), MARSHALLED]
      end

      def unpack(bytes, flags, raw)
        readable do
          bytes = Zlib::Inflate.inflate(bytes) if flags.anybits?(COMPRESSED)
          # Rails' own stores read their entries in the same way.
          next Marshal.load(bytes) if flags.anybits?(MARSHALLED) # rubocop:disable Security/MarshalLoad

          raw || IN_RAILS_6 ? text(bytes) : bytes
        end
      end

      def text(bytes)
        text = bytes.dup.force_encoding(Encoding::UTF_8)
        text.valid_encoding? ? text : bytes
      end

      def readable
        yield
      rescue *UNREADABLE => e
        raise Pinyon::UndecodableValue, "a stored value cannot be read: #{e.message}"
      end

      # The namespace that the client puts before all keys: of a store that can be cleared, it is not a part of them.
      def cleared_namespace(options)
        @clearable = options[:clearable] || false
        return {} unless @clearable
        return { namespace: "#{@options.delete(:namespace)}:" } if options[:namespace].is_a?(String)

        raise Pinyon::UsageError, "clearable needs a namespace, which must be a String"
      end

      # The namespaced key as MemCacheStore sends it.
      def normalize_key(name, options)
        key = super&.b&.gsub(REFUSED_IN_KEYS) { |byte| format("%%%X", byte.ord) }
        return key if key.nil? || key.size <= LONGEST_KEY

        digest = BEFORE_DIGEST + ActiveSupport::Digest.hexdigest(key)
        key[0, LONGEST_KEY - digest.size] + digest
      end

      def ttl_of_entry(expires_in: nil, race_condition_ttl: nil, raw: false, **)
        survives = race_condition_ttl && expires_in&.positive? && !raw
        survives ? expires_in + GRACE : expires_in
      end

      def instrument_counter(operation, name, key, amount, &block)
        instrument(operation, SINCE_RAILS_7_1 ? key : name, amount:) { failing_to(nil, &block) }
      end

      # Why a value cannot be read is told once: there may be many such values.
      def report(error)
        return if error.is_a?(Pinyon::UndecodableValue) && was_told?(error.message)

        Pinyon::Failures.tell_rails(error, journal, "pinyon_store.active_support")
      end

      def was_told?(reason)
        @reasons ||= {}
        return true if @reasons.key?(reason) || @reasons.size >= MOST_REASONS

        @reasons[reason] = true
        false
      end

      def log(event)
        journal&.public_send(LEVELS.fetch(event.level), "Pinyon: #{event.message}")
      end

      # Rails gives its stores no logger. One that logs at +:debug+ gets a line for each operation.
      def journal
        logger || (::Rails.logger if defined?(::Rails.logger))
      end
    end
  end
end
