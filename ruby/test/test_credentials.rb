# frozen_string_literal: true

require_relative "support"
require_relative "models"

# Functions that return credentials: they are called before each connection, and again before they end.
class TestCredentials < PinyonTest
  extend Models

  SECRET = "correct-horse"

  def setup
    @folder = Dir.mktmpdir("pinyon")
    @users = File.join(@folder, "users")
    File.chmod(0o755, @folder)
    File.write(@users, "app:#{SECRET}\n")
    File.chmod(0o644, @users)
    user = Etc.getpwuid.name
    @memcached = Server.new("memcached", "-u", user, "-l", "127.0.0.1", "-p", "PORT", "-U", "0", "-Y", @users)
    @redis = Server.new("redis-server", "--port", "PORT", "--save", "", "--dir", "FOLDER")
  end

  def teardown
    super
    [@memcached, @redis].each(&:stop)
    FileUtils.rm_rf(@folder)
  end

  in_every_model(:a_proc_is_called_before_each_connection) do |_model|
    calls = 0
    password = lambda do
      calls += 1
      SECRET
    end
    cache = client(@memcached.address, username: "app", password:)
    assert cache.set("key", "value")
    assert_equal ["value", 1], [cache.get("key"), calls]
  end

  in_every_model(:a_proc_may_return_both) do |_model|
    both = -> { { username: "app", password: SECRET, lifetime: 60 } }
    assert client(@memcached.address, username: both).set("key", "value")
    assert client(@memcached.address, password: both).set("key", "value")
    assert client(@memcached.address, username: -> { "app" }, password: -> { SECRET }).set("key", "value")
  end

  in_every_model(:a_proc_that_fails_is_called_again) do |_model|
    returned = -> { raise KeyError, "the vault is sealed" }
    cache = client(@memcached.address, username: "app", password: -> { returned.call })
    [
      [-> { raise KeyError, "the vault is sealed" }, "the function for password failed: KeyError: the vault is sealed"],
      [-> {}, "it returned NilClass instead of a String, or of a Hash"],
      [-> { { user: SECRET } }, "other keys than username, password and lifetime"],
      [-> { { password: SECRET, lifetime: SECRET } }, "a lifetime that is not a number of seconds but String"]
    ].each do |wrong, says|
      returned = wrong
      error = assert_raises(Pinyon::ConnectError) { cache.get("key") }
      assert_includes error.message, says
      refute_includes error.full_message, SECRET
    end
    returned = -> { SECRET }
    assert cache.set("key", "value")
  end

  def test_a_forked_child_asks_as_well
    cache = client(@memcached.address, username: "app", password: -> { SECRET })
    assert cache.set("key", "value")
    child = fork { exit!(cache.get("key") == "value") }
    assert_predicate Process.wait2(child).last, :success?
  end

  in_every_model(:locks_are_held_beyond_the_end_of_their_credentials) do |model|
    tokens = 0
    password = lambda do
      tokens += 1
      tell("ACL SETUSER app on resetpass >token-#{tokens} +@all ~* &*")
      { username: "app", password: "token-#{tokens}", lifetime: 1 }
    end
    generous = { command_timeout: GENEROUS, connect_timeout: GENEROUS }
    locks = closing(Pinyon::Locks.new("redis://#{@redis.address}", password:, **generous))
    held = locks.lock("a", ttl: 20)
    model.pause(0.05) until tokens > 2
    assert_predicate held, :held?
    assert held.release
  end

  private

  def tell(command)
    Socket.tcp("127.0.0.1", @redis.address[/\d+\z/].to_i) do |socket|
      socket.write("#{command}\r\n")
      socket.gets
    end
  end
end
