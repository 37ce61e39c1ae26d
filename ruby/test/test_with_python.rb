# frozen_string_literal: true

require "open3"
require_relative "support"
require_relative "making"

# Programs in Ruby and in Python that share a server.
class TestWithPython < PinyonTest
  include Making

  PYTHON = File.join(Support::ROOT, ".venv", "bin", "python")
  PROGRAM = File.join(Support::ROOT, "python", "tests", "beside_others.py")

  def test_what_python_makes_ruby_waits_for
    cache = client
    python do |input, output|
      input.puts("fetch #{key}")
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
        input.puts("fetch #{key}")
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
        input.puts("fetch #{key(round)}")
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
    Open3.popen2(PYTHON, PROGRAM, memcached.address) do |input, output, process|
      yield input, output
    ensure
      Process.kill(:KILL, process.pid) if process.alive?
    end
  end
end
