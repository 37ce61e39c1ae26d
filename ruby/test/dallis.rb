# frozen_string_literal: true

require "pinyon/compat/dalli"
require "stringio"
require_relative "support"

begin
  require "dalli"
rescue LoadError
  warn "the Debian package ruby-dalli is not installed: what compares with Dalli itself is skipped"
end

# What tests of Dalli's interface share: Pinyon's client with it, and Dalli's own from Debian: 3.0.6, or a newer one.
module Dallis
  Ours = Pinyon::Compat::Dalli
  Ours.logger = Logger.new(IO::NULL)
  Dalli.logger = Ours.logger if defined?(Dalli)
  # The version of Dalli itself. From 5 on it speaks meta commands, and its answers are those of our client.
  INSTALLED = defined?(Dalli) ? Dalli::VERSION : "none"
  FIVE = INSTALLED.start_with?("5.")

  def ours(*servers, **options)
    servers = [memcached.address] if servers.empty?
    closing(Ours::Client.new(servers, { socket_timeout: Support::GENEROUS, **options }))
  end

  def theirs(*servers, **options)
    skip "ruby-dalli is not installed" unless defined?(Dalli)
    servers = [memcached.address] if servers.empty?
    closing(Dalli::Client.new(servers, { socket_timeout: Support::GENEROUS, **options }))
  end

  # The bytes and client flags of an item.
  def stored(key)
    plain = client(serializer: :raw)
    [plain.get(key), plain.meta(key)&.flags]
  end
end
