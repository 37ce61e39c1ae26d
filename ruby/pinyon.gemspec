# frozen_string_literal: true

require_relative "lib/pinyon/version"

# `make dist` copies what belongs into a gem to a folder of its own, and builds it there. With native halves in
# lib/pinyon/VERSION/ it is a precompiled gem, for those versions of Ruby; else the gem is built while it is installed.
Gem::Specification.new do |spec|
  built_for = Dir.glob("lib/pinyon/*/native.*", base: __dir__).map { |path| Gem::Version.new(path.split("/")[2]) }.sort

  spec.name = "pinyon"
  spec.version = Pinyon::VERSION
  spec.summary = "A client for shared caches on memcached and shared locks on Redis or Valkey, with a core in Rust"
  spec.description = <<~TEXT
    Caches on memcached and locks on Redis or Valkey, for threads, for the fibers of any Fiber::Scheduler and for
    EventMachine. With a cache store and sessions for Rails and Rack, and the interfaces of Dalli, memcache-client,
    memcached, redlock and Redis::EM::Mutex.
  TEXT
  spec.authors = ["The Pinyon developers"]
  spec.licenses = ["MIT", "Apache-2.0"]
  spec.homepage = "https://github.com/pinyon-client/pinyon"
  spec.metadata = {
    "source_code_uri" => spec.homepage,
    "documentation_uri" => "#{spec.homepage}/blob/main/docs/ruby.md",
    "changelog_uri" => "#{spec.homepage}/blob/main/CHANGELOG.md",
    "bug_tracker_uri" => "#{spec.homepage}/issues",
    "rubygems_mfa_required" => "true"
  }

  spec.files = Dir.glob("{lib,sig,ext}/**/*", base: __dir__).select { |path| File.file?(File.join(__dir__, path)) } +
               Dir.glob("{README.md,CHANGELOG.md,LICENSE-*}", base: __dir__)
  spec.require_paths = ["lib"]
  spec.extra_rdoc_files = ["README.md"]

  major, minor = built_for.last&.segments
  spec.required_ruby_version = major ? [">= #{built_for.first}", "< #{major}.#{minor + 1}.dev"] : ">= 3.1"
  if built_for.empty?
    spec.extensions = ["ext/pinyon/extconf.rb"]
  else
    spec.platform = "#{Gem::Platform.local.cpu}-#{Gem::Platform.local.os}"
  end
end
