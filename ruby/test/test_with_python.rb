# frozen_string_literal: true

require "open3"
require_relative "support"
require_relative "making"

# Programs in Ruby and in Python that share a server.
class TestWithPython < PinyonTest
  include Making

  PYTHON = File.join(Support::ROOT, ".venv", "bin", "python")
  # For each line with a key it fetches the value. It makes it when it gets another line.
  FETCHING = <<~PYTHON
    import sys, pinyon
    def make():
        print("making", flush=True)
        sys.stdin.readline()
        return ["made in Python"]
    cache = pinyon.Client(sys.argv[1], timeout=60, connect_timeout=60)
    while key := sys.stdin.readline().strip():
        print(*cache.get_or_set(key, make, 60, wait=60), flush=True)
  PYTHON

  def test_what_python_makes_ruby_waits_for
    cache = client
    python do |input, output|
      input.puts(key)
      assert_equal "making\n", output.gets
      waiting = Array.new(3) { Thread.new { cache.fetch(key, ttl: 60, wait: GENEROUS, &NEVER) } }
      assert(eventually { following(cache) == 2 })
      input.puts
      assert_equal [["made in Python"]] * 3, waiting.map(&:value)
      assert_equal "made in Python\n", output.gets
    end
  end

  def test_what_ruby_makes_python_waits_for
    cache = client
    python do |input, output|
      made = cache.fetch(key, ttl: 60, lease: LONG) do
        before = asked(cache)
        input.puts(key)
        # A caller that waits asks again and again.
        assert(eventually { asked(cache) > before + 3 })
        ["made in Ruby"]
      end
      assert_equal [["made in Ruby"], "made in Ruby\n"], [made, output.gets]
    end
  end

  def test_of_both_at_once_one_alone_makes_it
    cache = client
    python do |input, output|
      50.times do |round|
        made = Queue.new
        here = Thread.new { cache.fetch(key(round), ttl: 60, wait: GENEROUS) { (made << :ruby) && ["made in Ruby"] } }
        input.puts(key(round))
        if (there = output.gets) == "making\n"
          made << :python
          input.puts
          there = output.gets
        end
        assert_equal [1, there.chomp], [made.size, here.value.join]
      end
    end
  end

  private

  # How often the server was asked for a value.
  def asked(cache)
    cache.stats[memcached.address]["cmd_get"].to_i
  end

  def python
    Open3.popen2(PYTHON, "-c", FETCHING, memcached.address) do |input, output, process|
      yield input, output
    ensure
      Process.kill(:KILL, process.pid) if process.alive?
    end
  end
end
