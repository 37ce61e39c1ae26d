# frozen_string_literal: true

require "pinyon/client"

module Pinyon
  # Two pools in use as one while programs migrate from the old one to the new. They may differ in servers, ring and
  # dialect.
  #
  #   old = Pinyon::Client.new("old:11211", ring: "dalli", dialect: "dalli", key_rule: "dalli")
  #   cache = Pinyon::MigratingClient.new(old, Pinyon::Client.new("new:11211"))
  #   cache.get("greeting")
  #
  # Reads ask the new pool, then the old one. A value in the old pool is moved with the rest of its ttl. Changes go to
  # the new pool, and delete the item in the old one. The methods are those of {Client}, without quiet batches.
  class MigratingClient < Client
    # How many keys a migrating client has found so far, and where.
    #
    # @!attribute new [Integer] keys in the new pool
    # @!attribute old [Integer] keys in the old pool only
    # @!attribute moved [Integer] keys of the old pool that this client has moved
    # @!attribute refused [Integer] keys that it could not move, because the new client or its server does not take
    #   their values
    # @!attribute missing [Integer] keys in neither pool
    Progress = Struct.new(:new, :old, :moved, :refused, :missing)

    # @return [Client] the client of the pool that is to go
    attr_reader :old

    # @return [Client] the client of the pool that is to stay
    attr_reader :new

    # @param old [Client] the client of the old pool
    # @param new [Client] the client of the new pool
    # @param ttl [Numeric, nil] the ttl of moved items, if the old servers cannot tell it (memcached before 1.6.10); 0
    #   never expires
    # @raise [UsageError] the clients would write to each other's keys
    def initialize(old, new, ttl: nil) # rubocop:disable Lint/MissingSuper -- the native half is made of two
      check_apart(old, new)
      @old = old
      @new = new
      natives = [old, new].map { |client| client.instance_variable_get(:@native) }
      @on_event = [old, new].any? { |client| client.instance_variable_get(:@on_event) }
      @native = Native::Cache.migrating(*natives, ttl)
    end

    # How many keys were found so far, and where. When +old+ no longer grows, you can switch off the old pool.
    #
    # @return [Progress]
    def progress
      Progress.new(*@native.progress)
    end

    # The value of a key. If only the old pool has it, it is moved with its ttl.
    #
    # @see Client#get
    def get(key, default = nil)
      super
    ensure
      tell if @on_event
    end
    alias [] get

    # The value of a key. No value is made while the old pool has one.
    #
    # @see Leases#fetch
    def fetch(key, **terms, &block)
      move(key)
      @new.fetch(key, **terms, &block)
    end

    # The values of many keys. No value is made while the old pool has one.
    #
    # @see Leases#fetch_many
    def fetch_many(keys, **terms, &block)
      keys = many(keys)
      move_many(keys)
      @new.fetch_many(keys, **terms, &block)
    end

    # Read an item, and ask for the right to make a new value. A value that only the old pool has is moved first.
    #
    # @see Leases#lease
    def lease(key, **terms, &block)
      move(key)
      @new.lease(key, **terms, &block)
    end

    # What happened on the connections to each server of both pools.
    #
    # @see Client#metrics
    def metrics
      @old.metrics.merge(@new.metrics)
    end

    # A view of this client with other rules for failures.
    #
    # @see Client#using
    # @return [MigratingClient]
    def using(**rules)
      view = super
      view.instance_variable_set(:@old, @old.using(**rules))
      view.instance_variable_set(:@new, @new.using(**rules))
      view
    end

    # @raise [UsageError] always: while migrating, each command depends on the result of the one before it
    def quiet
      raise UsageError, "a migrating client has no quiet batches: use set_many and delete_many"
    end

    # Close the connections to both pools.
    #
    # @return [nil]
    def close
      @old.close
      @new.close
    end

    # The client, with both pools, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} from #{@old.inspect} to #{@new.inspect}>"
    end
    alias to_s inspect

    private

    # Moves a value that only the old pool has. One that cannot be read is made anew.
    def move(key)
      get(key)
    rescue UndecodableValue
      nil
    end

    # get_many leaves most keys where they are; gets_many moves all.
    def move_many(keys)
      begin
        found = get_many(keys)
      rescue UndecodableValue => e
        found = e.partial || {}
      end
      gets_many(found.keys)
    rescue UndecodableValue
      nil
    end

    # Each client tells its own events.
    def tell
      [@old, @new].each { |client| client.send(:tell) }
    end

    def check_apart(old, new)
      raise UsageError, "the old client and the new one are the same" if old.equal?(new)

      shared = old.servers & new.servers
      return if shared.empty? || old.namespace != new.namespace

      raise UsageError, "both clients use #{shared.sort.join(", ")} with the same namespace, and would delete each " \
                        "other's keys: give the new client a namespace"
    end
  end
end
