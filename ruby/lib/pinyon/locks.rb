# frozen_string_literal: true

require "pinyon/listening"
require "pinyon/held"
require "pinyon/leader"
require "pinyon/permits"
require "pinyon/rate"
require "pinyon/sharing"

module Pinyon
  # Locks that programs share on one Redis or Valkey server. All threads and fibers of a process can share a client; a
  # forked child makes connections of its own, and does not hold its parent's locks. In a fiber with a scheduler, other
  # fibers run while one waits.
  #
  #   locks = Pinyon::Locks.new("redis://127.0.0.1:6379/0")
  #   locks.synchronize("report") do |held|
  #     write(report, token: held.token)
  #   end
  #
  # A lock has one name or several; several are acquired together or not at all. It writes its names: it has them alone.
  # With +read:+ it has further names together with others that read them, and with +permits:+ some permits of pools.
  class Locks
    include Sharing

    # The clients that may hold locks when the program ends.
    CLIENTS = ObjectSpace::WeakMap.new
    private_constant :CLIENTS
    at_exit { CLIENTS.each_key(&:release_at_exit) }

    # The state of one name.
    #
    # @!attribute name [String, Symbol]
    # @!attribute holder [String, nil] the attempt that holds it; nil if it is free
    # @!attribute token [Integer, nil] the holder's token
    # @!attribute left [Float, nil] the seconds until it ends if it is not renewed
    # @!attribute waiting [Array<String>] the attempts that wait for it, in order
    # @!attribute age [Float, nil] the seconds since it was acquired
    # @!attribute readers [Array<String>] the attempts that read it, all of them; empty if it is written
    # @!attribute owners [Hash{String => Owner}] who each of these attempts is
    Status = Struct.new(:name, :holder, :token, :left, :waiting, :age, :readers, :owners) do
      # @return [String, nil] the short name of the holder's host
      def host = owners[holder]&.host

      # @return [Integer, nil] the holder's process there
      def pid = owners[holder]&.pid

      # @return [String, nil] what the holder's client is called
      def label = owners[holder]&.label

      # @return [String, nil] what the holder says about its lock
      def note = owners[holder]&.note
    end

    # Who has a lock or waits for it.
    #
    # @!attribute host [String, nil] the short name of its host
    # @!attribute pid [Integer, nil] its process there; nil if another program has written the value of the name
    # @!attribute label [String, nil] what its client is called, by the setting +label+
    # @!attribute note [String, nil] what it says about its lock, by the argument +note:+
    Owner = Struct.new(:host, :pid, :label, :note)

    # @param url [String, Array<String>] +redis://user:password@host:port/database+, where only the host is needed;
    #   +rediss://…+ with TLS, +unix:///path?db=database+, +redis+cluster://host,host,host+, or
    #   +redis+sentinel://host,host,host/service/database+. Several URLs are independent servers; a majority of
    #   them holds each lock.
    # @param on_event [#call, nil] called with a {Client::Event} when the server or a Sentinel is down or up again, when
    #   another server takes over as the primary, and so on, in a thread of Pinyon
    # @param settings [Hash] further settings, by the names that they have in every language: +namespace+, +ttl+,
    #   +timeout+, +reentrant+, +handler+, +fairness+, +command_timeout+, +connect_timeout+, +tls+ …
    # @raise [UsageError] a setting does not exist (the message names the closest one), or its value makes no sense
    def initialize(url = nil, on_event: nil, **settings)
      settings[:url] = url if url
      @functions = Asking.functions_in(settings)
      @native = Native::Locks.new(settings)
      @on_event = on_event
      CLIENTS[self] = true if Ractor.current == Ractor.main
      listen
    end

    # Report an event of the servers.
    #
    # @api private
    def tell(event)
      @on_event.call(event)
    end

    # What happened to the locks of this client, in this process.
    #
    # @return [Hash{Symbol => Object}] +:acquired+, +:queued+ (had to wait), +:busy+ (were taken, and not waited for),
    #   +:released+, +:lost+ (by reason), +:errors+ (by kind), +:renewals+, +:renewals_refused+, +:connects+,
    #   +:disconnects+, +:switches+ (of the primary), +:proceeded+ (holders, without their lock), +:rates_allowed+ and
    #   +:rates_refused+ (checks of rates that took their permits, or did not), and of the time to acquire +:seconds+
    #   (in all), +:mean+, +:percentiles+ and +:buckets+, as in {Client#metrics}
    def metrics
      @native.metrics
    end

    # Hold a lock for a block.
    #
    # @param names [Array<String, Symbol>] the names that it has alone
    # @param read [Array<String, Symbol>, String, Symbol, nil] names that it has together with others that read them.
    #   Who waits to write one of them keeps back those who ask to read it later
    # @param permits [Hash{String, Symbol => Integer, Array<Integer>}, nil] how many permits of which pools:
    #   <tt>{ "stripe" => 2 }</tt>, or <tt>{ "stripe" => [2, 10] }</tt> with the pool's limit. Without it, the limit is
    #   the one that {#permits} was given last
    # @param ttl [Numeric, nil] seconds for which the lock outlives a holder that has died
    # @param timeout [Numeric, nil] seconds to wait for it; 0 does not wait, +Float::INFINITY+ waits for ever
    # @param renew [Boolean] whether to renew it while the block runs
    # @param max_hold [Numeric, nil] seconds after which it is not renewed any more
    # @param reentrant [Boolean, nil] whether this thread or fiber may acquire again what it holds
    # @param on_lost [#call, nil] called with the {Held} if the lock is lost
    # @param at_least [Numeric, nil] seconds from its acquisition for which the names stay locked, even if it is
    #   released earlier; if its holder dies, the ttl decides
    # @param on_failure [Symbol, nil] +:proceed+ runs the block without the lock while the servers are away, and goes on
    #   if the lock is lost because of them, for work that may run twice: {Held#certain?} tells. +:raise+ raises the
    #   error
    # @param note [String, nil] what the lock is for, up to 200 bytes, for people who look who holds it or waits
    # @yieldparam held [Held]
    # @return [Object] the block's value
    # @raise [LockTimeout] others held it for all this time; the message names the holder
    # @raise [LockLost] it was lost before the block ended
    def synchronize(*names, read: nil, permits: nil, ttl: nil, timeout: nil, renew: true, max_hold: nil, reentrant: nil,
                    on_lost: nil, at_least: nil, on_failure: nil, note: nil)
      held = ask(names, [ttl, timeout, renew, max_hold, reentrant], on_lost, at_least, read, permits, on_failure, note)
      failed = true
      begin
        held.native.acquire(true)
        result = yield held
        failed = false
        result
      ensure
        held.leave(failed)
      end
    end

    # Run a block once per period on all machines. The first caller in a period runs it. If the block raises an error,
    # or is left before its end, the names are free at once, and if its process dies, after the ttl: then another caller
    # runs it.
    #
    # A period begins when the block begins, whatever the clocks of the machines say. So let +per+ be a little shorter
    # than the interval at which the job is started.
    #
    #   locks.once("nightly", per: 82_800) { report }
    #
    # @param names [Array<String, Symbol>] one name or several
    # @param per [Numeric] seconds in which the block runs once
    # @param ttl [Numeric, nil] seconds after which others may run it if its process has died; while it runs, the lock
    #   is renewed
    # @param on_lost [#call, nil] called with the {Held} if the lock is lost
    # @yieldparam held [Held]
    # @return [Object, nil] the block's value; nil if another caller has run it
    # @raise [LockLost] the lock was lost before the block ended
    def once(*names, per:, ttl: nil, on_lost: nil)
      raise UsageError, "once takes a block, which it runs" unless block_given?

      held = ask(names, [ttl, nil, true, nil, false], on_lost, per)
      failed = true
      begin
        if held.native.acquire(false)
          result = yield held
          failed = false
          result
        end
      ensure
        held.leave_early(failed)
      end
    end

    # A candidate for the leadership of a name, in a thread of its own, or in a fiber of the calling fiber's scheduler.
    # At most one candidate of all processes leads. With a block, it is a candidate while the block runs.
    #
    #   locks.leader("scheduler", on_elected: ->(token) { schedule(token) }) { serve }
    #
    # It leads until it resigns, stops, ends or loses the lock on the name. If its process dies, another one leads after
    # +ttl+. A callback that raises an error makes it resign.
    #
    # @param name [String, Symbol]
    # @param on_elected [#call, nil] called with the fencing token when it leads from now on. One that works for long
    #   must ask {Leader#leader?}: it is not ended from outside
    # @param on_lost [#call, nil] called with the same token when the leadership has ended, for whatever reason, after
    #   +on_elected+ has returned. A lock that is not lost is released afterwards, so the next leader begins later
    # @param ttl [Numeric, nil] seconds after which another one leads if the leader's process has died
    # @yieldparam leader [Leader] it is stopped at the end of the block
    # @return [Leader, Object] the candidate, which {Leader#start} begins; with a block, the block's value
    # @raise [UsageError] an argument makes no sense
    def leader(name, on_elected: nil, on_lost: nil, ttl: nil, &block)
      leader = Leader.new(self, @native, name, on_elected, on_lost, ttl)
      block ? leader.during(&block) : leader
    end

    # Take over a lock that another process, in any language, has handed over by {Held#hand_over}. With a block, hold it
    # for the block, as {#synchronize} does. Otherwise release it by {Held#release}.
    #
    # @param ticket [String] what +hand_over+ returned there; it works once
    # @param ttl [Numeric, nil] seconds for which the lock outlives a holder that has died
    # @param timeout [Numeric, nil] seconds that the server may take, with a new connection if needed
    # @param renew [Boolean] whether to renew it
    # @param max_hold [Numeric, nil] seconds after which it is not renewed any more
    # @param on_lost [#call, nil] called with the {Held} if the lock is lost
    # @param note [String, nil] as for {#synchronize}; nil for that of the lock that was handed over
    # @yieldparam held [Held]
    # @return [Held, Object] the lock; with a block, the block's value
    # @raise [LockLost] the ticket was used before, or the lock has ended
    # @raise [UsageError] this is no ticket, or one of another namespace
    def adopt(ticket, ttl: nil, timeout: nil, renew: true, max_hold: nil, on_lost: nil, note: nil, &block)
      listen
      terms = [ttl, timeout, renew, max_hold, nil]
      terms.push(nil, nil, note) if note
      names, native = @native.adopt(ticket, terms)
      held = prepared(names, native, on_lost)
      return hold(held, &block) if block

      acquired = false
      begin
        acquired = held.native.acquire(true)
        held
      ensure
        held.abandon unless acquired
      end
    end

    # Release everything that the threads of this process hold through this client, or the fibers of the calling fiber's
    # scheduler. The holders have lost their locks: +on_lost+ is called, and blocks raise {LockLost} at their end.
    # Releases that are not answered in time go on in the background.
    #
    # @param timeout [Numeric, nil] seconds to wait for the answers; nil for +command_timeout+
    # @return [Integer] how many locks were released
    def release_all(timeout = nil)
      @native.release_all(timeout)
    end

    # Acquire a lock, to be released by {Held#release}. If an interrupt ends this method, such as +Timeout+ or
    # +Thread#raise+, the lock is not held.
    #
    # @return [Held]
    # @raise [LockTimeout] others held it for all this time; the message names the holder
    # @raise [UsageError] it was given a block, which it would not run
    # @see #synchronize
    def lock(*names, read: nil, permits: nil, ttl: nil, timeout: nil, renew: true, max_hold: nil, reentrant: nil,
             on_lost: nil, at_least: nil, on_failure: nil, note: nil)
      refuse_block(:lock) if block_given?
      held = ask(names, [ttl, timeout, renew, max_hold, reentrant], on_lost, at_least, read, permits, on_failure, note)
      # An interrupt may come at each condition, and at the end of the method. At a condition within an `ensure`, the
      # outer one runs; once the `return` has run an `ensure`, the inner one runs again. Then the caller gets no lock,
      # although it was given one. Between the lock and the `return` there is no condition.
      given = passes = 0
      passed = false
      begin
        begin
          if held.native.acquire(true)
            given = 1
            return held
          end
          nil
        ensure
          held.abandon if (passes += 1) > given
          passed = true
        end
      ensure
        held.abandon if !passed || passes > 1
      end
    end

    # Acquire a lock if it is free now.
    #
    # @return [Held, nil] nil if it is taken
    # @raise [UsageError] it was given a block, which it would not run
    # @see #synchronize
    def try_lock(*names, read: nil, permits: nil, ttl: nil, renew: true, max_hold: nil, reentrant: nil,
                 on_lost: nil, at_least: nil, on_failure: nil, note: nil)
      refuse_block(:try_lock) if block_given?
      held = ask(names, [ttl, nil, renew, max_hold, reentrant], on_lost, at_least, read, permits, on_failure, note)
      given = passes = 0 # As in `lock`.
      passed = false
      begin
        begin
          if held.native.acquire(false)
            given = 1
            return held
          end
          nil
        ensure
          held.abandon if (passes += 1) > given
          passed = true
        end
      ensure
        held.abandon if !passed || passes > 1
      end
    end

    # Read names for a block: have them together with others that read them, while nobody writes them.
    #
    #   locks.read("catalog") { show(catalog) }
    #
    # @param names [Array<String, Symbol>] one name or several
    # @yieldparam held [Held]
    # @return [Object] the block's value
    # @raise [UsageError] it was given no block
    # @see #synchronize
    def read(*names, **terms, &block)
      need_block(:read, "lock(read: [...])") unless block
      synchronize(read: names, **terms, &block)
    end

    # Write names for a block: have them alone. This is {#synchronize} by the word that goes with {#read}.
    #
    # @param names [Array<String, Symbol>] one name or several
    # @yieldparam held [Held]
    # @return [Object] the block's value
    # @raise [UsageError] it was given no block
    # @see #synchronize
    def write(*names, **terms, &block)
      need_block(:write, "lock") unless block
      synchronize(*names, **terms, &block)
    end

    # Have permits of a pool for a block, or make an object that has them for each of its blocks. At most +limit+
    # permits are held at the same time, by all programs that share the server. Who comes first goes first.
    #
    #   locks.permits("stripe", limit: 10) { charge(card) }
    #
    #   stripe = locks.permits("stripe", limit: 10, n: 2)
    #   stripe.available # => 10
    #   stripe.synchronize { charge(card) }
    #
    # {#lock} and {#try_lock} acquire them without a block, as in <tt>lock(permits: { "stripe" => 2 })</tt>.
    #
    # @param pool [String, Symbol] its name, which is no name of a lock
    # @param limit [Integer] how many permits there are, up to 1,000,000. The limit that was given last counts for all
    # @param n [Integer] how many permits to hold, up to 1,000
    # @param terms [Hash] further arguments of {#synchronize}: +ttl+, +timeout+, +on_lost+ …
    # @yieldparam held [Held]
    # @return [Object, Permits] the block's value; without a block, the permits
    # @see #synchronize
    def permits(pool, limit:, n: 1, **terms, &block)
      permits = Permits.new(self, @native, pool, limit, n, terms)
      block ? permits.synchronize(&block) : permits
    end

    # The state of names.
    #
    # @return [Array<Status>] in the order of the names
    def status(*names)
      names.zip(@native.inspect_names(names, :each)).map do |name, (*fields, owners)|
        Status.new(name, *fields, owners.to_h { |attempt, *who| [attempt, Owner.new(*who)] })
      end
    end

    # Whether any of the names is locked.
    def locked?(*names)
      @native.inspect_names(names, :is_locked)
    end

    # The attempt that holds the first of the names that is held.
    #
    # @return [String, nil]
    def owner(*names)
      @native.inspect_names(names, :first_owner)
    end

    # How many wait for any of the names.
    #
    # @return [Integer]
    def waiting(*names)
      @native.inspect_names(names, :waiting)
    end

    # Take names away from their holders, who learn of it.
    #
    # @param token [Integer, nil] only from the holder with this token
    # @return [Integer] how many were held
    def force_release(*names, token: nil)
      @native.force_release(names, token)
    end

    # A rate: how many permits a name gives in a time. It gives one every +per+ / +limit+ seconds. If none was taken for
    # a while, it gives up to +burst+ at once.
    #
    #   locks.rate("api:7", limit: 100, per: 60, burst: 20).allow? # => true
    #
    # @param name [String, Symbol] locks of the same name are something else
    # @param limit [Integer] how many permits it gives in +per+ seconds
    # @param per [Numeric] seconds
    # @param burst [Integer, nil] how many permits it gives at once; nil is +limit+
    # @return [Rate]
    # @raise [UsageError] a number makes no sense
    def rate(name, limit:, per:, burst: nil)
      Rate.new(@native.rate(name, limit, per, burst), name, limit, per)
    end

    # Send a command on the connection of the locks.
    #
    #   locks.execute("INCR", "visits") # => 1
    #
    # @param parts [Array<String, Symbol, Integer, Float>]
    # @return [Object] what the server answers
    # @raise [ServerError] the server answered with an error
    def execute(*parts)
      @native.execute(parts)
    end

    # The server, as +host:port+ or a path.
    #
    # @return [String]
    def server
      @native.server
    end

    # The beginning of all keys of the namespace on the server.
    #
    # @return [String] in binary encoding
    def prefix
      @native.prefix
    end

    # What decides on which node of a cluster a lock is kept.
    #
    # @return [Symbol] +:namespace+ or +:names+
    def hash_tags
      @native.hash_tags
    end

    # Close the connections. Attempts that wait fail. Held locks are lost, and end on the server with their ttl.
    #
    # @param release [Boolean] whether to release all held locks first, as {#release_all} does
    # @return [nil]
    def close(release: false)
      release_all if release && !closed?
      @native.close
      Leader.wake_all(self)
      nil
    end

    # Release what threads hold, at the end of the program.
    #
    # @api private
    def release_at_exit
      Leader.stop_all(self)
      @native.release_at_exit
    rescue Error
      0 # The locks end with their ttl.
    end

    def closed?
      @native.closed?
    end

    # The client, with its server, for people.
    #
    # @return [String]
    def inspect
      "#<#{self.class} #{server}#{" closed" if closed?}>"
    end
    alias to_s inspect

    private

    def refuse_block(method)
      raise UsageError, "#{method} returns the lock, and runs no block; use synchronize"
    end

    def need_block(method, other)
      raise UsageError, "#{method} runs a block; #{other} returns the lock"
    end

    # Has events reported here, in this process.
    def listen
      Listening.to_events(self, @native) if @on_event
    end

    # What holds the names once it has acquired them. It exists before, so that an interrupt cannot come between a lock
    # and its holder.
    def ask(names, terms, on_lost, at_least = nil, read = nil, permits = nil, on_failure = nil, note = nil)
      listen
      terms.push(at_least, on_failure, note) if at_least || on_failure || note
      if read || permits
        shared = [Array(read), permits || {}]
        return prepared(names + shared.first, @native.ask(names, shared, terms), on_lost)
      end
      held = Held.new(names, @native.ask(names, nil, terms))
      held.on_lost { |lost| on_lost.call(lost) } if on_lost
      held
    end

    def prepared(names, native, on_lost)
      held = Held.new(names, native)
      held.on_lost { |lost| on_lost.call(lost) } if on_lost
      held
    end

    # Acquires what is prepared, and holds it for a block.
    def hold(held)
      failed = true
      begin
        held.native.acquire(true)
        result = yield held
        failed = false
        result
      ensure
        held.leave(failed)
      end
    end
  end
end
