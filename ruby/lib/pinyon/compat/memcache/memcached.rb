# frozen_string_literal: true

module Pinyon
  module Compat
    # The common methods of the gem memcached 1.x, for its class +Memcached+. As there, a miss is an error.
    #
    #   cache = Pinyon::Compat::Memcached.new(["cache1:11211", "cache2:11211"], prefix_key: "app:")
    #   cache.set("greeting", "hello")
    #   cache.get("greeting") # => "hello"
    class Memcached
      include MemcacheValues

      # What fails, other than an argument.
      class Error < RuntimeError
        include Pinyon::Error
      end

      # There is no such item.
      class NotFound < Error; end

      # Nothing was stored: there is such an item, or there is none.
      class NotStored < Error; end

      # The item has changed meanwhile.
      class ConnectionDataExists < Error; end

      # The server did not answer in time.
      class ATimeoutOccurred < Error; end

      # The server is down.
      class ServerIsMarkedDead < Error; end

      # The server answered with an error, or the connection broke.
      class ServerError < Error; end

      # A key that memcached does not take.
      class ABadKeyWasProvidedOrCharactersOutOfRange < Error; end

      # What callers rescue of the original's, and Pinyon does not raise.
      UNRAISED = %i[
        AKeyLengthOfZeroWasProvided ActionNotSupported ActionQueued ClientError ConnectionBindFailure
        ConnectionDataDoesNotExist ConnectionFailure ConnectionSocketCreateFailure CouldNotOpenUnixSocket
        EncounteredAnUnknownStatKey Failure FetchWasNotCompleted HostnameLookupFailure InvalidArguments
        MemoryAllocationFailure NoServersDefined PartialRead ProtocolError ReadFailure ServerEnd SomeErrorsWereReported
        SystemError TheHostTransportProtocolDoesNotMatchThatOfTheClient UnknownReadFailure WriteFailure
      ].each { |name| const_set(name, Class.new(Error)) }.freeze
      private_constant :UNRAISED

      MEANINGS = {
        Timeout => ATimeoutOccurred, ServerDown => ServerIsMarkedDead, ConnectError => ServerIsMarkedDead,
        InvalidKey => ABadKeyWasProvidedOrCharactersOutOfRange
      }.freeze
      WEEK = 604_800
      private_constant :MEANINGS, :WEEK

      # @return [Hash] the options, with the defaults of those that are missing
      attr_reader :options

      # @param servers [String, Array<String>, nil] +"host:port:weight"+ or +"/path/of/socket"+; without any, the
      #   environment variable +MEMCACHE_SERVERS+, or else +127.0.0.1:11211+
      # @param options [Hash] +prefix_key+, +prefix_delimiter+, +default_ttl+ (a week), +timeout+ (of a whole
      #   operation, 0.25 seconds), +connect_timeout+, +auto_eject_hosts+; others have no effect
      def initialize(servers = nil, options = {})
        @servers = Array(servers)
        @options = { prefix_key: options[:namespace], prefix_delimiter: "", default_ttl: WEEK, timeout: 0.25,
                     connect_timeout: 0.25, auto_eject_hosts: true, **options }
        @opening = Mutex.new
      end

      # @param key [String, Array<String>]
      # @param marshalled [Boolean] whether the value was marshalled when it was stored
      # @return [Object] the value; for an Array, a Hash of the values that there are
      # @raise [NotFound]
      def get(key, marshalled = true)
        if key.is_a?(Array)
          return asked { |cache| cache.get_many(key) }.transform_values { |stored| unpacked(stored, marshalled) }
        end

        unpacked(found(asked { |cache| cache.get(key) }, key), marshalled)
      end

      # @param ttl [Integer] seconds; 0 never expires
      # @param marshalled [Boolean] whether the value is marshalled, or a String that is stored as it is
      # @param flags [Integer] the client flags
      # @return [nil]
      def set(key, value, ttl = @options[:default_ttl], marshalled = true, flags = 0)
        put(:set, key, value, ttl, marshalled, flags)
      end

      # @return [nil]
      # @raise [NotStored] there is such an item
      # @see #set
      def add(key, value, ttl = @options[:default_ttl], marshalled = true, flags = 0)
        put(:add, key, value, ttl, marshalled, flags)
      end

      # @return [nil]
      # @raise [NotStored] there is no such item
      # @see #set
      def replace(key, value, ttl = @options[:default_ttl], marshalled = true, flags = 0)
        put(:replace, key, value, ttl, marshalled, flags)
      end

      # @return [nil]
      # @raise [NotStored] there is no such item
      def append(key, value)
        stored(asked { |cache| cache.append(key, [value.to_s, 0]) }, key)
      end

      # @return [nil]
      # @raise [NotStored] there is no such item
      def prepend(key, value)
        stored(asked { |cache| cache.prepend(key, [value.to_s, 0]) }, key)
      end

      # Change a value: the block gets it, and returns what to store in its place. For several keys it gets a Hash of
      # the values that there are, and returns one of what to store; what has changed meanwhile is left as it is.
      #
      # @param key [String, Array<String>]
      # @return [nil, Hash] of several keys the values that were stored
      # @raise [NotFound]
      # @raise [ConnectionDataExists] it has changed meanwhile
      def cas(key, ttl = @options[:default_ttl], marshalled = true, flags = 0, &change)
        return cas_many(key, ttl, marshalled, flags, &change) if key.is_a?(Array)

        was, token = found(asked { |cache| cache.gets(key) }, key)
        made = packed(yield(unpacked(was, marshalled)), marshalled, flags)
        outcome = found(asked { |cache| cache.cas(key, made, token, ttl: seconds(ttl)) }, key)
        raise ConnectionDataExists, "#{key.inspect} has changed meanwhile: try again" unless outcome
      end
      alias compare_and_swap cas

      # @return [nil]
      # @raise [NotFound]
      def delete(key)
        found(asked { |cache| cache.delete(key) } || nil, key)
        nil
      end

      # @return [nil]
      # @raise [NotFound]
      def exist(key)
        found(asked { |cache| cache.meta(key) }, key)
        nil
      end

      # @return [Integer] the new value of a counter that was stored without marshalling
      # @raise [NotFound]
      def increment(key, offset = 1)
        found(asked { |cache| cache.incr(key, offset) }, key)
      end
      alias incr increment

      # @return [Integer] the new value; it stops at 0
      # @raise [NotFound]
      def decrement(key, offset = 1)
        found(asked { |cache| cache.decr(key, offset) }, key)
      end
      alias decr decrement

      # @return [nil]
      def flush
        asked(&:flush_all)
      end

      # @return [Hash{String => Hash{String => String}}]
      def stats
        asked(&:stats)
      end

      # @return [Array<String>] the servers' names
      def servers
        cache.servers
      end

      # @return [String] the name of the server that has the key
      def server_by_key(key)
        asked { |cache| cache.servers_of(key).first }
      end

      # @return [String, nil] what is put before each key
      def prefix_key
        @options[:prefix_key]
      end
      alias namespace prefix_key

      # Put another prefix before each key from now on.
      #
      # @return [String, nil]
      def set_prefix_key(prefix)
        @options = { **@options, prefix_key: prefix }
        reset
        prefix
      end
      alias set_namespace set_prefix_key

      # Close all connections. The next call opens new ones.
      #
      # @return [nil]
      def reset
        closed = @cache
        @cache = nil
        closed&.close
      end
      alias quit reset
      alias close reset

      private

      def initialize_copy(original)
        super
        @cache = nil
        @opening = Mutex.new
      end

      def put(mode, key, value, ttl, marshalled, flags)
        made = packed(value, marshalled, flags)
        stored(asked { |cache| cache.public_send(mode, key, made, ttl: seconds(ttl)) }, key)
      end

      def cas_many(keys, ttl, marshalled, flags)
        there = asked { |cache| cache.gets_many(keys) }
        made = yield(there.transform_values { |was, _| unpacked(was, marshalled) })
        made.select do |key, value|
          token = there[key]&.last
          token && asked { |cache| cache.cas(key, packed(value, marshalled, flags), token, ttl: seconds(ttl)) }
        end
      end

      def stored(done, key)
        return if done

        raise NotStored, "#{key.inspect} was not stored: add needs a missing key, the others one that is there"
      end

      def found(answer, key)
        raise NotFound, "there is no #{key.inspect}" if answer.nil?

        answer
      end

      def asked
        yield cache
      rescue Pinyon::Error => e
        meaning = MEANINGS.find { |meant, _| e.is_a?(meant) }&.last
        raise if meaning.nil? && (e.is_a?(UsageError) || e.is_a?(UnsupportedType))

        raise (meaning || ServerError).new(e.message, server: e.server, command: e.command, sent: e.sent)
      end

      def cache
        @cache || @opening.synchronize { @cache ||= Pinyon::Client.new(*@servers, **settings) }
      end

      def settings
        prefix = prefix_key && "#{prefix_key}#{@options[:prefix_delimiter]}"
        timeout, connect_timeout, failover = @options.values_at(:timeout, :connect_timeout, :auto_eject_hosts)
        {
          ring: "ketama", namespace: prefix, serializer: AsStored, failover:, max_value_size: MOST_READ,
          timeout:, connect_timeout: [connect_timeout, timeout].min
        }
      end
    end
  end
end
