# frozen_string_literal: true

module Pinyon
  # The right to make a missing value, which the server gives to one caller: what a {Client} does with it.
  module Leases
    # How long one caller may take to make a missing value, in seconds.
    DEFAULT_LEASE = 10

    # The value of a key. If there is none, one caller makes it by the block, and all others wait for it: those in other
    # threads and fibers, in other processes, and on other machines.
    #
    #   page = cache.fetch("page:front", ttl: 60, stale: 30) { render_front_page }
    #
    # @param key [String, Symbol]
    # @param ttl [Numeric, nil] seconds for which the value is fresh; 0 never expires. By default the client's
    #   +default_ttl+
    # @param stale [Numeric] seconds after that in which callers still get the old value while one of them makes a new
    #   one
    # @param early [Numeric] seconds before the end of +ttl+ from which one caller makes a new value. All others still
    #   get the old one
    # @param lease [Numeric] seconds, rounded up to whole ones, for making a missing value. Then another caller tries. A
    #   value that is made later is returned, but not stored
    # @param wait [Numeric, nil] seconds to wait for a value that another caller makes. By default, twice +lease+ and 2
    #   seconds more, which is enough for the next caller if the first one dies
    # @yieldreturn [Object] the value, which can be nil. An error that the block raises is raised here, and in the
    #   callers of this process that wait. Then nothing is stored, and the next caller makes the value
    # @return [Object] the value
    # @raise [LeaseTimeout] another caller was still making the value after +wait+ seconds
    # @raise [Unsupported] the server is older than memcached 1.6.10
    def fetch(key, ttl: nil, stale: 0, early: 0, lease: DEFAULT_LEASE, wait: nil, &make)
      raise UsageError, "fetch makes a missing value by its block; use get to read without making one" unless make

      fetching = Native::Fetching.new(@native, key, [ttl, stale, early, lease, wait])
      fetching.run(make)
    ensure
      give_back_unused(fetching)
      tell if @on_event
    end

    # Read an item, and ask for the right to make a new value: the parts of {#fetch}, for use by hand.
    #
    #   cache.lease("report") do |lease|
    #     lease.fulfil(make_report, ttl: 60) if lease.won?
    #   end
    #
    # @param key [String, Symbol]
    # @param lease [Numeric] seconds for making a missing value. Then another caller can win
    # @param recache [Numeric] one caller also wins if the item expires within so many seconds; 0: never
    # @yieldparam lease [Lease] at the end of the block, a lease that was not fulfilled is given back
    # @return [Lease, Object] the lease, or what the block returns
    # @raise [Unsupported] the server is older than memcached 1.6.10
    def lease(key, lease: DEFAULT_LEASE, recache: 0)
      asked = Lease.new(self, @native, key)
      given = passes = 0 # As in Locks#lock.
      passed = false
      begin
        begin
          asked.ask(lease, recache)
          tell if @on_event
          unless block_given?
            given = 1
            return asked
          end
          yield asked
        ensure
          asked.leave if (passes += 1) > given
          passed = true
        end
      ensure
        asked.leave if !passed || passes > 1
      end
    end

    private

    # A caller that was stopped lets the next one make the value at once.
    def give_back_unused(fetching)
      fetching&.leave
    rescue Error
      nil # A server that fails ends the lease itself.
    end
  end

  # What {Client#lease} returns: a value, or the right to make one.
  class Lease
    # @return [String, Symbol] the key, as it was given
    attr_reader :key

    # What the lease was when it was asked for.
    #
    # @return [Symbol] +:hit+ (the value is fresh), +:stale+ (another caller makes a new one), +:won+ (this caller
    #   must make the value) or +:filling+ (there is no value yet; another caller makes it)
    def state
      @found[0]
    end

    # @api private
    def initialize(client, native, key)
      @client = client
      @native = native
      @key = key
      # The state, whether there is a value, the value, and what was won. It is there before the server is asked, so
      # that an interrupt cannot come between a lease and its holder.
      @found = []
      @process = Process.pid
    end

    # @api private
    def ask(lease, recache)
      @native.ask_lease(@key, lease, recache, @found)
    end

    # Gives it back, unless it was fulfilled or was won by a parent process.
    #
    # @api private
    def leave
      @native.leave_lease(@key, @found, @process)
    end

    # The value, or nil if there is none; see {#value?}. For a lease that was won, it is stale.
    #
    # @return [Object]
    def value
      @found[2]
    end

    # Whether there is a value, which can be nil.
    def value?
      @found[1]
    end

    # Whether the value is fresh.
    def hit?
      state == :hit
    end

    # Whether the value is stale, or expires soon, and another caller makes a new one.
    def stale?
      state == :stale
    end

    # Whether this caller must make the value, and call {#fulfil} or {#give_back}.
    def won?
      state == :won
    end

    # Whether there is no value yet, and another caller makes it.
    def filling?
      state == :filling
    end

    # Whether there is something to fulfil or to give back.
    def open?
      !@found[3].nil?
    end

    # Store the value.
    #
    # @param value [Object] as for {Client#set}
    # @param ttl [Numeric, nil] as for {Client#set}. Include the time for which the value may be stale
    # @return [Boolean] whether it was stored: false if the lease has expired, if another value was stored meanwhile, or
    #   if the item was deleted or marked stale
    # @raise [UsageError] the lease was not won
    def fulfil(value, ttl: nil)
      return false unless (token, = win)

      stored = @client.cas(@key, value, token, ttl:)
      @found[3] = nil
      stored == true
    end

    # Let the next caller win. A value that is there stays, marked stale.
    #
    # @return [Boolean] whether there was something to give back
    # @raise [UsageError] the lease was not won
    def give_back
      return false unless (given = win)

      given_back = @native.give_back(@key, *given)
      @found[3] = nil
      given_back
    end

    # The lease, with its key and state, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{@key.inspect} #{state}>"
    end

    private

    def win
      raise UsageError, "fulfil and give_back need a lease that was won; this one is #{state}" unless won?

      @found[3]
    end
  end
end
