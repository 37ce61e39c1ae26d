# frozen_string_literal: true

require_relative "signatures"

# Checks every call of the library by its signature. What a signature does not allow, the method has to refuse.
module Checked
  # Lets pass what was refused.
  module Refusing
    def call(_receiver, trace)
      super
    rescue RBS::Test::Tester::TypeError
      raise unless trace.method_call.exception?
    end
  end

  RBS::Test::Tester::MethodCallTester.prepend(Refusing)
  RBS.logger_level = "error"
  TESTER = RBS::Test::Tester.new(env: Signatures.environment)
  # A hook of rbs calls itself in a class that has modules prepended, as Rails' store does.
  HOOKED = Signatures.modules - [ActiveSupport::Cache::PinyonStore]
  HOOKED.each { |each| TESTER.install!(each, sample_size: 100, unchecked_classes: []) }
end
