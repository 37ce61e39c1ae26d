# frozen_string_literal: true

# Runs one Ruby contestant, spoken to in JSON lines: `ruby contestant.rb CLIENT MODEL`. `protocol.py` describes the
# requests and the replies. CLIENT is a file in `clients`; MODEL is `ruby` (threads), `async` or `eventmachine`.

require "json"
require_relative "calls"

# What every Ruby contestant shares: the loop over requests, the work of each kind of row, the clock.
module PinyonBench
  module_function

  # Answers requests until the input ends.
  def answer_requests(client, model)
    require_relative "steps"
    require_relative "pairs"
    require_relative "locks"
    harnesses = { pairs: Pairs.new(client, model), workload: Locks.new(client, model), phases: Steps.new(client) }
    while (line = $stdin.gets)
      reply(answer(client, harnesses, JSON.parse(line, symbolize_names: true)))
    end
  end

  # Returns the reply to one request. A client's error is a reply too.
  def answer(client, harnesses, request)
    return { ok: true, version: client.version, configuration: client.configuration } if request[:do] == "describe"

    row = request[:row]
    harness = harnesses.find { |kind, _| row&.key?(kind) }&.last
    raise CannotDo, "no request #{request[:do].inspect}" unless harness && request[:do] == "play"

    { ok: true, **harness.play(row) }
  rescue CannotDo => e
    { ok: false, cannot: true, reason: e.message }
  rescue StandardError => e
    { ok: false, reason: "#{e.class}: #{e.message}" }
  end

  # Answers the first request with the reason why none can be done.
  def refuse(reason)
    $stdin.gets
    reply({ ok: false, reason: })
  end

  def reply(message)
    $stdout.write("#{JSON.generate(message)}\n")
    $stdout.flush
  end
end

name, model = ARGV
abort "usage: ruby #{$PROGRAM_NAME} CLIENT ruby|async|eventmachine" unless ARGV.length == 2
begin
  require_relative "models/#{model}"
  require_relative "clients/#{name}"
rescue LoadError => e
  PinyonBench.refuse("cannot be loaded: #{e.message}")
  exit 1
end
PinyonBench::MODEL.run { PinyonBench.answer_requests(PinyonBench::CLIENT.new(PinyonBench::MODEL), PinyonBench::MODEL) }
