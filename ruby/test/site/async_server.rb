# frozen_string_literal: true

# Serves an application in the fibers of async, by async-http: ruby async_server.rb SOCKET CONFIG.RU

require "async"
require "async/http/server"
require "async/io/unix_endpoint"
require "rack"

# A Rack application as async-http calls it.
class Application
  def initialize(file)
    @application, = Rack::Builder.parse_file(file)
  end

  def call(request)
    status, headers, body = @application.call(environment(request))
    Protocol::HTTP::Response[status, fields(headers), body.to_enum.to_a]
  ensure
    body.close if body.respond_to?(:close)
  end

  private

  def environment(request)
    path, query = request.path.split("?", 2)
    headers = request.headers.to_h.to_h { |name, value| ["HTTP_#{name.upcase.tr("-", "_")}", value.to_s] }
    own = { "PATH_INFO" => path, "QUERY_STRING" => query.to_s }
    Rack::MockRequest.env_for("/", method: request.method).merge!(headers, own)
  end

  # A header with several lines is one String with line ends, or an Array.
  def fields(headers)
    headers.flat_map do |name, lines|
      Array(lines).flat_map { |each| each.split("\n") }.map { |line| [name.downcase, line] }
    end
  end
end

path, file = ARGV
trap(:TERM) { exit!(0) }
endpoint = Async::IO::Endpoint.unix(path)
protocol = Async::HTTP::Protocol::HTTP1
Async { Async::HTTP::Server.new(Application.new(file), endpoint, protocol:, scheme: "http").run }
