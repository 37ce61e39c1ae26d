# frozen_string_literal: true

require "date"
require "pinyon/batch"
require "pinyon/cached"
require "pinyon/leases"
require "pinyon/reported"
require "pinyon/sharing"

module Pinyon
  # A client of one or more memcached servers. All threads of a process can share it; a forked child makes connections
  # of its own.
  #
  #   cache = Pinyon::Client.new("cache1:11211", "cache2:11211", timeout: 0.5)
  #   cache.set("user:1", { "name" => "Ada" }, ttl: 300)
  #   cache.get("user:1")                    # => {"name" => "Ada"}
  #   cache.get("user:2", "nobody")          # => "nobody"
  #
  # Keys are Strings or Symbols. A ttl is a number of seconds, or an +ActiveSupport::Duration+; 0 never expires. Without
  # one, the client's +default_ttl+ counts.
  #
  # Values are what every language that Pinyon has can read: Strings (text in UTF-8, or bytes in BINARY), Integers,
  # true, false, nil, Floats, Arrays, Hashes and Times. What would come back as something else, such as a Symbol, is
  # refused.
  class Client
    include Leases
    include Caching
    include Sharing

    # @param servers [Array<String>] +"host:port"+, +"host:port:weight"+ or +"/path/of/socket"+. Without any, the
    #   environment variable +MEMCACHE_SERVERS+, or else +127.0.0.1:11211+
    # @param serializer [Symbol, #dump] +:portable+, +:json+, +:raw+ (Strings as bytes), +:marshal+ (any object, safe
    #   only where nobody else can write to the cache), or an object whose +dump(value)+ returns +[bytes, flags]+ and
    #   whose +load(bytes, flags)+ returns the value
    # @param on_event [#call, nil] called with an {Event} when a server is marked down, is up again, and so on
    # @param settings [Hash] further settings, by the names that they have in every language: +namespace+, +timeout+,
    #   +connect_timeout+, +default_ttl+, +ring+, +failover+, +on_failure+, +on_unreadable+, +gutter+, +compression+,
    #   +dialect+, +near+, +tls+ …
    # @raise [UsageError] a setting does not exist (the message names the closest one), or its value makes no sense
    def initialize(*servers, serializer: nil, on_event: nil, **settings)
      settings[:servers] = servers.flatten unless servers.empty?
      @on_event = on_event
      @functions = Asking.functions_in(settings)
      @native = Native::Cache.new(settings, serializer, !on_event.nil?)
    end

    ##
    # :method: get
    # :call-seq: get(key, default = nil)
    #
    # @!method get(key, default = nil)
    #   The value of a key. It is written in the native half.
    #   @param key [String, Symbol]
    #   @param default [Object] what to return if there is no value
    #   @return [Object] the value, or +default+
    #   @raise [UndecodableValue] the value was stored by other means, and the serializer cannot read it

    ##
    # :method: []
    # :call-seq: [](key, default = nil)
    #
    # @!method [](key, default = nil)
    #   The same as {#get}.

    # Store a value.
    #
    # @param key [String, Symbol]
    # @param value [Object] what the serializer takes
    # @param ttl [Numeric, nil] seconds until it expires; a negative ttl expires at once
    # @param tags [Array<String, Symbol>, String, Symbol, nil] names such as "user:7". {#invalidate_tags} has the value
    #   count as missing
    # @return [Boolean] true; with +on_failure: :miss+, false if no server could store it
    # @raise [UnsupportedType] the serializer does not take such a value
    # @raise [ValueTooLarge] the value is larger than +max_value_size+, or than the server stores
    def set(key, value, ttl: nil, tags: nil)
      @native.set(key, value, ttl, tags)
    ensure
      tell if @on_event
    end

    # Store a value with the client's default ttl.
    def []=(key, value)
      set(key, value)
    end

    # Store a value unless the key has one.
    #
    # @return [Boolean] whether it was stored
    # @see #set
    def add(key, value, ttl: nil, tags: nil)
      @native.add(key, value, ttl, tags)
    ensure
      tell if @on_event
    end

    # Store a value if the key has one.
    #
    # @return [Boolean] whether it was stored
    # @see #set
    def replace(key, value, ttl: nil, tags: nil)
      @native.replace(key, value, ttl, tags)
    ensure
      tell if @on_event
    end

    # Add bytes to the end of a stored String. Any other value cannot be read afterwards.
    #
    # @param value [String]
    # @return [Boolean] whether there was a value
    def append(key, value)
      @native.append(key, value)
    ensure
      tell if @on_event
    end

    # Add bytes to the beginning of a stored String. Any other value cannot be read afterwards.
    #
    # @param value [String]
    # @return [Boolean] whether there was a value
    def prepend(key, value)
      @native.prepend(key, value)
    ensure
      tell if @on_event
    end

    # The value of a key and its CAS token.
    #
    # @return [Array(Object, Integer), nil] both, or nil if there is no value
    def gets(key)
      @native.gets(key)
    ensure
      tell if @on_event
    end

    # Store a value if the item still has this CAS token.
    #
    # @param cas [Integer] the token from {#gets}
    # @return [Boolean, nil] true if it was stored, false if the item has changed, nil if there is none
    # @see #set
    def cas(key, value, cas, ttl: nil, tags: nil)
      @native.cas(key, value, cas, ttl, tags)
    ensure
      tell if @on_event
    end

    # The value of a key, and the seconds until it expires.
    #
    # @return [Array(Object, Integer), nil] both, the second nil if it never expires; nil if there is no value
    # @raise [Unsupported] the server is older than memcached 1.6.10
    def get_with_ttl(key)
      @native.get_with_ttl(key)
    ensure
      tell if @on_event
    end

    # Return the value of a key, and set its ttl.
    #
    # @param ttl [Numeric] seconds until it expires; 0 never expires
    # @return [Object, nil]
    def gat(key, ttl)
      @native.gat(key, ttl)
    ensure
      tell if @on_event
    end

    # Set the ttl of a key.
    #
    # @param ttl [Numeric] seconds until it expires; 0 never expires
    # @return [Boolean] whether there is such an item
    def touch(key, ttl)
      @native.touch(key, ttl)
    ensure
      tell if @on_event
    end

    # Set the ttl of many keys. All servers are asked at the same time.
    #
    # @param keys [Array<String, Symbol>]
    # @param ttl [Numeric] the same for all; seconds until they expire, 0 never expires
    # @return [Array] the keys that have an item
    # @raise [Error] a server failed; its {Error#partial} has the keys whose items did get the ttl
    def touch_many(keys, ttl)
      @native.touch_many(many(keys), ttl)
    ensure
      tell if @on_event
    end

    # Delete an item.
    #
    # @param stale [Numeric, nil] seconds for which the item stays instead, marked as stale: the next caller that asks
    #   for a lease makes a new value, and all others get the stale one meanwhile
    # @return [Boolean] whether there was such an item
    def delete(key, stale: nil)
      stale ? @native.mark_stale(key, stale) : @native.delete(key)
    ensure
      tell if @on_event
    end

    # Add to a stored integer.
    #
    # @param delta [Integer] from 0 to 2**64-1
    # @param initial [Integer, nil] the value of a counter that is missing; without it, nothing is created
    # @param ttl [Numeric, nil] the ttl of a counter that is created
    # @return [Integer, nil] the new value, or nil if there is none
    def incr(key, delta = 1, initial: nil, ttl: nil)
      @native.incr(key, delta, initial, ttl)
    ensure
      tell if @on_event
    end

    # Subtract from a stored integer. It stops at 0.
    #
    # @see #incr
    def decr(key, delta = 1, initial: nil, ttl: nil)
      @native.decr(key, delta, initial, ttl)
    ensure
      tell if @on_event
    end

    # The values of many keys. All servers are asked at the same time.
    #
    # @param keys [Array<String, Symbol>]
    # @param failed [Hash, nil] accepts partial results: it receives the error of each server that failed, and nothing
    #   is raised for them
    # @return [Hash] values by key, without the keys that have none
    # @raise [Error] a server failed; its {Error#partial} has the values that did arrive
    def get_many(keys, failed: nil)
      @native.get_many(many(keys), failed)
    ensure
      tell if @on_event
    end

    # The values of any number of keys, in bounded memory: keys are taken and asked for in chunks.
    #
    #   cache.iter_many(Product.pluck_keys, chunk: 500) { |key, product| report(product) }
    #
    # Without a block, it returns an Enumerator. In fibers, use its +each+ or +lazy+; its +next+ runs in a fiber of its
    # own, where only threads can wait.
    #
    # @param keys [#each] Strings and Symbols, which are taken when they are needed
    # @param chunk [Integer] how many keys are asked for at once: so many values are in memory at most
    # @param failed [Hash, nil] as for {#get_many}
    # @yieldparam key [String, Symbol] a key that has a value; those of a chunk in their order
    # @yieldparam value [Object]
    # @return [Enumerator, nil]
    # @raise [Error] as {#get_many}, when its chunk is reached
    # @raise [UsageError] +chunk+ is less than 1
    def iter_many(keys, chunk: 100, failed: nil, &block)
      raise UsageError, "keys are a list, or something else with each, not #{keys.class}" unless keys.respond_to?(:each)
      unless chunk.is_a?(Integer) && chunk.positive?
        raise UsageError, "chunk is how many keys are asked for at once, at least 1, not #{chunk.inspect}"
      end
      return enum_for(:iter_many, keys, chunk:, failed:) unless block

      keys.to_enum.each_slice(chunk) do |asked|
        found = get_many(asked, failed:)
        asked.uniq.each { |key| yield [key, found[key]] if found.key?(key) } # not as a migrating client finds them
      end
      nil
    end

    # The values and CAS tokens of many keys.
    #
    # @return [Hash] pairs of a value and its token, by key
    # @see #get_many
    def gets_many(keys, failed: nil)
      @native.gets_many(many(keys), failed)
    ensure
      tell if @on_event
    end

    # Return the values of many keys, and set their ttl.
    #
    # @param ttl [Numeric] the same for all; seconds until they expire, 0 never expires
    # @return [Hash] values by key, without the keys that have none
    # @see #get_many
    def gat_many(keys, ttl, failed: nil)
      @native.gat_many(many(keys), ttl, failed)
    ensure
      tell if @on_event
    end

    # Store many values.
    #
    # @param pairs [Hash] values by key
    # @param ttl [Numeric, nil] the same for all; see {#set}
    # @param tags [Array<String, Symbol>, String, Symbol, nil] the same for all; see {#set}
    # @return [Array] the keys that were not stored
    def set_many(pairs, ttl: nil, tags: nil)
      hash = Hash.try_convert(pairs) or raise UnsupportedType, "pairs are a Hash of keys and values, not #{pairs.class}"
      @native.set_many(hash, ttl, tags)
    ensure
      tell if @on_event
    end

    # Delete many items.
    #
    # @param keys [Array<String, Symbol>]
    # @return [Integer] how many there were
    def delete_many(keys)
      @native.delete_many(many(keys))
    ensure
      tell if @on_event
    end

    # What the server knows about an item, without reading or touching it.
    #
    # @return [Metadata, nil] nil if there is no such item
    def meta(key)
      (fields = @native.meta(key)) && Metadata.new(*fields)
    ensure
      tell if @on_event
    end

    # Whether a key has a value.
    def key?(key)
      !meta(key).nil?
    end

    # Send commands without waiting for each reply.
    #
    #   cache.quiet do |batch|
    #     users.each { |user| batch.set("user:#{user.id}", user.to_h, ttl: 300) }
    #   end
    #
    # @yieldparam batch [Batch]
    # @return [Object] the block's value, when the outcome of every command is known
    # @raise [BatchError] commands failed; the others were carried out
    def quiet
      batch = Native::Batch.new(@native)
      result = yield Batch.new(batch)
      BatchError.check(batch.finish)
      result
    ensure
      batch&.discard
      tell if @on_event
    end

    # A view of this client with other rules for failures. It shares everything else with this client, also its end.
    #
    # @param failover [Boolean, nil] whether the keys of a server that is down go to another one
    # @param on_failure [Symbol, nil] +:raise+ or +:miss+
    # @param on_unreadable [Symbol, nil] +:raise+ or +:miss+, for stored values that cannot be read
    # @param near [Boolean, nil] whether reading may return what the client keeps in memory
    # @return [Client]
    def using(failover: nil, on_failure: nil, on_unreadable: nil, near: nil)
      view = dup
      view.instance_variable_set(:@native, @native.using({ failover:, on_failure:, on_unreadable:, near: }))
      view
    end

    # The version of each server, by its name.
    #
    # @return [Hash{String => String}]
    def version
      @native.version(nil)
    ensure
      tell if @on_event
    end

    # The statistics of each server, by its name.
    #
    # @param kind [String, nil] +"items"+, +"slabs"+, +"settings"+ …; without it, the general ones
    # @return [Hash{String => Hash{String => String}}]
    def stats(kind = nil)
      @native.stats(kind, nil)
    ensure
      tell if @on_event
    end

    # Forget all items of all servers, also those of other programs.
    #
    # @param delay [Integer] seconds until then
    # @return [nil]
    def flush_all(delay = 0)
      @native.flush_all(delay)
    ensure
      tell if @on_event
    end

    # Forget all items of the client's namespace, and nothing else. Needs the settings +namespace+ and +clearable+.
    #
    # The call replaces the generation that is part of every stored key; it deletes nothing and costs one command for
    # each server. This process sees the clear at once, others within their +generation_ttl+.
    #
    # @return [nil]
    # @raise [UsageError] the namespace is not clearable
    # @raise [Error] a server could not be reached; the others are cleared, and this one is before this process sends it
    #   anything else
    def clear_namespace
      @native.clear_namespace
    ensure
      tell if @on_event
    end

    # Have all values with one of these tags count as missing, wherever they are.
    #
    #   cache.set("profile:7", profile, ttl: 3600, tags: ["user:7"])
    #   cache.invalidate_tags("user:7")
    #
    # The call gives each tag another generation. It costs one command for each tag. This process sees it at once,
    # others within their +generation_ttl+. What is made meanwhile does not count either.
    #
    # @param tags [Array<String, Symbol>] the names of the tags
    # @return [nil]
    # @raise [Error] a server could not be reached: values of its tags may still be read. Call it again
    def invalidate_tags(*tags)
      @native.invalidate_tags(tags)
    ensure
      tell if @on_event
    end

    # The servers that may hold a key, in the order in which they are asked.
    #
    # @return [Array<String>]
    def servers_of(key)
      @native.servers_of(key)
    end

    # The names of all servers.
    #
    # @return [Array<String>]
    def servers
      @native.servers
    end

    # The bytes before every key on the servers.
    #
    # @return [String]
    def namespace
      @native.namespace
    end

    # What happened on the connections to each server, in this process.
    #
    # @return [Hash{String => Hash{Symbol => Object}}] for each server +:up+, +:gutter+, +:connections+, +:idle+,
    #   +:sent+ and +:received+ (bytes), and +:commands+: for each command +:hits+, +:misses+, +:stored+, +:not_stored+,
    #   +:kept+ (old values by {Leases#fetch}), +:answered+, +:retries+, +:errors+, and of a sample of the answers
    #   +:timed+ (how many), +:seconds+ (in all),
    #   +:mean+ and +:percentiles+ (50, 90, 95, 99 and 99.9; all in seconds, nil before the first), and +:buckets+:
    #   how many took at most so many seconds, and longer than the bucket before
    def metrics
      @native.metrics
    end

    # What became of the hot keys that this client and its views keep in memory (+near+), in this process.
    #
    # @return [Hash{Symbol => Integer}] +:hits+ (values returned without asking a server), +:fills+ (values read and
    #   kept), +:revalidations+ (of these, values that were no longer fresh), +:evictions+, and +:bytes+ in use
    def near_metrics
      @native.near_metrics
    end

    # Close all connections. Further calls raise {Closed}.
    #
    # @return [nil]
    def close
      @native.close
    end

    def closed?
      @native.closed?
    end

    # The client, with its servers and the settings that are not the default, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{@native.describe.join("; ")}>"
    end
    alias to_s inspect

    private

    def many(keys)
      return keys if keys.instance_of?(Array)
      return keys.to_a if keys.respond_to?(:each)

      raise UnsupportedType, "keys are an Array of Strings or Symbols, not #{keys.class}"
    end

    # Reports events when the operation is over: a callback may use the client.
    def tell
      return unless @native.events?

      @native.take_events.each { |fields| @on_event.call(Event.new(*fields)) }
    end
  end
end
