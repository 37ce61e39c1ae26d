# frozen_string_literal: true

require "pinyon/migration"

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
  class MigratingClient
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
    def initialize(old, new, ttl: nil)
      check_apart(old, new)
      @old = old
      @new = new
      @ttl = ttl
      @counts = Native::MigrationCounts.new
    end

    # How many keys were found so far, and where. When +old+ no longer grows, you can switch off the old pool.
    #
    # @return [Progress]
    def progress
      Progress.new(*@counts.progress)
    end

    # The value of a key. If only the old pool has it, it is moved with its ttl.
    #
    # @see Client#get
    def get(key, default = nil)
      carry_out(:get, [key, default])
    end
    alias [] get

    # The values of many keys from both pools. Each call moves some of those that only the old pool has.
    #
    # @see Client#get_many
    def get_many(keys, failed: nil)
      carry_out(:get_many, [keys.to_a.uniq], failed:)
    end

    # The values and CAS tokens of many keys. Values that only the old pool has are moved first.
    #
    # @see Client#gets_many
    def gets_many(keys, failed: nil)
      carry_out(:gets_many, [keys.to_a.uniq], failed:)
    end

    # The value of a key and its CAS token. A value that only the old pool has is moved first.
    #
    # @see Client#gets
    def gets(key)
      carry_out(:gets, [key])
    end

    # The value of a key, and the seconds until it expires. A value that only the old pool has is moved first.
    #
    # @see Client#get_with_ttl
    def get_with_ttl(key)
      carry_out(:get_with_ttl, [key])
    end

    # Return the value of a key, and set its ttl. A value that only the old pool has is moved first.
    #
    # @see Client#gat
    def gat(key, ttl)
      carry_out(:gat, [key, ttl])
    end

    # Set the ttl of a key. A value that only the old pool has is moved first.
    #
    # @see Client#touch
    def touch(key, ttl)
      carry_out(:touch, [key, ttl])
    end

    # What the server knows about an item. A value that only the old pool has is moved first.
    #
    # @see Client#meta
    def meta(key)
      carry_out(:meta, [key])
    end

    # Whether a key has a value. A value that only the old pool has is moved first.
    #
    # @see Client#key?
    def key?(key)
      !meta(key).nil?
    end

    # The value of a key. No value is made while the old pool has one.
    #
    # @see Leases#fetch
    def fetch(key, ttl: nil, **terms, &block)
      carry_out(:fetch, [key], ttl:, **terms, &block)
    end

    # Read an item, and ask for the right to make a new value. A value that only the old pool has is moved first.
    #
    # @see Leases#lease
    def lease(key, **terms, &block)
      carry_out(:lease, [key], **terms, &block)
    end

    # Store a value in the new pool, and delete it in the old pool.
    #
    # @see Client#set
    def set(key, value, ttl: nil)
      carry_out(:set, [key, value], ttl:)
    end

    # Store a value with the default ttl of the new client.
    def []=(key, value)
      set(key, value)
    end

    # Store many values in the new pool, and delete them in the old pool.
    #
    # @return [Array] the keys that were not stored
    # @see Client#set_many
    def set_many(pairs, ttl: nil)
      carry_out(:set_many, [pairs.to_hash], ttl:)
    end

    # Store a value unless either pool has one.
    #
    # @return [Boolean] whether it was stored
    # @see Client#add
    def add(key, value, ttl: nil)
      carry_out(:add, [key, value], ttl:)
    end

    # Store a value if either pool has one.
    #
    # @return [Boolean] whether it was stored
    # @see Client#replace
    def replace(key, value, ttl: nil)
      carry_out(:replace, [key, value], ttl:)
    end

    # Add bytes to the end of a stored String. A value that only the old pool has is moved first.
    #
    # @see Client#append
    def append(key, value)
      carry_out(:append, [key, value])
    end

    # Add bytes to the beginning of a stored String. A value that only the old pool has is moved first.
    #
    # @see Client#prepend
    def prepend(key, value)
      carry_out(:prepend, [key, value])
    end

    # Store a value if the item still has this CAS token, which {#gets} of this client has returned.
    #
    # @see Client#cas
    def cas(key, value, cas, ttl: nil)
      carry_out(:cas, [key, value, cas], ttl:)
    end

    # Add to a stored integer. A value that only the old pool has is moved first.
    #
    # @see Client#incr
    def incr(key, delta = 1, initial: nil, ttl: nil)
      calculate(:incr, :incr_or_create, key, delta, initial, ttl)
    end

    # Subtract from a stored integer. A value that only the old pool has is moved first.
    #
    # @see Client#decr
    def decr(key, delta = 1, initial: nil, ttl: nil)
      calculate(:decr, :decr_or_create, key, delta, initial, ttl)
    end

    # Delete an item in both pools.
    #
    # @param stale [Numeric, nil] as for {Client#delete}. A value that only the old pool has is moved first
    # @return [Boolean] whether there was one
    def delete(key, stale: nil)
      return carry_out(:delete, [key]) unless stale

      carry_out(:delete, [key], plan: :mark_stale, stale:)
    end

    # Delete many items in both pools.
    #
    # @return [Integer] how many there were
    def delete_many(keys)
      carry_out(:delete_many, [keys.to_a.uniq])
    end

    # Forget all items of all servers of both pools.
    #
    # @see Client#flush_all
    def flush_all(delay = 0)
      @old.flush_all(delay)
      @new.flush_all(delay)
    end

    # The statistics of each server of both pools.
    #
    # @see Client#stats
    def stats(kind = nil)
      @old.stats(kind).merge(@new.stats(kind))
    end

    # The version of each server of both pools.
    #
    # @see Client#version
    def version
      @old.version.merge(@new.version)
    end

    # What happened on the connections to each server of both pools.
    #
    # @see Client#metrics
    def metrics
      @old.metrics.merge(@new.metrics)
    end

    # The servers of the new pool that may hold a key.
    #
    # @see Client#servers_of
    def servers_of(key)
      @new.servers_of(key)
    end

    # A view of this client with other rules for failures.
    #
    # @see Client#using
    # @return [MigratingClient]
    def using(**rules)
      view = dup
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

    def closed?
      @new.closed?
    end

    # The client, with both pools, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} from #{@old.inspect} to #{@new.inspect}>"
    end
    alias to_s inspect

    private

    # Carries out an operation. +plan+: its name in the core, where that is not the method's.
    def carry_out(method, arguments, plan: method, **settings, &block)
      Migration.new(@old, @new, method, arguments, settings).run(plan, @counts, @ttl, &block)
    end

    def calculate(method, create, key, delta, initial, ttl)
      return carry_out(method, [key, delta]) unless initial

      carry_out(method, [key, delta], plan: create, initial:, ttl:)
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
