# frozen_string_literal: true

require "action_dispatch"
require "action_dispatch/middleware/session/abstract_store"
require "rack/session/pinyon"

# What Rails does with requests.
module ActionDispatch
  # Its sessions.
  module Session
    # Rails' sessions on memcached.
    #
    #   config.session_store :pinyon_session_store, memcache_server: "cache1:11211", expire_after: 1.day
    #
    # The options, and what happens when a server fails, are those of {Rack::Session::Pinyon}. Failures are logged and
    # reported to +Rails.error+.
    class PinyonSessionStore < Rack::Session::Pinyon
      include Compatibility
      include StaleSessionCheck
      include SessionObject

      # @param app [#call] the application
      # @param options [Hash] see {Rack::Session::Pinyon#initialize}
      def initialize(app, options = {})
        options[:expire_after] ||= options[:expires]
        super
      end

      # @api private
      def generate_sid
        Rack::Session::SessionId.new(super)
      end

      private

      def set_cookie(request, _response, cookie)
        request.cookie_jar[key] = cookie
      end

      def report(error, request)
        ::Pinyon::Failures.tell_rails(error, request.logger, "pinyon_session_store.action_dispatch")
      end
    end
  end
end
