# frozen_string_literal: true

require "open3"
require_relative "support"
require_relative "signatures"

# The signatures in `sig` are those of the library. Whether calls follow them, `rake checked` says.
class TestSignatures < Minitest::Test
  def test_they_are_valid
    command = [RbConfig.ruby, Gem.bin_path("rbs", "rbs"), *Signatures::LIBRARIES.flat_map { |name| ["-r", name] }]
    said, ended = Open3.capture2e(*command, "-I", Signatures::FOLDER, "validate", "--silent")
    assert_predicate ended, :success?, said
  end

  def test_every_module_has_one_and_the_reverse
    named = Signatures.modules.map(&:name)
    assert_empty named - Signatures.declared.keys
    # What is private is declared where others include it.
    (Signatures.declared.keys - named).each { |name| assert(name.split("::").inject(Object, &:const_get), name) }
  end

  def test_every_public_method_has_one_and_the_reverse
    Signatures.modules.each do |each|
      instance, singleton = Signatures.declared_methods(Signatures.declared.fetch(each.name))
      assert_same_methods each.name, each, instance
      assert_same_methods "#{each.name}.", each.singleton_class, singleton unless each <= Struct
    end
  end

  private

  def assert_same_methods(name, defined, declared)
    assert_empty defined.public_instance_methods(false) - declared, "#{name} has methods without a signature"
    all = defined.instance_methods(false) + defined.private_instance_methods(false)
    assert_empty declared - all, "#{name} has signatures without a method"
  end
end
