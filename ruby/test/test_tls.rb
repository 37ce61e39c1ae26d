# frozen_string_literal: true

require "openssl"
require_relative "support"
require_relative "models"

# Caches and locks on servers that speak TLS.
class TestTls < PinyonTest
  extend Models

  # Certificates for 127.0.0.1, by an authority of the tests.
  class Authority
    FILES = %i[authority certificate key].freeze
    EXTENSIONS = OpenSSL::X509::ExtensionFactory.new

    def initialize(folder)
      own = OpenSSL::PKey::EC.generate("prime256v1")
      trusted = issue("authority", own, own, ["basicConstraints", "CA:TRUE", true])
      key = OpenSSL::PKey::EC.generate("prime256v1")
      shown = issue("server", key, own, ["subjectAltName", "IP:127.0.0.1"])
      @paths = FILES.to_h { |name| [name, File.join(folder, "#{name}.pem")] }
      FILES.zip([trusted, shown, key]).each { |name, content| File.write(@paths[name], content.to_pem) }
    end

    FILES.each { |name| define_method(name) { @paths.fetch(name) } }

    private

    def issue(name, key, signer, extension)
      made = OpenSSL::X509::Certificate.new
      made.version = 2
      made.serial = rand(1 << 64)
      made.subject = OpenSSL::X509::Name.new([["CN", "#{name} of Pinyon's tests"]])
      made.issuer = OpenSSL::X509::Name.new([["CN", "authority of Pinyon's tests"]])
      made.public_key = key
      made.not_before = Time.now - 86_400
      made.not_after = Time.now + 86_400
      made.add_extension(EXTENSIONS.create_extension(*extension))
      made.sign(signer, OpenSSL::Digest.new("SHA256"))
    end
  end

  def setup
    @folder = Dir.mktmpdir("pinyon")
    @authority = Authority.new(@folder)
    shown = "ssl_chain_cert=#{@authority.certificate},ssl_key=#{@authority.key}"
    user = Etc.getpwuid.name
    @memcached = Server.new("memcached", "-u", user, "-l", "127.0.0.1", "-p", "PORT", "-U", "0", "-Z", "-o", shown)
    @redis = Server.new("redis-server", "--port", "0", "--tls-port", "PORT", "--tls-auth-clients", "no", "--save", "",
                        "--tls-cert-file", @authority.certificate, "--tls-key-file", @authority.key, "--dir", "FOLDER")
  end

  def teardown
    super
    [@memcached, @redis].each(&:stop)
    FileUtils.rm_rf(@folder)
  end

  def secure_locks(tls)
    generous = { timeout: GENEROUS, command_timeout: GENEROUS, connect_timeout: GENEROUS }
    closing(Pinyon::Locks.new("rediss://#{@redis.address}", namespace:, tls:, **generous))
  end

  in_every_model(:caches_and_locks) do |_model|
    tls = { ca: @authority.authority }
    cache = client(@memcached.address, tls:)
    large = "large " * 50_000
    assert_equal [true, true], [cache.set("small", ["small"]), cache.set("large", large)]
    assert_equal({ "small" => ["small"], "large" => large }, cache.get_many(%w[small large none]))
    mine = secure_locks(tls)
    others = secure_locks(tls)
    mine.synchronize("a") { assert_nil others.try_lock("a") }
    assert others.try_lock("a").release
  end

  def test_what_cannot_be_trusted
    error = assert_raises(Pinyon::ConnectError) { client(@memcached.address, tls: true).get("key") }
    assert_match(/certificate/, error.message)
    assert_equal :no, error.sent
    assert_match(/certificate/, assert_raises(Pinyon::ConnectError) { secure_locks(true).lock("a") }.message)
    assert_raises(Pinyon::Error) { client(@memcached.address, timeout: 1).get("key") }
  end
end
