# frozen_string_literal: true

require "open3"
require "tempfile"
require_relative "support"
require_relative "reactors"

# The scenarios of scenarios/: a scripted faulty server, and what every client must make of it.
class TestScenarios < PinyonTest
  # How many are played at the same time. They mostly wait.
  AT_ONCE = 32
  # Seconds by which a call may be late, on slow machines too. Every fault lasts longer.
  LATE = 10
  FOLDER = File.join(Support::ROOT, "scenarios")
  PASSWORD = "correct-horse"

  # The scripted server, with one address for each scenario.
  class Scenarios
    attr_reader :by_name

    def initialize(real)
      options = real.flat_map { |kind, address| ["--#{kind}", address] }
      python = File.join(Support::ROOT, ".venv", "bin", "python")
      @input, @output, @process = Open3.popen2(python, "#{FOLDER}/server.py", *options, *Dir["#{FOLDER}/data/*.json"])
      @by_name = JSON.parse(@output.gets).to_h { |scenario| [scenario["name"], scenario] }
      @mutex = Mutex.new
    end

    def heal(name)
      @mutex.synchronize do
        @input.puts("heal #{name}")
        JSON.parse(@output.gets)
      end
    end

    def stop
      @input.close
      @process.join
    end
  end

  # What is wrong in a scenario.
  class Wrong < StandardError; end

  # One scenario, and a client of its server.
  class Playing
    def initialize(scenarios, scenario)
      @scenarios = scenarios
      @scenario = scenario
      @address = scenario["address"]
      @client = connected(scenario["client"].compact.transform_keys(&:to_sym))
    end

    def play
      @scenario["calls"].each { |step| step(step) }
      heal
      afterwards.each { |call| call({ **call, "eventually" => true }) }
      check_report
    ensure
      @client.close
    end

    private

    def step(step)
      if step["together"] then together(step["together"])
      elsif step["wait_ms"] then sleep(step["wait_ms"] / 1000.0)
      elsif step["server"] == "heal" then heal
      else
        call(step)
      end
    end

    def together(steps)
      return steps.map { |each| Thread.new { quietly { step(each) } } }.each(&:value) unless Fiber.current_scheduler

      outcomes = Queue.new
      steps.each do |each|
        Fiber.schedule do
          outcomes << step(each)
        rescue StandardError => e
          outcomes << e
        end
      end
      failed = Array.new(steps.size) { outcomes.pop }.grep(Exception).first
      raise failed if failed
    end

    def quietly
      Thread.current.report_on_exception = false
      yield
    end

    def call(step)
      name, *arguments = step["call"]
      give_up = Support.now + Support::GENEROUS
      begin
        begun = Support.now
        value = plain(use(name, arguments))
        check_values(value)
        if step.key?("raises") || (step.key?("returns") && value != step["returns"])
          wrong(step,
                "returned #{value.inspect}")
        end
      rescue Pinyon::Error => e
        check_values(plain(e.partial))
        if step["eventually"] && Support.now < give_up
          sleep 0.02
          retry
        end
        check_error(step, e)
      end
      limit = LATE + limits.sum { |setting| @scenario["client"].fetch(setting, 0) }
      wrong(step, "took too long") if Support.now - begun > limit
    end

    def check_error(step, error)
      password = @scenario["client"]["password"]
      said = error.full_message + error.inspect
      wrong(step, "the password is in #{said}") if password && said.include?(password)
      kinds = Array(step["raises"] || step["may_raise"]).map { |kind| Pinyon.const_get(kind) }
      error = failure_of(step, error) if error.is_a?(Pinyon::BatchError) && !kinds.include?(Pinyon::BatchError)
      wrong(step, "raised #{error.inspect}") unless kinds.any? { |kind| error.is_a?(kind) }
      wrong(step, "raised #{error.inspect}") unless error.message.match?(step.fetch("says", ""))
      wrong(step, "#{error.inspect} says sent=#{error.sent}") unless step.fetch("sent", error.sent).to_sym == error.sent
      return if error.is_a?(Pinyon::LockError) || error.is_a?(Pinyon::UndecodableValue)

      unless error.server == @address || error.message.include?(@address)
        wrong(step,
              "#{error.inspect} does not name the server")
      end
      check_command(step, error)
    end

    def failure_of(step, error)
      failures = error.failures
      wrong(step, "#{failures.size} failures") unless failures.size == 1
      wrong(step, failures.first.inspect) unless step["call"][1].first(2) == [failures.first.command,
                                                                              failures.first.key]
      failures.first.error || wrong(step, failures.first.reason)
    end

    def check_values(value)
      inner = value.is_a?(Hash) ? value.values : Array(value)
      [value, *inner].each do |each|
        is_forbidden = @scenario["never"].any? { |never| never.instance_of?(each.class) && never == each }
        wrong(value, "was handed out") if is_forbidden
      end
    end

    def heal
      @report ||= @scenarios.heal(@scenario["name"])
    end

    # What the server saw until it was healed.
    def check_report
      after = @scenario["after"]
      wrong(@report["unexpected"], "does not match its step") unless @report["unexpected"].empty?
      wrong(@report, "connections") unless [nil, @report["connections"]].include?(after["connections"])
      allowed = after.fetch("requests", [""])
      @report["requests"].each do |request|
        is_allowed = allowed.any? { |words| request.match?(words) }
        wrong(request, "was not to be sent") unless is_allowed
      end
    end

    # A value as JSON has it. Bytes become text with one character per byte.
    def plain(value)
      case value
      when String then value.encoding == Encoding::BINARY ? value.encode("UTF-8", "ISO-8859-1") : value
      when Array then value.map { |each| plain(each) }
      when Hash then value.to_h { |key, each| [key.to_s, plain(each)] }
      else value
      end
    end

    def wrong(what, why)
      raise Wrong, "#{what}: #{why}"
    end
  end

  # A scenario of memcached.
  class OnMemcached < Playing
    private

    def limits
      ["timeout"]
    end

    def connected(settings)
      Pinyon::Client.new(@address, **settings)
    end

    def use(name, arguments)
      return @client.public_send(name, *arguments) unless name == "batch"

      @client.quiet { |batch| arguments.each { |command, *rest| batch.public_send(command, *rest) } && nil }
    end

    def check_command(step, error)
      return if step["call"].first == "batch" || error.command.nil?

      command = step["call"].first.sub("gets", "get")
      named = error.command == command && error.message.start_with?("#{@address}: #{command}: ")
      wrong(step, "#{error.inspect} does not name the command") unless named
    end

    def afterwards
      [{ "call" => %w[set after right], "returns" => true }, { "call" => %w[get after], "returns" => "right" },
       { "call" => ["get_many", %w[after missing]], "returns" => { "after" => "right" } }]
    end
  end

  # A scenario of Redis.
  class OnRedis < Playing
    private

    def limits
      %w[timeout command_timeout connect_timeout]
    end

    def connected(settings)
      Pinyon::Locks.new("redis://#{@address}", **settings)
    end

    def use(name, arguments)
      case name
      when "lock" then @client.synchronize(*arguments, &:token)
      when "proceed" then @client.synchronize(*arguments, on_failure: :proceed, &:certain?)
      when "try_lock" then @client.try_lock(*arguments).release && nil
      when "is_locked" then @client.locked?(*arguments)
      else @client.public_send(name, *arguments)
      end
    end

    def check_command(_step, _error); end

    def afterwards
      [{ "call" => %w[execute ECHO right], "returns" => "right" }, { "call" => ["try_lock", "after #{@address}"] }]
    end
  end

  def test_each_in_threads
    play(%w[memcached redis], more_than: 500) do |some|
      Array.new(AT_ONCE) { Thread.new(&some) }.each(&:join)
    end
  end

  def test_each_in_fibers
    play(%w[memcached redis], more_than: 500) do |some|
      Reactors::Plain.run { AT_ONCE.times { Fiber.schedule(&some) } }
    end
  end

  # Plays the scenarios of these protocols. The block receives a proc that plays some, and may be
  # called many times at the same time.
  def play(protocols, more_than:)
    scenarios = Scenarios.new(real_servers.transform_values(&:address))
    left = Queue.new
    scenarios.by_name.each_value do |scenario|
      left << scenario if protocols.include?(scenario["protocol"]) && !scenario["shared"]
    end
    assert_operator left.size, :>, more_than
    left.close
    failed = Queue.new
    yield -> { play_some(scenarios, left, failed) }
    failed.close
    assert_empty Array.new(failed.size) { failed.pop }
  ensure
    scenarios&.stop
    @users&.close!
    @real&.each_value(&:stop)
  end

  # A memcached and a Redis, and the same with a login.
  def real_servers
    @users = Tempfile.new("users").tap { |file| file.write("app:#{PASSWORD}\n") && file.close }
    memcached = ["memcached", "-u", Etc.getpwuid.name, "-l", "127.0.0.1", "-p", "PORT", "-U", "0"]
    redis = ["redis-server", "--bind", "127.0.0.1", "--port", "PORT", "--save", "", "--dir", "FOLDER"]
    @real = {
      "memcached" => Server.new(*memcached), "memcached-login" => Server.new(*memcached, "-Y", @users.path),
      "redis" => Server.new(*redis), "redis-login" => Server.new(*redis)
    }
    guarded = closing(Pinyon::Locks.new("redis://#{@real["redis-login"].address}"))
    guarded.execute("ACL", "SETUSER", "app", "on", ">#{PASSWORD}", "+@all", "~*", "&*")
    guarded.execute("CONFIG", "SET", "requirepass", PASSWORD)
    @real
  end

  def play_some(scenarios, left, failed)
    while (scenario = left.pop)
      kind = scenario["protocol"] == "memcached" ? OnMemcached : OnRedis
      begin
        kind.new(scenarios, scenario).play
      rescue StandardError => e
        failed << "#{scenario["name"]}: #{e.full_message(highlight: false)}"
      end
    end
  end
end
