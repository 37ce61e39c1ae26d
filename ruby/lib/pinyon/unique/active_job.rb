# frozen_string_literal: true

module Pinyon
  module Unique
    # What a job of ActiveJob does to be unique. Its lock travels with what is serialized.
    module ActiveJob
      CLAIM = "pinyon_claim"
      NAME = "pinyon_name"
      private_constant :CLAIM, :NAME

      # @api private
      def self.included(base)
        base.around_enqueue { |job, block| job.enqueue_alone(&block) }
      end

      # What the job holds while it runs, with its fencing token.
      #
      # @return [Held, nil] nil while it does not run
      def unique_lock
        @unique_run&.held
      end

      # @api private
      def serialize
        return super unless @unique_claim

        super.merge(CLAIM => @unique_claim, NAME => @unique_name)
      end

      # @api private
      def deserialize(data)
        super
        @unique_claim = data[CLAIM]
        @unique_name = data[NAME]
      end

      # Run the job, unless it is skipped.
      #
      # @return [Object, nil] what +perform+ returns
      def perform_now
        return super unless self.class.unique_by

        begin
          @unique_begun = true
          run_alone { super }
        ensure
          @unique_begun = false
        end
      end

      # @api private
      def enqueue_alone(&block)
        rules = self.class.unique_by
        return yield unless rules

        @unique_claim = claim_of(rules)
        send_claimed(rules, &block)
      rescue OneAtATime::Conflict => e
        logger&.info { "#{self.class} is not enqueued: #{e.message}" }
      end

      private

      # A job that runs enqueues itself again: as a retry, which keeps its lock, or before it has begun, with the claim
      # that it came with.
      def claim_of(rules)
        delay = [scheduled_at.to_f - Time.now.to_f, 0].max
        return rules.enqueue(lock_name, delay) unless @unique_begun
        return @unique_claim unless @unique_run

        @unique_run.hand_on(rules.terms[:queue_ttl] + delay) if rules.from_enqueueing?
      end

      def send_claimed(rules)
        sent = false
        yield
        sent = !respond_to?(:enqueue_error) || enqueue_error.nil?
      ensure
        rules.give_up(@unique_claim) if @unique_claim && !sent
      end

      def run_alone
        rules = self.class.unique_by
        @unique_run = rules.begin(lock_name, job_id, @unique_claim)
        failed = true
        result = yield
        failed = false
        result
      rescue OneAtATime::Later, *OneAtATime::OUTAGES => e
        raise if @unique_run

        logger&.info { "#{self.class} is put back into the queue: #{e.message}" }
        retry_job(wait: rules.terms[:retry_in], error: e)
        nil
      rescue OneAtATime::Conflict => e
        logger&.info { "#{self.class} does not run: #{e.message}" }
        nil
      ensure
        run, @unique_run = @unique_run
        run&.end(failed:)
      end

      def lock_name
        @unique_name ||= begin
          deserialize_arguments_if_needed
          self.class.unique_name(*arguments)
        end
      end
    end
  end
end
