# frozen_string_literal: true

require "digest/sha1"

module Pinyon
  module Compat
    # The methods and results of memcache-client 1.8, for its class +MemCache+. Keys are on the same servers, and values
    # have the same bytes, so both can use a pool at the same time.
    #
    #   cache = Pinyon::Compat::MemCache.new(["cache1:11211", "cache2:11211"], namespace: "app")
    #   cache.set("greeting", "hello", 300)
    #   cache.get("greeting") # => "hello"
    class MemCache
      include MemcacheValues

      # What fails, other than an argument.
      class MemCacheError < RuntimeError
        include Pinyon::Error
      end

      # One of the servers. Sessions of Rack 2.0 and 2.1 ask at their start whether one is alive.
      class Server
        # @return [String] as the client names it
        attr_reader :name
        alias to_s name

        # @api private
        def initialize(name, settings)
          @name = name
          @settings = settings
        end

        # Whether it answers now, to a connection of its own.
        def alive?
          asking = Pinyon::Client.new(@name, **@settings)
          asking.version.any?
        rescue Pinyon::Error
          false
        ensure
          asking&.close
        end

        # For people.
        #
        # @return [String]
        def inspect
          "#<#{self.class} #{@name}>"
        end
      end

      # What the original does unless its options say otherwise.
      DEFAULT_OPTIONS = { namespace: nil, readonly: false, failover: true, timeout: 0.5, check_size: true,
                          autofix_keys: false, namespace_separator: ":" }.freeze
      LARGEST = 1024 * 1024
      LONGEST_KEY = 250
      private_constant :LARGEST, :LONGEST_KEY

      # @return [String, nil] what is put before each key, with a colon between
      attr_reader :namespace

      # @param servers [Array<String>] +"host:port"+ or +"host:port:weight"+
      # @param options [Hash] +namespace+, +namespace_separator+, +readonly+, +failover+, +timeout+, +check_size+,
      #   +autofix_keys+; others have no effect
      def initialize(*servers, **options)
        options = servers.pop.merge(options) if servers.last.is_a?(Hash)
        @options = options
        @namespace = options[:namespace]
        @opening = Mutex.new
        self.servers = servers.flatten
      end

      # Use other servers from now on.
      #
      # @param servers [Array<String>]
      def servers=(servers)
        @servers = Array(servers)
        reset
      end

      # @return [Array<Server>]
      def servers
        active? ? cache.servers.map { |name| Server.new(name, settings) } : []
      end

      # Whether there are servers.
      def active?
        !@servers.empty?
      end

      # Whether values can only be read.
      def readonly?
        @options.fetch(:readonly, false)
      end

      # @param raw [Boolean] whether the value is a String that was stored as it is
      # @return [Object, nil]
      # @raise [MemCacheError]
      def get(key, raw = false)
        asked { |cache| cache.get(sent(key)) }&.then { |stored| value_of(key, stored, raw) }
      end
      alias [] get

      # @return [Array(Object, Integer), nil] the value and its CAS token
      # @raise [MemCacheError]
      def gets(key, raw = false)
        asked { |cache| cache.gets(sent(key)) }&.then { |stored, cas| [value_of(key, stored, raw), cas] }
      end

      # The values of many keys. Keys of servers that fail are missing.
      #
      # @param keys [Array<String>] with +raw: true+ behind them, values are Strings that were stored as they are
      # @return [Hash{String => Object}]
      def get_multi(*keys, raw: false)
        given = keys.flatten.to_h { |key| [sent(key), key.to_s] }
        found = asked { |cache| cache.get_many(given.keys, failed: {}) }
        found.to_h { |sent, stored| [given[sent], value_of(sent, stored, raw)] }
      end

      # The value of a key, or else that of the block, which is stored unless somebody else was first.
      #
      # @return [Object, nil]
      # @raise [MemCacheError]
      def fetch(key, expiry = 0, raw = false)
        value = get(key, raw)
        return value unless value.nil? && block_given?

        yield.tap { |made| add(key, made, expiry, raw) }
      end

      # @param expiry [Integer] seconds; 0 never expires
      # @param raw [Boolean] stores +to_s+ of the value as it is
      # @return [String] +"STORED\r\n"+
      # @raise [MemCacheError]
      def set(key, value, expiry = 0, raw = false)
        put(:set, key, value, expiry, raw)
      end

      # Store with no expiry.
      def []=(key, value)
        set(key, value)
      end

      # @return [String] +"STORED\r\n"+ or +"NOT_STORED\r\n"+
      # @see #set
      def add(key, value, expiry = 0, raw = false)
        put(:add, key, value, expiry, raw)
      end

      # @return [String] +"STORED\r\n"+ or +"NOT_STORED\r\n"+
      # @see #set
      def replace(key, value, expiry = 0, raw = false)
        put(:replace, key, value, expiry, raw)
      end

      # @return [String] +"STORED\r\n"+ or +"NOT_STORED\r\n"+
      def append(key, value)
        stored(changed { |cache| cache.append(sent(key), [value.to_s, 0]) })
      end

      # @return [String] +"STORED\r\n"+ or +"NOT_STORED\r\n"+
      def prepend(key, value)
        stored(changed { |cache| cache.prepend(sent(key), [value.to_s, 0]) })
      end

      # Change a value: the block gets it, and returns what to store in its place.
      #
      # @return [String, nil] +"STORED\r\n"+, +"EXISTS\r\n"+ if it has changed meanwhile, or +"NOT_FOUND\r\n"+ if it has
      #   gone; nil if there was none
      def cas(key, expiry = 0, raw = false)
        value, token = gets(key, raw)
        return if value.nil?

        made = checked(key, packed(yield(value), !raw))
        outcome = changed { |cache| cache.cas(sent(key), made, token, ttl: seconds(expiry)) }
        { true => "STORED\r\n", false => "EXISTS\r\n", nil => "NOT_FOUND\r\n" }.fetch(outcome)
      end

      # @return [String] +"DELETED\r\n"+ or +"NOT_FOUND\r\n"+
      def delete(key, _expiry = 0)
        changed { |cache| cache.delete(sent(key)) } ? "DELETED\r\n" : "NOT_FOUND\r\n"
      end

      # @return [Integer, nil] the new value; nil if there is none
      def incr(key, amount = 1)
        changed { |cache| cache.incr(sent(key), amount) }
      end

      # @return [Integer, nil] the new value; nil if there is none
      def decr(key, amount = 1)
        changed { |cache| cache.decr(sent(key), amount) }
      end

      # @return [nil]
      def flush_all(delay = 0)
        changed { |cache| cache.flush_all(delay) }
      end

      # @return [Hash{String => Hash{String => String, Integer, Float}}]
      def stats
        asked(&:stats).transform_values do |of_server|
          of_server.transform_values do |value|
            case value
            when /\A\d+\z/ then value.to_i
            when /\A\d+\.\d+\z/ then value.to_f
            else value
            end
          end
        end
      end

      # Close all connections. The next call opens new ones.
      #
      # @return [nil]
      def reset
        closed = @cache
        @cache = nil
        closed&.close
      end

      private

      def put(mode, key, value, expiry, raw)
        packed = checked(key, packed(value, !raw))
        stored(changed { |cache| cache.public_send(mode, sent(key), packed, ttl: seconds(expiry)) })
      end

      def stored(done)
        done ? "STORED\r\n" : "NOT_STORED\r\n"
      end

      def checked(key, packed)
        return packed if packed.first.bytesize <= LARGEST || @options[:check_size] == false

        raise MemCacheError, "the value of #{key.inspect} has #{packed.first.bytesize} bytes, more than 1 MiB: " \
                             "store less, or pass check_size: false"
      end

      def value_of(key, stored, raw)
        unpacked(stored, !raw)
      rescue ArgumentError, TypeError, NameError => e
        raise MemCacheError, "the value of #{key.inspect} cannot be read: #{e.message}"
      end

      def changed(&block)
        raise MemCacheError, "the cache is read only (readonly: true)" if readonly?

        asked(&block)
      end

      def asked
        raise MemCacheError, "there are no servers: set them with servers=" unless active?

        yield cache
      rescue UsageError, MemCacheError
        raise
      rescue Pinyon::Error => e
        raise MemCacheError.new(e.message, server: e.server, command: e.command, sent: e.sent)
      end

      def cache
        @cache || @opening.synchronize { @cache ||= Pinyon::Client.new(*@servers, **settings) }
      end

      def settings
        timeout = @options.fetch(:timeout, 0.5)
        separator = @options.fetch(:namespace_separator, ":")
        {
          ring: "dalli", namespace: @namespace && "#{@namespace}#{separator}", serializer: AsStored,
          failover: @options.fetch(:failover, true), max_value_size: MOST_READ,
          timeout: timeout || 60, connect_timeout: timeout ? timeout / 2.0 : 30
        }
      end

      def sent(key)
        key = key.to_s
        return key unless @options[:autofix_keys]

        length = key.length + (@namespace ? @namespace.to_s.length + 1 : 0)
        key.match?(/\s/) || length > LONGEST_KEY ? "#{Digest::SHA1.hexdigest(key)}-autofixed" : key
      end
    end
  end
end
