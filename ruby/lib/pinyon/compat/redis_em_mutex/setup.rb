# frozen_string_literal: true

require "erb"

module Pinyon
  module Compat
    class RedisEMMutex
      # What concerns all mutexes of a process.
      module Setup
        # Seconds after which a lock expires unless it is refreshed.
        DEFAULT_EXPIRE = 86_400

        # What Redis::EM::Mutex needs and Pinyon does not: a reactor has one connection, and there is nothing to watch.
        WITHOUT_EFFECT = %i[size connection_pool_class redis_factory reconnect_max].freeze

        # The parts of an address.
        PARTS = %i[scheme host port password db path].freeze

        # The options, for the block of {#setup}.
        class Options < Hash
          def respond_to_missing?(name, _private = false)
            name.end_with?("=")
          end

          # Writes an option: <tt>options.expire = 60</tt>.
          def method_missing(name, *values)
            return super unless name.end_with?("=")

            self[name.to_s.chomp("=").to_sym] = values.first
          end
        end

        # @return [String, nil] the namespace of names
        attr_accessor :ns
        alias namespace ns
        alias namespace= ns=

        # Accepted, and without effect.
        attr_writer :reconnect_max_retries

        # Say where the locks are. An earlier setup's connections are closed.
        #
        # @param options [Hash] +url+, or +host+, +port+, +password+, +db+ or +path+; +expire+, +ns+, +handler+; further
        #   settings of {Pinyon::Locks}
        # @yieldparam options the same, with a writer for each: <tt>{ |o| o.expire = 60 }</tt>
        # @return [self]
        # @raise [UsageError] an option that Pinyon cannot take
        def setup(options = {}, **more)
          options = Options.new.update(options).update(more)
          yield options if block_given?
          self.default_expire = options.delete(:expire) || DEFAULT_EXPIRE
          self.ns = options.delete(:ns)
          @locks&.close
          @locks = Locks.new(url_of(options), **settings_of(options))
          self
        end

        # @return [Pinyon::Locks]
        # @raise [MutexError] nothing was set up
        def locks
          @locks or raise MutexError, "call #{self}.setup first"
        end

        # @return [Numeric] seconds after which a lock expires unless it is refreshed
        def default_expire
          @default_expire || DEFAULT_EXPIRE
        end

        # @param seconds [Numeric]
        # @raise [ArgumentError] not a positive number
        def default_expire=(seconds)
          raise ArgumentError, "expire is a positive number of seconds, not #{seconds.inspect}" unless seconds.positive?

          @default_expire = seconds
        end

        # @return [Symbol] the setting: +:auto+, +:script+ or +:pure+
        def handler
          @handler || :auto
        end

        # Whether it was set up.
        def ready?
          !@locks.nil?
        end

        # The same: there is nothing to start.
        def watching?
          ready?
        end

        # Accepted, and without effect.
        def start_watcher
          ready?
        end

        # Accepted, and without effect.
        def stop_watcher(_force = false)
          ready?
        end

        # Accepted, and without effect: the server wakes those whose turn it is.
        def wakeup_queue_all; end

        # Never: a lock that has expired is lost.
        def can_refresh_expired?
          false
        end

        # Begin the made up names anew.
        def reset_autoname
          @name = nil
        end

        # @raise [NotImplementedError]
        def sweep
          raise NotImplementedError, "keys of locks expire by themselves"
        end

        # @api private
        def next_name
          @name = @name ? @name.succ : "A"
          "__#{@name}.lock"
        end

        # What an owner has acquired, by names. A fiber keeps its own.
        #
        # @api private
        def owned(owner)
          return Thread.current[:pinyon_redis_em_mutex] ||= {} if owner.nil?

          (@owned ||= {})[owner] ||= {}
        end

        # @api private
        def forget(owner)
          @owned&.delete(owner)
        end

        # @api private
        def scheduler
          Fiber.current_scheduler || (EventMachine.current if defined?(EventMachine))
        end

        private

        def url_of(options)
          raise UsageError, "setup connects by itself: pass url: instead of redis:" if options.key?(:redis)

          parts = PARTS.to_h { |part| [part, options.delete(part)] }
          url = options.delete(:url)
          return url if url
          return "unix://#{parts[:path]}?db=#{parts[:db] || 0}" if parts[:path]

          password = ":#{ERB::Util.url_encode(parts[:password])}@" if parts[:password]
          "#{parts[:scheme] || "redis"}://#{password}#{parts[:host] || "127.0.0.1"}:#{parts[:port] || 6379}/" \
            "#{parts[:db] || 0}"
        end

        def settings_of(options)
          @handler = (options.delete(:handler) || ENV.fetch("REDIS_EM_MUTEX_HANDLER", "auto")).to_s.to_sym
          { **options.except(*WITHOUT_EFFECT), handler: @handler.to_s }
        end
      end
    end
  end
end
