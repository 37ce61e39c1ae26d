# frozen_string_literal: true

require "open3"
require "tmpdir"
require_relative "support"

# Every block of Ruby on the pages runs by itself, and twice, on servers of its own.
class TestDocumentation < PinyonTest
  # A fence begins a block, and ends it.
  BLOCK = /^```ruby\n(.*?)^```$/m
  PAGES = [File.join(Support::ROOT, "README.md"), *Dir[File.join(Support::ROOT, "docs", "*.md")]].freeze

  PAGES.each do |page|
    File.read(page).scan(BLOCK).flatten.each_with_index do |block, number|
      define_method("test_#{File.basename(page, ".md")}_#{number}") { 2.times { check_runs(block) } }
    end
  end

  def test_the_command_of_the_page
    page = File.read(File.join(Support::ROOT, "docs", "ruby.md"))
    command = page[/^ruby (.*)$/].sub("127.0.0.1:11211", memcached.address).sub("ruby", "ruby -I ruby/test -r patient")
    said, ended = Open3.capture2e(command, chdir: Support::ROOT)
    assert_predicate ended, :success?, said
    assert_match(/=>"1\./, said)
  end

  # rdoc reads no directives of YARD, so what the native half has is named for both.
  def test_methods_of_the_native_half_are_in_ri
    Dir.mktmpdir do |folder|
      store = File.join(folder, "ri")
      client = File.expand_path("../lib/pinyon/client.rb", __dir__)
      said, = Open3.capture2e("rdoc", "--ri", "-q", "-o", store, client)
      %w[get [] set].each do |name|
        found, ended = Open3.capture2e("ri", "-T", "--no-standard-docs", "-d", store, "Pinyon::Client##{name}")
        assert_predicate ended, :success?, said + found
      end
    end
  end

  def test_there_are_blocks
    assert_operator self.class.public_instance_methods.grep(/test_ruby_/).size, :>=, 3
  end

  def second
    SERVERS[:second] ||= Server.new(*MEMCACHED)
  end

  def check_runs(block)
    program = "require \"pinyon\"\n#{block}".gsub("127.0.0.1:11211", memcached.address)
                                            .gsub("127.0.0.1:11212", second.address)
                                            .gsub("redis://127.0.0.1:6379/0", "unix://#{redis.address}")
    folders = ["-I", File.expand_path("../lib", __dir__), "-I", __dir__]
    said, ended = Open3.capture2e(RbConfig.ruby, "-W", *folders, "-r", "patient", stdin_data: program)
    assert_predicate ended, :success?, said
    refute_match(/warn/, said)
    expected = block.scan(/# => (.*)$/).flatten
    assert_empty(expected.reject { |value| value.split(", ").all? { |each| said.include?(each) } }, said)
  end
end
