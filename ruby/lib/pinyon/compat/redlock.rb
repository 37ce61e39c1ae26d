# frozen_string_literal: true

require "pinyon"

module Pinyon
  # The interfaces of other clients, on Pinyon's.
  module Compat
    # The interface of the gem redlock 2, for one server.
    #
    #   locks = Pinyon::Compat::Redlock::Client.new(["redis://127.0.0.1:6379"])
    #   locks.lock("report", 2000) { |lock_info| write_report if lock_info }
    #
    # Waiting callers queue on the server, instead of asking again after a delay. Programs that use redlock itself do
    # not see these locks.
    module Redlock
      # The lock could not be acquired.
      class LockError < StandardError
        # @param resource [String] what was to be locked
        def initialize(resource)
          super("failed to acquire lock on '#{resource}'")
        end
      end

      # The server failed while a lock was to be acquired.
      class LockAcquisitionError < LockError
        # @return [Array<Pinyon::Error>] the server's failures
        attr_reader :errors

        # @return [String] what failed
        attr_reader :message

        # @param message [String]
        # @param errors [Array<Pinyon::Error>]
        def initialize(message, errors)
          super("")
          @message = message
          @errors = errors
        end

        alias to_s message
      end

      # Locks that end with their ttl. A lock is a Hash with +:validity+ (milliseconds), +:resource+ and +:value+.
      class Client
        # The server, if none is given.
        DEFAULT_REDIS_URLS = ["redis://localhost:6379"].freeze
        # Seconds.
        DEFAULT_REDIS_TIMEOUT = 0.1
        # How often redlock asks again.
        DEFAULT_RETRY_COUNT = 3
        # Milliseconds between two questions.
        DEFAULT_RETRY_DELAY = 200
        # Milliseconds of chance in the delay.
        DEFAULT_RETRY_JITTER = 50
        # The part of a ttl by which two clocks may differ.
        CLOCK_DRIFT_FACTOR = 0.01
        ONLY_IF_LOCKED = %i[extend_only_if_locked extend_life extend_only_if_life].freeze
        private_constant :ONLY_IF_LOCKED

        # Servers are URLs. +retry_delay+ and +retry_jitter+ are milliseconds, +redis_timeout+ is seconds.
        #
        # @param servers [Array<String>] one URL
        # @raise [UsageError] several servers: locks on a majority of servers are not supported
        # @raise [UnsupportedType] a server that is no URL
        def initialize(servers = DEFAULT_REDIS_URLS, options = {})
          @options = { retry_count: DEFAULT_RETRY_COUNT, retry_delay: DEFAULT_RETRY_DELAY,
                       retry_jitter: DEFAULT_RETRY_JITTER }.merge(options)
          seconds = @options.fetch(:redis_timeout, DEFAULT_REDIS_TIMEOUT)
          @locks = Locks.new(url_of(servers), namespace: "redlock", connect_timeout: seconds, command_timeout: seconds)
          @held = {}
          @mutex = Mutex.new
        end

        # Acquire or extend a lock.
        #
        # @param resource [String]
        # @param ttl [Integer] milliseconds
        # @param options [Hash] +:extend+, a lock of this client to extend; +:extend_only_if_locked+, not to acquire it
        #   anew if it has ended (+:extend_life+ and +:extend_only_if_life+ are older names of it); +:retry_count+,
        #   +:retry_delay+ and +:retry_jitter+ for this call. A delay may be a Proc, which is called with the number of
        #   the attempt
        # @yieldparam lock_info [Hash, false] the lock, which is released after the block
        # @return [Hash, Boolean] the lock, or false; with a block, whether there was one
        # @raise [LockAcquisitionError] the server failed
        def lock(resource, ttl, options = {})
          got = []
          given = passes = 0 # As in Locks#lock.
          passed = false
          begin
            begin
              way = options[:extend] ? :extended : :acquired
              lock_info = send(way, resource, ttl, options, got)
              unless block_given?
                given = 1
                return lock_info
              end
              yield lock_info
              lock_info ? true : false
            ensure
              give_up(got, lock_info) if (passes += 1) > given
              passed = true
            end
          ensure
            give_up(got, lock_info) if !passed || passes > 1
          end
        end

        # Run a block under a lock.
        #
        # @return [Object] the block's value
        # @raise [LockError] the lock could not be acquired
        def lock!(resource, ttl, options = {})
          raise ArgumentError, "lock! takes a block" unless block_given?

          lock(resource, ttl, options) do |lock_info|
            raise LockError, resource unless lock_info

            return yield
          end
        end

        # Release a lock, also one that another process has acquired. If the server fails, the lock ends with its ttl.
        #
        # @param lock_info [Hash]
        def unlock(lock_info)
          held = @mutex.synchronize { @held.delete(lock_info[:value]) }
          held ? held.release : @locks.force_release(lock_info[:resource], token: Integer(lock_info[:value]))
          nil
        rescue Error
          nil
        end

        # Whether anyone holds a lock on the resource; false if the server fails.
        def locked?(resource)
          @locks.locked?(resource)
        rescue Error
          false
        end

        # Whether the lock is held still.
        def valid_lock?(lock_info)
          !get_remaining_ttl_for_lock(lock_info).nil?
        end

        # @return [Integer, nil] milliseconds; nil if the lock is not held any more, or the server fails
        def get_remaining_ttl_for_lock(lock_info)
          status, = @locks.status(lock_info[:resource])
          milliseconds(status.left) if status.token.to_s == lock_info[:value]
        rescue Error
          nil
        end

        # @return [Integer, nil] milliseconds; nil if the resource is not locked, or the server fails
        def get_remaining_ttl_for_resource(resource)
          status, = @locks.status(resource)
          milliseconds(status.left) if status.holder
        rescue Error
          nil
        end

        # Close the connection. Locks that are held end with their ttl.
        def close
          @locks.close
        end

        private

        def url_of(servers)
          unless servers.size == 1
            raise UsageError, "locks on a majority of #{servers.size} servers are not supported: give one server"
          end
          return servers.first if servers.first.is_a?(String)

          raise UnsupportedType, "a server is a URL such as \"redis://127.0.0.1:6379\", not #{servers.first.class}"
        end

        # Releases what was acquired, and otherwise what was extended. The first call releases, whatever interrupts the
        # others.
        def give_up(got, lock_info)
          got.each(&:release)
          unlock(lock_info) if lock_info && got.empty?
        rescue Error
          nil
        end

        # `got`: takes the lock, before an interrupt can come.
        def acquired(resource, ttl, options, got)
          ends = now + patience(options)
          attempts = 0
          begin
            timeout = [ends - now, 0].max
            got << @locks.lock(resource, ttl: ttl / 1000.0, timeout:, renew: false)
            keep(got.first, resource, ttl)
          rescue AlreadyHeld
            # The caller's own lock may end meanwhile.
            return false if now >= ends

            sleep([delay(options, attempts += 1), ends - now].min.clamp(0, nil))
            retry
          end
        rescue LockTimeout
          false
        rescue Timeout, ConnectError, ConnectionLost, ServerError => e
          raise LockAcquisitionError.new("the server failed while a lock was to be acquired: #{e.message}", [e])
        end

        def extended(resource, ttl, options, got)
          held = @mutex.synchronize { @held[options[:extend][:value]] }
          return info(held, resource, ttl) if held&.extend_to(ttl / 1000.0)

          ONLY_IF_LOCKED.any? { |name| options[name] } ? false : acquired(resource, ttl, { retry_count: 0 }, got)
        end

        def keep(held, resource, ttl)
          @mutex.synchronize do
            @held.delete_if { |_, other| !other.held? }
            @held[held.token.to_s] = held
          end
          info(held, resource, ttl)
        end

        def info(held, resource, ttl)
          drift = (ttl * CLOCK_DRIFT_FACTOR).to_i + 2
          { validity: milliseconds(held.remaining) - drift, resource:, value: held.token.to_s }
        end

        # How long to wait for a lock: as long as redlock would ask for it again.
        def patience(options)
          (1..setting(options, :retry_count)).sum { |attempt| delay(options, attempt) }
        end

        def delay(options, attempt)
          delay = setting(options, :retry_delay)
          delay = delay.call(attempt) if delay.respond_to?(:call)
          jitter = setting(options, :retry_jitter)
          (delay + (jitter.positive? ? rand(jitter) : 0)) / 1000.0
        end

        def setting(options, name)
          options.fetch(name) { @options[name] }
        end

        def milliseconds(seconds)
          (seconds * 1000).to_i
        end

        def now
          Process.clock_gettime(Process::CLOCK_MONOTONIC)
        end
      end
    end
  end
end
