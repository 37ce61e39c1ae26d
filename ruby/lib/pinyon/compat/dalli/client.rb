# frozen_string_literal: true

require "pinyon/compat/dalli/client/reading"
require "pinyon/compat/dalli/client/metadata"
require "pinyon/compat/dalli/client/storing"

module Pinyon
  module Compat
    module Dalli
      # A client with the methods, options and results of Dalli 5's. All threads, and all fibers of a scheduler, can
      # share it, and so can forked children. None of them waits for another.
      #
      # Keys may be of any class: their +to_s+ counts. A ttl is in seconds; without one, +expires_in+ counts.
      # +req_options+ is a Hash: +raw: true+ stores the +to_s+ of a value, and reads bytes as they are; +compress:+ and
      # +string_fastpath:+ are the client's options for one value.
      class Client
        include Reading
        include Metadata
        include Storing

        THIRTY_DAYS = 30 * 24 * 60 * 60
        KINDS_OF_STATISTICS = %i[items slabs settings].freeze
        private_constant :THIRTY_DAYS, :KINDS_OF_STATISTICS

        # @param servers [String, Array<String>, nil] +"host:port:weight"+, +"/path/of/socket"+, …; without any, the
        #   environment variable +MEMCACHE_SERVERS+, or else +127.0.0.1:11211+
        # @param options [Hash] Dalli's: +namespace+ (also a Proc), +namespace_separator+, +expires_in+, +failover+,
        #   +compress+, +compression_min_size+, +compressor+, +serializer+, +string_fastpath+, +raw+, +cache_nils+,
        #   +digest_class+, +value_max_bytes+, +socket_timeout+, +ssl_context+ (also +true+, or a Hash as Pinyon's
        #   +tls+). +pinyon+ is a Hash of further settings of {Pinyon::Client}. Other options have no effect
        # @raise [ArgumentError] an option or server that makes no sense
        def initialize(servers = nil, options = {})
          @options = options.dup
          @options[:expires_in] = whole(options[:expires_in]) if options[:expires_in]
          @keys = Keys.new(@options)
          @values = Values.new(@options)
          @servers = Settings.servers(servers)
          @opening = Mutex.new
          warn_of_options
          open_cache
        end

        # Send commands without waiting for each reply. Inside of the block, methods that store, delete, count or flush
        # return nil; others raise {NotPermittedMultiOpError}. Replies that are errors are dropped.
        #
        # @return [Object] the block's value
        # @raise [DalliError] no server could be reached
        def quiet(&block)
          open = Quiet.of(self)
          guarded { open ? yield.tap { open.settle } : Quiet.open(self, @cache || open_cache, &block) }
        end
        alias multi quiet

        # There is nothing to wait for: a quiet block ends when the outcome of each command is known.
        #
        # @return [nil]
        def drain_deferred_responses; end

        # Forget all items of all servers.
        #
        # @param delay [Integer] seconds until then
        # @return [Array] true for each server; nil for each in a quiet block
        # @raise [DalliError] a server failed
        def flush(delay = 0)
          done = change { |cache| cache.flush_all(delay) || true }
          ask(&:servers).map { done }
        end
        alias flush_all flush

        # The statistics of each server.
        #
        # @param type [:items, :slabs, :settings, nil]
        # @return [Hash{String => Hash, nil}] nil for a server that does not answer
        def stats(type = nil)
          kind = type.to_s if KINDS_OF_STATISTICS.include?(type)
          of_servers(:stats) { |cache, failed| cache.statistics(kind, failed) }
        end

        # Set the statistics of each server back to 0.
        #
        # @return [Array<true, nil>] nil for a server that does not answer
        def reset_stats
          answers = of_servers(:reset_stats) { |cache, failed| cache.statistics("reset", failed) }
          answers.values.map { |answer| answer && true }
        end

        # The version of each server.
        #
        # @return [Hash{String => String, nil}] nil for a server that does not answer
        def version
          of_servers(:version) { |cache, failed| cache.versions(failed) }
        end

        # Check that a server answers.
        #
        # @return [String] the name of one that does
        # @raise [RingError] none does
        def alive!
          version.find { |_, answered| answered }&.first or
            raise RingError, "no server answers: check that they run, and that they are #{@servers.join(", ")}"
        end

        # Close all connections. The next call opens new ones.
        #
        # @return [nil]
        def close
          cache = @cache
          @cache = nil
          cache&.close
        end
        alias reset close

        # The client itself, as a pool would yield it.
        #
        # @yieldparam client [Client]
        def with
          yield self
        end

        # @return [Boolean, nil] the option
        def cache_nils
          @options[:cache_nils]
        end

        # Whether {#fetch} takes this for a miss.
        def not_found?(value)
          cache_nils ? value.equal?(NOT_FOUND) : value.nil?
        end

        # The client, with its servers, for people.
        #
        # @return [String]
        def inspect
          "#<#{self.class} #{@cache&.inspect || "closed"}>"
        end

        private

        # Runs the block with the client below, which another thread may close meanwhile.
        def ask(&block)
          cache = @cache || open_cache
          guarded { block.call(cache) }
        rescue NetworkError => e
          retry if e.cause.is_a?(Closed) && e.sent == :no && !cache.equal?(@cache)
          raise
        end

        def guarded
          yield
        rescue Pinyon::Error => e
          raise DalliError.of(e)
        end

        def open_cache
          @opening.synchronize do
            @cache ||= Cache.new(*@servers, on_event: method(:report), **Settings.of(@options, @keys.namespace))
          end
        end

        def report(event)
          level = event.level == :warning ? :warn : event.level
          Dalli.logger.public_send(level, event.message)
        end

        # Runs a command that changes something. `silent` is its form in a quiet block, if it has one.
        def change(silent = nil, &block)
          quiet = Quiet.of(self)
          return ask(&block) if quiet.nil?

          guarded { silent ? quiet.submit(&silent) : quiet.between(&block) }
        end

        # Runs the block with a Hash for the errors of servers that fail.
        def tolerating
          failed = {}
          yield(failed).tap { failed.each_value { |error| Dalli.logger.debug { error.message } } }
        end

        # The answers of all servers by name, nil for those that failed.
        def of_servers(name)
          refuse_in_quiet(name)
          answered = tolerating { |failed| ask { |cache| yield cache, failed } }
          ask(&:servers).to_h { |server| [server, answered[server]] }
        end

        # A key for a command whose answer is needed.
        def only_aloud(name, key, options = nil)
          refuse_in_quiet(name)
          sent(key, options)
        end

        def refuse_in_quiet(name)
          return if Quiet.of(self).nil?

          raise NotPermittedMultiOpError, "#{name} needs its answer, and a quiet block waits for none: call it outside"
        end

        def sent(key, options = nil)
          token = options && %i[p_token l_token].find { |name| options[name] }
          raise ArgumentError, "#{token} is for proxies and not supported: leave it out" if token

          @keys.of(key)
        end

        # A ttl in seconds from now. Dalli takes what is larger than 30 days and lies ahead for a Unix time.
        def seconds(ttl)
          ttl = whole(ttl || @options[:expires_in])
          return ttl if ttl <= THIRTY_DAYS

          now = Time.now.to_i
          ttl > now ? ttl - now : ttl
        end

        def whole(number)
          number.to_i
        rescue NoMethodError
          raise ArgumentError, "#{number.inspect} is not a number"
        end

        def warn_of_options
          ignored = %i[protocol username password].select { |name| @options[name] }
          return if ignored.empty?

          Dalli.logger.warn("#{ignored.join(", ")} has no effect, as in Dalli 5. The protocol is text; to log in, " \
                            "pass pinyon: { username:, password: }")
        end
      end
    end
  end
end
