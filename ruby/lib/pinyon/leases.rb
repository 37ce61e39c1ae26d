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
    # If the block fails while there is an old value, that can stay in use:
    #
    #   page = cache.fetch("page:front", ttl: 60, stale: 3600, on_error: :stale) { render_front_page }
    #
    # @param key [String, Symbol]
    # @param ttl [Numeric, Proc, nil] seconds for which the value is fresh; 0 never expires. Or a Proc that is called
    #   with the value and returns its ttl. By default the client's +default_ttl+
    # @param terms [Hash] further settings:
    # @option terms [Numeric] :stale seconds after +ttl+ in which callers still get the old value while one of them
    #   makes a new one; 0 by default
    # @option terms [Numeric] :early seconds before the end of +ttl+ from which one caller makes a new value. All others
    #   still get the old one; 0 by default
    # @option terms [Numeric] :lease seconds, rounded up to whole ones, for making a missing value. Then another caller
    #   tries. A value that is made later is returned, but not stored; 10 by default
    # @option terms [Numeric, nil] :wait seconds to wait for a value that another caller makes. By default, twice
    #   +lease+ and 2 seconds more, which is enough for the next caller if the first one dies
    # @option terms [Float] :jitter the share of +ttl+ that may be taken off at random, such as 0.1: values that were
    #   stored together do not expire together; 0 by default
    # @option terms [Symbol] :on_error what a caller gets if the block fails while there is an old value: the error
    #   (+:raise+, the default), or the old value (+:stale+)
    # @option terms [Numeric] :retry_after seconds for which the old value is then used before the next caller tries
    #   again; 5 by default
    # @option terms [Numeric, nil] :soft_timeout seconds to wait for the block while there is an old value. Then the
    #   caller gets the old value, and the block goes on behind it. By default, to its end
    # @option terms [Symbol] :refresh whether the caller waits for the block while there is an old value (+:wait+, the
    #   default), or gets the old value at once (+:behind+), as with a +soft_timeout+ of 0
    # @option terms [Array<String, Symbol>, String, Symbol, nil] :tags the tags of the value, such as "user:7", by which
    #   {Client#invalidate_tags} finds it; none by default
    # @param executor [#post, nil] what carries the block on behind a thread: a +Concurrent::ThreadPoolExecutor+.
    #   +soft_timeout+ and +refresh+ need one in threads. Fibers with a scheduler need none
    # @yieldreturn [Object, Made] the value, which can be nil, or a {Made} with it. An error that the block raises is
    #   raised here, and in the callers of this process that wait. Then nothing is stored, and the next caller makes the
    #   value
    # @return [Object] the value
    # @raise [LeaseTimeout] another caller was still making the value after +wait+ seconds
    # @raise [Unsupported] the server is older than memcached 1.6.10
    def fetch(key, ttl: nil, executor: nil, **terms, &make)
      raise UsageError, "fetch makes a missing value by its block; use get to read without making one" unless make

      fetching = Native::Fetching.new(@native, key, ttl, executor, terms)
      fetching.run(make, self)
    ensure
      give_back_unused(fetching)
      tell if @on_event
    end

    # Make a value by the block, whatever is stored, and store it in its place. {Cached#refresh} is for programs.
    #
    # @api private
    def make_anew(key, ttl: nil, executor: nil, **terms, &make)
      fetching = Native::Fetching.new(@native, key, ttl, executor, terms)
      fetching.run_anew(make, self)
    ensure
      give_back_unused(fetching)
      tell if @on_event
    end

    # The values of many keys. Those that are missing or due are made by the block in one call, each by one caller: this
    # one, or another one that this one then waits for.
    #
    #   products = cache.fetch_many(ids.map { |id| "product:#{id}" }, ttl: 60, stale: 30) do |keys|
    #     Product.where(key: keys).to_h { |product| [product.key, product.attributes] }
    #   end
    #
    # @param keys [Array<String, Symbol>]
    # @param failed [Hash, nil] accepts partial results: it receives the error of each key that failed, and nothing is
    #   raised for them
    # @param ttl [Numeric, Proc, nil] as for {#fetch}, for each value
    # @param terms [Hash] further settings of {#fetch}
    # @yieldparam keys [Array] the keys whose values this caller must make, as they were given
    # @yieldreturn [Hash, Array] values, or a {Made} with each, by key; or pairs of both. A key that is left out is
    #   missing in the result; nothing is stored, and the next caller makes it. An error that the block raises is raised
    #   here, and the next callers make the values; with <tt>on_error: :stale</tt>, old values stay in use
    # @return [Hash] values by key
    # @raise [LeaseTimeout] another caller was still making a value after +wait+ seconds
    # @raise [Error] a value could not be had. The first error of a key is raised when all others have ended; its
    #   {Error#partial} has the values of those
    # @raise [Unsupported] a server is older than memcached 1.6.10
    def fetch_many(keys, ttl: nil, failed: nil, **terms, &make)
      raise UsageError, "fetch_many makes missing values by its block; get_many reads without making any" unless make

      fetching = Native::FetchingMany.new(@native, many(keys), ttl, terms)
      fetching.run(make, failed)
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

    # Has a block carried on that may outlast its caller. +aside+: whether the caller goes first.
    def begin_behind(fetching, make, scheduler, executor, aside)
      carry = proc do
        fetching.step_aside if aside && scheduler
        carry_out(fetching, make)
      end
      return scheduler.fiber(&carry) if scheduler

      raise UsageError, "the executor takes no more work" if executor.post(&carry) == false
    end

    def carry_out(fetching, make)
      begin
        made = make.call
      rescue StandardError, ScriptError => e
        return fetching.failed(e)
      end
      fetching.made(made)
    ensure
      fetching.ended
      tell if @on_event
    end

    # A caller that was stopped lets the next one make the value at once.
    def give_back_unused(fetching)
      fetching&.leave
    rescue Error
      nil # A server that fails ends the lease itself.
    end
  end

  # A value that was made for {Client#fetch}, and how long to keep it: what the block may return.
  #
  #   cache.fetch("product:7", ttl: 60) { find_product || Pinyon::Made.new(nil, ttl: 5) }
  class Made
    # @return [Object] the value
    attr_reader :value
    # @return [Numeric, nil] seconds for which this value is fresh
    attr_reader :ttl
    # @return [Numeric, nil] seconds after that in which it is still used
    attr_reader :stale
    # @return [Boolean] whether it is stored
    attr_reader :store

    # @param value [Object] the value
    # @param ttl [Numeric, nil] seconds for which this value is fresh; 0 never expires. By default as the call says
    # @param stale [Numeric, nil] seconds after that in which it is still used while one caller makes a new one, at most
    #   as long as the call says. By default as the call says
    # @param store [Boolean] whether to store it. Without it, the callers that wait get this value, and the next caller
    #   makes another one
    def initialize(value, ttl: nil, stale: nil, store: true)
      @value = value
      @ttl = ttl
      @stale = stale
      @store = store
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
