# Stores the number of each key under it by Dalli: reads a job, a line of JSON, and a key in hexadecimal on each line.

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
