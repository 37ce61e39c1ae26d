# frozen_string_literal: true

unless RUBY_ENGINE == "ruby"
  raise LoadError,
        "pinyon is an extension in Rust for CRuby, and does not run in #{RUBY_ENGINE}; use CRuby 3.1 or newer"
end

# Loads the native half: the one for this version of Ruby if the gem was installed precompiled, else the one that was
# built while it was installed.
begin
  require "pinyon/#{RUBY_VERSION[/\A\d+\.\d+/]}/native"
rescue LoadError
  require "pinyon/native"
end

unless Pinyon::Native::VERSION == Pinyon::VERSION
  raise LoadError,
        "pinyon #{Pinyon::VERSION} found a native half of version #{Pinyon::Native::VERSION}: reinstall the gem"
end
