# frozen_string_literal: true

module Pinyon
  module Compat
    class RedisEMMutex
      # Methods that one caller at a time may run, in all processes.
      #
      #   class Reports
      #     include Pinyon::Compat::RedisEMMutex::Macro
      #
      #     auto_mutex :build, expire: 60, block: 10, on_timeout: -> { :busy }
      #     def build; end
      #   end
      #
      # A method's lock is named after it, in the namespace of its class. A method that calls itself keeps the lock.
      module Macro
        def self.included(into)
          into.extend(ClassMethods)
        end

        # What a class gets.
        module ClassMethods
          # Guard methods: the named ones, or all that are defined from now on.
          #
          # @param methods [Array<Symbol>]
          # @param options [Hash] +expire+ and +block+ in seconds, +ns+, and +on_timeout+: a Proc or a method's name,
          #   whose value is returned if the lock could not be acquired in time
          def auto_mutex(*methods, **options)
            @auto_mutex = options if methods.empty?
            methods.each { |method| guard(method, options) }
          end

          # Guard no method that is defined from now on.
          def no_auto_mutex
            @auto_mutex = nil
          end

          # @api private
          def method_added(method)
            super
            guard(method, @auto_mutex) if @auto_mutex
          end

          private

          def guard(method, options)
            owner = self
            options = options.dup
            on_timeout = options.delete(:on_timeout)
            guards.define_method(method) do |*given, **named, &block|
              mutex = Macro.mutex(owner, method, options)
              next super(*given, **named, &block) if mutex.refresh

              Macro.guarded(mutex, Macro.fallback(self, on_timeout, given)) { super(*given, **named, &block) }
            end
          end

          def guards
            @guards ||= Module.new.tap { |guards| prepend(guards) }
          end
        end

        class << self
          # @api private
          def mutex(owner, method, options)
            ns = options[:ns] || [RedisEMMutex.ns, owner.name || owner.to_s].compact.join(":")
            RedisEMMutex.new(method, **options, ns:)
          end

          # @api private
          def guarded(mutex, fallback)
            return mutex.synchronize { yield } unless fallback # rubocop:disable Style/ExplicitBlockArgument
            return fallback.call unless mutex.lock

            begin
              yield
            ensure
              mutex.unlock
            end
          end

          # What is called if the lock could not be acquired in time.
          #
          # @api private
          def fallback(object, on_timeout, given)
            case on_timeout
            when nil then nil
            when Proc then -> { object.instance_exec(*given, &on_timeout) }
            else -> { object.send(on_timeout, *given) }
            end
          end
        end
      end
    end
  end
end
