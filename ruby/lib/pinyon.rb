# frozen_string_literal: true

require "timeout"

# One client for shared caches (memcached).
#
#   cache = Pinyon::Client.new("127.0.0.1:11211")
#   cache.set("greeting", "hello", ttl: 60)
#   cache.get("greeting") # => "hello"
module Pinyon
end

require "pinyon/version"
require "pinyon/errors"
require "pinyon/load"
require "pinyon/asking"
require "pinyon/client"
require "pinyon/migrating_client"
require "pinyon/locks"
require "pinyon/railtie" if defined?(Rails::Railtie)
