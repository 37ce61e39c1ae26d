# frozen_string_literal: true

require_relative "rails_sites"

# A Rails application in Puma, in threads and in forked workers, and in the fibers of async.
class TestRailsSite < PinyonTest
  include RailsSites

  def setup
    @cache = Support::Server.new(*MEMCACHED)
  end

  WAYS.each_key do |way|
    define_method("test_a_site_in_#{way}") do
      serve(way)
      check_shared(@site, way)
      check_the_end_of_a_session(@site)
      check_outage(@site)
    end
  end

  # All threads and workers see one cache, and the same sessions.
  def check_shared(site, way)
    answers = Array.new(8) { Thread.new { visits(site) } }.flat_map(&:value)
    assert_equal((1..80).to_a, answers.map { |_pid, number| number.to_i }.sort)
    visitor = Visitor.new(site)
    workers = answers.map(&:first)
    assert(eventually { (workers << visitor.visit("visit").split.first).uniq.size == (way == :cluster ? 2 : 1) })
    made = visitor.visit("cached")
    assert_match(/\Amade by/, made)
    assert_equal([made], Array.new(20) { visitor.visit("cached") }.uniq)
    assert_equal((1..20).map(&:to_s), Array.new(20) { visitor.visit("count") })
  end

  # The number of the worker, and the number of the visit.
  def visits(site)
    visitor = Visitor.new(site)
    Array.new(10) { visitor.visit("visit").split }
  end

  def check_the_end_of_a_session(site)
    visitor = Visitor.new(site)
    visitor.visit("count")
    cookie = visitor.cookie
    visitor.visit("out")
    assert_equal "1", visitor.visit("count")
    refute_equal cookie, visitor.cookie
    visitor.cookie = cookie
    assert_equal "1", visitor.visit("count")
  end

  # memcached ends and begins again.
  def check_outage(site)
    visitor = Visitor.new(site)
    assert_equal "1", visitor.visit("count")
    cookie = visitor.cookie
    @cache.kill
    assert_match(/\Amade by/, visitor.visit("cached"))
    assert_equal "1", visitor.visit("count")
    assert_equal cookie, visitor.cookie
    assert(eventually { File.read(@log).include?("Pinyon::ConnectError") })
    @cache.start
    assert(eventually { visitor.visit("count") == "2" })
    assert(eventually { Array.new(5) { visitor.visit("cached") }.uniq.size == 1 })
  end
end
