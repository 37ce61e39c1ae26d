# frozen_string_literal: true

# Builds the native half by cargo alone, without other gems.

require "rbconfig"

# What is needed to build the gem.
module Needed
  # Where clang-sys, which reads Ruby's headers, looks for libclang.
  FOLDERS = %w[
    /usr/lib*/*/* /usr/lib*/* /usr/lib* /usr/local/llvm*/lib* /usr/local/lib*/*/* /usr/local/lib*/* /usr/local/lib*
    /Applications/Xcode.app/Contents/Developer/Toolchains/*/usr/lib /Library/Developer/CommandLineTools/usr/lib
    /opt/homebrew/opt/llvm/lib
  ].freeze

  module_function

  def check(cargo)
    check_ruby
    check_cargo(cargo)
    check_libclang
  end

  def check_ruby
    return if RUBY_ENGINE == "ruby"

    abort "pinyon needs CRuby, as its native half uses CRuby's C interface; this is #{RUBY_ENGINE}."
  end

  def check_cargo(cargo)
    oldest = File.read(File.join(__dir__, "Cargo.toml"))[/^rust-version = "(.*)"/, 1]
    version = `#{cargo} --version`[/\d+\.\d+\.\d+/]
    return if version && Gem::Version.new(version) >= Gem::Version.new(oldest)

    found = version ? "; #{cargo} is #{version}" : ""
    abort "pinyon needs Rust #{oldest} or newer to be built#{found}: install it from https://rustup.rs."
  rescue Errno::ENOENT
    abort "pinyon needs Rust #{oldest} or newer to be built, and there is no #{cargo}: install it from " \
          "https://rustup.rs, or set CARGO to its path."
  end

  def check_libclang
    return if ENV["LIBCLANG_PATH"] || folders.any? { |folder| libclang?(folder) }

    abort "pinyon needs libclang to be built, as it reads Ruby's headers: install it (Debian: libclang-dev, Fedora: " \
          "clang-devel), or set LIBCLANG_PATH to its folder."
  end

  def folders
    configured = begin
      `#{ENV.fetch("LLVM_CONFIG_PATH", "llvm-config")} --libdir`.chomp
    rescue Errno::ENOENT
      nil
    end
    [*configured, *ENV.fetch("LD_LIBRARY_PATH", "").split(":"), *FOLDERS]
  end

  def libclang?(folder)
    Dir.glob(File.join(folder, "libclang{.so*,-*.so*,.dylib}")).any?
  end
end

cargo = ENV.fetch("CARGO", "cargo")
Needed.check(cargo)

extension = RbConfig::CONFIG["DLEXT"]
library = "libpinyon_ruby.#{RbConfig::CONFIG["SOEXT"]}"

# RubyGems sets DESTDIR, sitearchdir and sitelibdir. It keeps this folder, so what cargo has made is removed.
File.write("Makefile", <<~MAKE)
  CARGO = #{cargo}
  export RUBY := #{RbConfig.ruby}
  SOURCES = #{__dir__}
  TARGET = #{File.join(Dir.pwd, "target")}
  sitearchdir = #{RbConfig::CONFIG["sitearchdir"]}

  all: native.#{extension}

  native.#{extension}: FORCE
  \t$(CARGO) build --profile wheel --locked --manifest-path $(SOURCES)/Cargo.toml --package pinyon-ruby --target-dir $(TARGET)
  \tcp $(TARGET)/wheel/#{library} $@

  install: native.#{extension}
  \tmkdir -p $(DESTDIR)$(sitearchdir)/pinyon
  \tinstall -m 755 native.#{extension} $(DESTDIR)$(sitearchdir)/pinyon/native.#{extension}
  \trm -rf $(TARGET) native.#{extension}

  clean:
  \trm -rf $(TARGET) native.#{extension}

  .PHONY: all install clean FORCE
MAKE
