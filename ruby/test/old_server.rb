# frozen_string_literal: true

require "socket"

# A memcached of version 1.4.15, before meta commands. It has one value, of every key, and stores nothing.
class OldServer
  attr_reader :address

  def initialize
    @server = TCPServer.new("127.0.0.1", 0)
    @address = "127.0.0.1:#{@server.addr[1]}"
    @thread = Thread.new { loop { Thread.new(@server.accept) { |connection| serve(connection) } } }
  end

  def stop
    @thread.kill
    @server.close
  end

  private

  def serve(connection)
    while (line = connection.gets)
      connection.write(answer(*line.split))
    end
  rescue SystemCallError
    nil
  end

  def answer(command, key = nil, *)
    case command
    when "version" then "VERSION 1.4.15\r\n"
    when "get" then "VALUE #{key} 16 5\r\nvalue\r\nEND\r\n"
    else "ERROR\r\n"
    end
  end
end
