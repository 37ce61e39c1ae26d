# frozen_string_literal: true

require "pinyon/one_at_a_time"
require "pinyon/template"

module Pinyon
  # Jobs of ActiveJob and Sidekiq of which one of a kind is enqueued, or runs, at a time.
  #
  #   class ReportJob < ActiveJob::Base
  #     include Pinyon::Unique
  #     unique "report:{number}", locks: LOCKS
  #     def perform(number) = Report.new(number).write
  #   end
  #
  # A worker that dies keeps a job's lock for +ttl+ seconds. Its message, delivered again, waits for it.
  module Unique
    # @api private
    def self.included(base)
      base.extend(Declaring)
      if defined?(::ActiveJob::Base) && base <= ::ActiveJob::Base
        require "pinyon/unique/active_job"
        base.include(ActiveJob)
      elsif defined?(::Sidekiq) && base.respond_to?(:sidekiq_options)
        require "pinyon/unique/sidekiq"
        Sidekiq.install
      else
        raise UsageError, "#{base} is no job of ActiveJob or Sidekiq: include Sidekiq::Worker first"
      end
    end

    # What a class of jobs can say.
    module Declaring
      # Let one job of a kind be enqueued, or run, at a time.
      #
      # @param template [String, nil] the name of the lock, with arguments of +perform+ in braces, such as
      #   <tt>"report:{number}"</tt>; or a block that takes these arguments and returns the name
      # @param locks [Locks, Proc] where the jobs are locked; a Proc returns it on first use
      # @param terms [Hash] how:
      #   [+when:+] +:enqueued+ locks a job from its enqueueing until it has run; +:running+ while it runs
      #   [+on_conflict:+] what becomes of a second job. +:skip+: it is not enqueued, or does not run. +:wait+: the
      #     caller waits until it can be enqueued, or the worker until it can run. +:replace+: it takes the place of one
      #     that has not begun, and waits for one that runs
      #   [+ttl:+] seconds for which a lock outlives a worker that has died, by default 10. While the job runs, the lock
      #     is renewed
      #   [+timeout:+] seconds to wait; by default as for the locks. Then a caller gets {LockTimeout}, and a worker puts
      #     the job back into the queue
      #   [+queue_ttl:+] seconds for which an enqueued job is locked without a worker, counted from when it is due, by
      #     default 3600. Then another one may be enqueued, and the first takes the lock anew if it is free when a
      #     worker takes it
      #   [+retry_in:+] seconds after which a job runs again that was put back into the queue, by default 10
      # @return [void]
      # @raise [UsageError] an argument makes no sense, +perform+ lacks an argument of the template, or the template has
      #   ":job:" or ":replaced:" in it, or ":runs" at the end
      def unique(template = nil, locks:, **terms, &block)
        if template.is_a?(String) == !block.nil?
          raise UsageError, 'unique needs a name, as in unique("report:{number}", locks: LOCKS), or a block'
        end

        OneAtATime.check_name(template) if template
        @unique_by = OneAtATime.new(locks, terms)
        @unique_name = template || block
        @unique_template = nil
        unique_template if method_defined?(:perform, false)
      end

      # @api private
      def unique_by
        @unique_by || (superclass.unique_by if superclass.respond_to?(:unique_by))
      end

      # The name of the lock that a job with these arguments has.
      #
      # @return [String]
      def unique_name(*arguments)
        has_keywords = arguments.last.is_a?(Hash) && Hash.ruby2_keywords_hash?(arguments.last)
        keywords = has_keywords ? arguments.pop.transform_keys(&:to_sym) : {}
        name = unique_template
        name.is_a?(Template) ? name.fill(nil, arguments, keywords) : name.call(*arguments, **keywords).to_s
      end
      ruby2_keywords :unique_name

      # @api private
      def unique_declared
        @unique_name || (superclass.unique_declared if superclass.respond_to?(:unique_by))
      end

      # Checks the template when the method is there that it is of.
      #
      # @api private
      def method_added(name)
        super
        unique_template if name == :perform && @unique_name
      end

      private

      def unique_template
        named = unique_declared
        return named unless named.is_a?(String)

        perform = instance_method(:perform)
        @unique_template ||= Template.new(named, perform.parameters, "#{self}#perform", false)
      end
    end
  end
end
