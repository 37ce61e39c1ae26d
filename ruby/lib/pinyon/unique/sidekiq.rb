# frozen_string_literal: true

require "English"

module Pinyon
  module Unique
    # What makes jobs of Sidekiq unique: a middleware where they are pushed, and one where they run.
    module Sidekiq
      # What a message has of the job's lock.
      CLAIM = "pinyon_claim"
      # The name of the job's lock, in its message.
      NAME = "pinyon_name"
      MAX_RETRIES = 25
      private_constant :MAX_RETRIES

      # Adds the middleware to this process.
      #
      # @api private
      def self.install
        ::Sidekiq.configure_client { |config| config.client_middleware { |chain| chain.add(Pushing) } }
        ::Sidekiq.configure_server do |config|
          config.client_middleware { |chain| chain.add(Pushing) }
          config.server_middleware { |chain| chain.add(Running) }
        end
      end

      # The rules of a job's class, if it is unique.
      #
      # @api private
      def self.class_of(name)
        found = name.is_a?(Class) ? name : Object.const_get(name.to_s)
        found if found.respond_to?(:unique_by) && found.unique_by
      rescue NameError
        nil # A process may push jobs whose classes it does not have.
      end

      # Locks jobs that are pushed. Sidekiq pushes scheduled jobs and retries a second time when they are due.
      # @api private
      class Pushing
        def call(worker, job, _queue, _pool)
          kind = job.key?(CLAIM) ? nil : Sidekiq.class_of(worker)
          return yield unless kind&.unique_by&.from_enqueueing?

          claim(kind, job)
          yield
        rescue OneAtATime::Conflict => e
          ::Sidekiq.logger.info { "#{kind} is not pushed: #{e.message}" }
          false
        end

        private

        def claim(kind, job)
          name = kind.unique_name(*job["args"])
          delay = job["at"] ? [job["at"].to_f - Time.now.to_f, 0].max : 0
          job[CLAIM] = kind.unique_by.enqueue(name, delay)
          job[NAME] = name
        end
      end

      # Locks jobs while they run. What is left of a job that fails stays locked until its retry: Sidekiq repeats the
      # message as it was, so a new claim is kept beside it.
      # @api private
      class Running
        def call(worker, job, _queue, &block)
          kind = Sidekiq.class_of(worker.class)
          return yield unless kind

          run_alone(kind.unique_by, job, job[NAME] || kind.unique_name(*job["args"]), &block)
        end

        private

        def run_alone(rules, job, name)
          run = rules.begin(name, job["jid"], kept(rules, job) || job[CLAIM])
          failed = true
          result = yield
          failed = false
          result
        rescue OneAtATime::Later => e
          ::Sidekiq.logger.info { "#{job["class"]} is put back into the queue: #{e.message}" }
          ::Sidekiq::Client.push(job.merge("at" => Time.now.to_f + rules.terms[:retry_in]))
        rescue OneAtATime::Conflict => e
          ::Sidekiq.logger.info { "#{job["class"]} does not run: #{e.message}" }
        ensure
          keep(rules, job, run) if run && failed && again?(job)
          run&.end(failed:)
        end

        # Whether Sidekiq runs a job again that has failed, or that a shutdown has ended.
        def again?(job)
          return true if $ERROR_INFO.is_a?(::Sidekiq::Shutdown)

          most = job.fetch("retry", true)
          most = MAX_RETRIES if most == true
          count = job["retry_count"] ? job["retry_count"] + 1 : 0
          most && count < most
        end

        def keep(rules, job, run)
          return unless rules.from_enqueueing?

          ttl = rules.terms[:queue_ttl]
          claim = run.hand_on(ttl)
          rules.locks.execute("SET", place(rules, job), claim, "PX", (ttl * 1000).ceil)
        rescue LockLost
          nil # Then the job locks by its name when it runs again.
        end

        def kept(rules, job)
          return unless rules.from_enqueueing?

          claim = rules.locks.execute("GET", place(rules, job))
          rules.locks.execute("DEL", place(rules, job)) if claim
          claim
        end

        def place(rules, job)
          "#{rules.locks.prefix}claim:#{job["jid"]}"
        end
      end
    end
  end
end
