# frozen_string_literal: true

require "rails/railtie"

module Pinyon
  # Lets <tt>config.session_store :pinyon_session_store</tt> find its class. Rails finds the cache by itself.
  # @api private
  class Railtie < ::Rails::Railtie
    config.before_initialize do
      if defined?(::ActionDispatch::Session)
        ::ActionDispatch::Session.autoload(:PinyonSessionStore, "action_dispatch/session/pinyon_session_store")
      end
    end
  end
end
