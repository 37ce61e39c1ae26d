# frozen_string_literal: true

# This file stands outside the folder of Pinyon because Rack finds it by its path. It uses the public client alone.

require "pinyon"
require "pinyon/failures"
require "rack/session/abstract/id"

# The interface between Ruby's web servers and applications.
module Rack
  # Its sessions.
  module Session
    # Sessions on memcached, by a {::Pinyon::Client}, in Rack 2 and 3.
    #
    #   use Rack::Session::Pinyon, memcache_server: "cache1:11211,cache2:11211", expire_after: 86_400
    #
    # Keys, values and options are those of Dalli's +Rack::Session::Dalli+ (version 3.2 and newer), so both can share
    # servers.
    #
    # A session that was deleted while a request was using it is not stored again. If a server fails, the request has an
    # empty session, which is not stored, and the visitor keeps the cookie. The failure is written to +rack.errors+.
    class Pinyon < Abstract::PersistedSecure
      include ::Pinyon::Failures

      # Options of cookies and of Rack that are not settings of the client.
      OF_RACK = [*DEFAULT_OPTIONS.keys, :same_site, :partitioned, :assume_ssl, :tld_length, :max_age, :expires, :skip,
                 :drop, :pool_size, :pool_timeout].freeze
      # How Dalli stores sessions.
      AS_DALLI = { dialect: "dalli", ring: "dalli", key_rule: "dalli", serializer: :marshal, compression: true }.freeze
      # Where a request keeps the name of a session that it has begun.
      BEGUN = "pinyon.session.begun"
      private_constant :OF_RACK, :AS_DALLI, :BEGUN

      # @return [::Pinyon::Client]
      attr_reader :client

      # @param app [#call] the application
      # @param options [Hash] +:memcache_server+ (a String with commas, or an Array; without it, the environment
      #   variable +MEMCACHE_SERVERS+, or else +127.0.0.1:11211+), +:namespace+ (+"rack:session"+; a colon follows it),
      #   +:expire_after+ (seconds), the other options of Rack's sessions, and settings of {::Pinyon::Client}
      # @raise [ArgumentError] an option that does not exist; the message names the closest one
      def initialize(app, options = {})
        super
        settings = options.except(*OF_RACK)
        servers = Array(settings.delete(:memcache_server)).flat_map { |list| list.split(",").map(&:strip) }
        namespace = settings.fetch(:namespace, "rack:session")
        settings[:namespace] = namespace && "#{namespace}:"
        @client = ::Pinyon::Client.new(*servers, **AS_DALLI, **settings, on_failure: :raise)
      end

      # @api private
      # @return [Array] the session's id and its contents; no id if the servers failed
      def find_session(request, id)
        failing_to([nil, {}], request) do
          session = id && read(request, id)
          session ? [id, session] : [begin_session(request), {}]
        end
      end

      # @api private
      # @return [Object, false] the session's id; false if it was not stored
      def write_session(request, id, session, options)
        return false unless id

        key = id.private_id
        ttl = time_to_live(options[:expire_after])
        failing_to(false, request) do
          begun = request.get_header(BEGUN) == key
          stored = begun ? @client.set(key, session, ttl:) : @client.replace(key, session, ttl:)
          stored && id
        end
      end

      # @api private
      # @return [Object, nil] the id of the next session; nil if the servers failed, or none is to follow
      def delete_session(request, id, options)
        failing_to(nil, request) do
          @client.delete(id.private_id) if id
          begin_session(request) unless options[:drop]
        end
      end

      private

      def read(request, id)
        @client.get(id.private_id)
      rescue ::Pinyon::UndecodableValue => e
        raise if e.message.include?("undefined class")

        report(e, request)
        nil
      end

      def begin_session(request)
        generate_sid.tap { |id| request.set_header(BEGUN, id.private_id) }
      end

      # One second more than the cookie's: memcached rounds down.
      def time_to_live(expire_after)
        expire_after ? expire_after + 1 : 0
      end

      def report(error, request)
        request.get_header(RACK_ERRORS)&.puts("#{self.class}: #{error.class}: #{error.message}")
      end
    end
  end
end
