# frozen_string_literal: true

require "etc"
require "fileutils"
require "json"
require "minitest/autorun"
require "pinyon"
require "socket"
require "tmpdir"

# What every test may use: real servers of its own, and waiting for what must happen.
module Support
  ROOT = File.expand_path("../..", __dir__)
  # Seconds within which something that must happen does, on slow machines too.
  GENEROUS = 60
  MEMCACHED = ["memcached", "-u", Etc.getpwuid.name, "-s", "SOCKET", "-t", "2"].freeze
  REDIS = %w[redis-server --port 0 --unixsocket SOCKET --save] + ["", "--dir", "FOLDER"]

  # Ports of servers, below the system's range for outgoing connections: none of them takes the port of a server that
  # is away. Each process owns PORTS of them, and listens on the first to reserve them all. Tests in other languages do
  # so, too.
  FIRST_PORT = 12_000
  PORTS = 100
  PROCESSES = 100

  # A server as a process, on a socket of its own.
  class Server
    attr_reader :address

    # @param command [Array<String>] SOCKET or PORT is where it listens, FOLDER a directory of its own
    def initialize(*command)
      @folder = Dir.mktmpdir("pinyon")
      @port = Support.free_port if command.include?("PORT")
      @address = @port ? "127.0.0.1:#{@port}" : File.join(@folder, "socket")
      @command = command.map { |word| word.sub("SOCKET", @address).sub("PORT", @port.to_s).sub("FOLDER", @folder) }
      start
    end

    def start
      said = File.join(@folder, "said")
      @pid = Process.spawn(*@command, %i[out err] => said)
      Support.eventually(within: 5 * GENEROUS) { accepts? || ended? }
      raise "#{@command.join(" ")} does not start: #{File.read(said)}" unless @pid && accepts?
    end

    def kill
      Process.kill(:KILL, @pid)
      Process.wait(@pid)
      @pid = nil
      FileUtils.rm_f(@address)
    end

    # Returns when it has stopped, which is a while after the signal.
    def pause
      Process.kill(:STOP, @pid)
      wait(Process::WUNTRACED)
    end

    def resume
      Process.kill(:CONT, @pid)
    end

    def stop
      kill if @pid
      FileUtils.rm_rf(@folder)
    end

    private

    def ended?
      @pid = nil if wait(Process::WNOHANG)
      @pid.nil?
    end

    # In a thread, because a scheduler of fibers may know no flags and wait for the end of the process: that of async 2
    # does.
    def wait(flags)
      Thread.new { Process.wait(@pid, flags) }.value
    end

    def accepts?
      (@port ? TCPSocket.new("127.0.0.1", @port) : UNIXSocket.new(@address)).close
      true
    rescue SystemCallError
      false
    end
  end

  # A server in a thread of the test. Its +answer+ makes the reply to a line.
  class ScriptedServer
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
  end

  # Accepts connections, answers the greeting, and no command after it.
  class SilentServer < ScriptedServer
    private

    def answer(command = nil, *)
      { "version" => "VERSION 1.6.18\r\n", "mn" => "MN\r\n" }.fetch(command, "")
    end
  end

  module_function

  # Whether the block comes true in time.
  def eventually(within: GENEROUS)
    give_up = now + within
    until (outcome = yield)
      return false if now > give_up

      sleep 0.005
    end
    outcome
  end

  # A port that is free, and that other tests leave alone.
  def free_port
    @reserved ||= Array.new(PROCESSES) { |each| FIRST_PORT + (PORTS * ((Process.pid + each) % PROCESSES)) }
                       .lazy.filter_map { |first| listen(first) }.first
    first = @reserved.local_address.ip_port
    @ports ||= ((first + 1)...(first + PORTS)).cycle
    PORTS.times do
      port = @ports.next
      return port if listen(port)&.close.nil?
    end
  end

  # A socket that listens on the port, or nil if another one does.
  def listen(port)
    TCPServer.new("127.0.0.1", port)
  rescue Errno::EADDRINUSE
    nil
  end

  def now
    Process.clock_gettime(Process::CLOCK_MONOTONIC)
  end

  # The servers of all tests.
  SERVERS = {} # rubocop:disable Style/MutableConstant

  # One memcached and one Redis for all tests, which use keys of their own.
  def memcached
    SERVERS[:memcached] ||= Server.new(*MEMCACHED)
  end

  def redis
    SERVERS[:redis] ||= Server.new(*REDIS)
  end

  def vectors(name)
    JSON.parse(File.read(File.join(ROOT, "vectors", "#{name}.json")))
  end

  Minitest.after_run { SERVERS.each_value(&:stop) }
end

# A test with clients that are closed at its end.
class PinyonTest < Minitest::Test
  include Support

  # So that a list of processes says which test does not end.
  def before_setup
    Process.setproctitle("ruby: #{self.class}##{name}")
    super
  end

  def teardown
    (@closed_at_the_end || []).each(&:close)
  end

  def client(*servers, timeout: GENEROUS, connect_timeout: GENEROUS, **settings)
    servers = [memcached.address] if servers.empty?
    closing(Pinyon::Client.new(*servers, timeout:, connect_timeout:, **settings))
  end

  def locks(server: redis, **settings)
    generous = { timeout: GENEROUS, command_timeout: GENEROUS, connect_timeout: GENEROUS, ttl: GENEROUS }
    closing(Pinyon::Locks.new("unix://#{server.address}", namespace:, **generous, **settings))
  end

  # Whether the error of one that waits in vain for "a" says who holds it. The look that finds the holder ends with the
  # time of the lock, so on a machine that stands still it may come too late.
  def learns_who_holds_it?(waiting)
    error = assert_raises(Pinyon::LockTimeout) { waiting.lock("a", timeout: 2) }
    status = waiting.status("a").first
    error.message.include?(%("a" could not be acquired within 2 s; held by #{status.host} (pid #{status.pid})))
  end

  # What only this test's keys and locks begin with: tests of several classes share servers, and names.
  def namespace
    "#{self.class}.#{name}"
  end

  # A key that no other test uses.
  def key(suffix = "")
    "#{namespace}#{suffix}"
  end

  # Runs the block with a memcached of its own.
  def with_server
    server = Server.new(*MEMCACHED)
    yield server
  ensure
    server.stop
  end

  # Skips the test where Debian's Dalli is not installed.
  def with_dalli
    require "dalli"
  rescue LoadError
    skip "Dalli is not installed"
  end

  # Runs the block in a child, and returns what it returned.
  def in_child
    reader, writer = IO.pipe
    child = fork do
      writer.write(JSON.dump(yield))
    ensure
      exit!(0)
    end
    writer.close
    JSON.parse(reader.read).tap { Process.wait(child) }
  end

  def closing(client)
    (@closed_at_the_end ||= []) << client
    client
  end
end
