# Stores each key's number under the key, with Dalli. Reads a job as a line of JSON, then a key in hexadecimal per line.

require 'dalli'
require 'json'

Dalli.logger.level = Logger::FATAL
job = JSON.parse($stdin.readline)
client = Dalli::Client.new(job['server'], namespace: job['namespace'])
$stdin.each_line(chomp: true).with_index do |line, number|
  client.set([line].pack('H*').force_encoding('UTF-8'), number.to_s, 0, raw: true)
rescue ArgumentError, Dalli::DalliError
  client.reset
end
