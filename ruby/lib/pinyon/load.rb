# frozen_string_literal: true

unless RUBY_ENGINE == "ruby"
  raise LoadError,
        "pinyon is an extension in Rust for CRuby, and does not run in #{RUBY_ENGINE}; use CRuby 3.1 or newer"
end

# Loads the native half: the one for this version of Ruby if the gem was installed precompiled, else the one that was
# built while it was installed.
precompiled = Dir.glob("*/native.*", base: __dir__).map { |path| File.dirname(path) }
version = RUBY_VERSION[/\A\d+\.\d+/]
if precompiled.empty?
  require "pinyon/native"
elsif precompiled.include?(version)
  require "pinyon/#{version}/native"
else
  raise LoadError, "this precompiled gem of pinyon is for Ruby #{precompiled.sort.join(" and ")}, not #{version}: " \
                   "install the source gem, with gem install pinyon --platform ruby"
end

unless Pinyon::Native::VERSION == Pinyon::VERSION
  raise LoadError,
        "pinyon #{Pinyon::VERSION} found a native half of version #{Pinyon::Native::VERSION}: reinstall the gem"
end
