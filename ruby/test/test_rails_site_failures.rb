# frozen_string_literal: true

require_relative "rails_sites"

# memcached is killed, stopped and restarted while a site answers.
class TestRailsSiteFailures < PinyonTest
  include RailsSites

  PAGES = 6
  # What the site writes into its log.
  REPORTED = {
    kill: [/Pinyon::ConnectError: /, /Pinyon: .* marked down/, /Pinyon: .* is up again/],
    pause: [/Pinyon::Timeout: /, /Pinyon: .* marked down/, /Pinyon: .* is up again/],
    restart: []
  }.freeze

  # A visitor who keeps looking at pages and at a session, which counts the visits, and notes what must not be.
  class Regular < Visitor
    # What was wrong; how many visits were counted, and how many met an empty session that was not stored.
    attr_reader :wrong, :counted, :empty

    def initialize(site, number)
      super(site)
      @number = number
      @wrong = []
      @counted = @empty = @last = 0
    end

    def go_on
      @goes_on = true
      @thread = Thread.new { look_around while @goes_on }
    end

    def stop
      @goes_on = false
      @thread&.join
    end

    private

    def look_around
      look_at_session
      page = rand(PAGES)
      answer = visit("page?name=#{page}")
      @wrong << answer unless answer.match?(/\Apage #{page} made by \d+\z/)
    end

    # A session begins anew with another cookie. With the same cookie it goes on, or was not reached. The last visit may
    # not have been stored.
    def look_at_session
      before = cookie
      answer = visit("mine?visitor=#{@number}")
      visits = answer[/\A#{@number} (\d+)\z/, 1].to_i
      if cookie != before && visits == 1 then @last = 1
      elsif cookie == before && visits == 1 then @empty += 1
      elsif cookie == before && visits.between?(@last, @last + 1)
        @last = visits
        @counted += 1
      else
        @wrong << "#{answer} after #{@last} visits, cookie #{cookie} after #{before}"
      end
    end
  end

  def setup
    @cache = Support::Server.new("memcached", "-u", Etc.getpwuid.name, "-l", "127.0.0.1", "-p", "PORT", "-U", "0")
  end

  def teardown
    @regulars&.each(&:stop)
    super
  end

  WAYS.each_key do |way|
    define_method("test_faults_while_a_site_in_#{way}_answers") do
      serve(way, TIMEOUT: 0.3)
      @regulars = Array.new(5) { |number| Regular.new(@site, number) }
      @regulars.each(&:go_on)
      await_normality
      ended = logged_out
      %i[kill pause restart].each { |fault| check(fault, ended) }
      @regulars.each(&:stop)
      assert_empty @regulars.flat_map(&:wrong)
    end
  end

  def check(fault, ended)
    cookies = @regulars.map(&:cookie)
    said = reports.size
    send(fault)
    await_normality
    assert_equal(fault == :pause ? cookies : [], @regulars.map(&:cookie) & cookies, fault)
    await_reports(fault, said)
    assert_is_over(ended)
  end

  # Each worker notices by itself that the server is up again, when it is next asked.
  def await_reports(fault, said)
    REPORTED.fetch(fault).each do |report|
      assert(eventually { reports.drop(said).grep(report).any? }, "#{fault}: #{report.source}")
    end
  end

  def reports
    File.foreach(@log).grep(/Pinyon/)
  end

  # While it does not listen, and until it does so again.
  def kill
    @cache.kill
    await_outage
    @cache.start
  end

  # While it answers nothing, and until it does so again. A visitor who logs out meanwhile may stay logged in.
  def pause
    visitor = Visitor.new(@site)
    assert(eventually { visitor.visit("mine?visitor=7") && visitor.cookie })
    @cache.pause
    await_outage
    assert_equal "out", visitor.visit("out")
    @cache.resume
    assert(eventually { visitor.visit("mine?visitor=7").tap { |answer| assert_match(/\A7 \d+\z/, answer) } != "7 1" })
  end

  # All that it had is lost.
  def restart
    cookies = @regulars.map(&:cookie)
    @cache.kill
    @cache.start
    assert(eventually { (@regulars.map(&:cookie) & cookies).empty? })
  end

  # Every visitor has met an empty session.
  def await_outage
    empty = @regulars.map(&:empty)
    assert(eventually { @regulars.zip(empty).all? { |regular, before| regular.empty > before + 1 } })
  end

  # Every visitor's session counts, and all see the same pages.
  def await_normality
    counted = @regulars.map(&:counted)
    assert(eventually { @regulars.zip(counted).all? { |regular, before| regular.counted > before + 2 } }, wrong)
    visitor = Visitor.new(@site)
    PAGES.times do |page|
      assert(eventually { Array.new(4) { visitor.visit("page?name=#{page}") }.uniq.size == 1 })
    end
  end

  def wrong
    -> { @regulars.flat_map(&:wrong).first(5).inspect }
  end

  # The cookie of a visitor who has logged out.
  def logged_out
    visitor = Visitor.new(@site)
    assert(eventually { visitor.visit("mine?visitor=8") && visitor.cookie })
    cookie = visitor.cookie
    assert(eventually { visitor.visit("out") && answers_to(cookie).last != cookie })
    cookie
  end

  # The session of this cookie does not come back.
  def assert_is_over(cookie)
    assert(eventually do
      answer, next_cookie = answers_to(cookie)
      assert_equal "9 1", answer
      next_cookie != cookie
    end)
  end

  # What a visitor with this cookie sees, and the cookie of the next visit.
  def answers_to(cookie)
    visitor = Visitor.new(@site).tap { |each| each.cookie = cookie }
    [visitor.visit("mine?visitor=9"), visitor.cookie]
  end
end
