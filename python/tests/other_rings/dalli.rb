# Where Dalli puts keys. Reads a job (see scripts.py), and writes one place per key.

require 'dalli'
require 'json'

Dalli.logger.level = Logger::FATAL
job = JSON.parse($stdin.readline)
client = Dalli::Client.new(job['servers'], namespace: job['namespace'])
ring = client.send(:ring)
ring.servers.each_with_index do |server, index|
  alive = !job['dead'].include?(index)
  server.define_singleton_method(:alive?) { alive }
end
keys = client.instance_variable_get(:@key_manager)
$stdin.each_line(chomp: true) do |line|
  key = [line].pack('H*').force_encoding('UTF-8')
  puts ring.servers.index(ring.server_for_key(keys.validate_key(key)))
rescue Dalli::RingError
  puts
end
