# frozen_string_literal: true

require_relative "support"

# A memcached of version 1.4.15, before meta commands. It has one value, of every key, and stores nothing.
class OldServer < Support::ScriptedServer
  private

  def answer(command = nil, key = nil, *)
    case command
    when "version" then "VERSION 1.4.15\r\n"
    when "get" then "VALUE #{key} 16 5\r\nvalue\r\nEND\r\n"
    else "ERROR\r\n"
    end
  end
end
