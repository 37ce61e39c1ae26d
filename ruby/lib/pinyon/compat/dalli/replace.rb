# frozen_string_literal: true

require "pinyon/compat/dalli"

# +::Dalli+ becomes Pinyon's, for programs and libraries that name it. +require "dalli"+ finds this one afterwards,
# whether the gem is installed or not.
if defined?(Dalli) && !Dalli.equal?(Pinyon::Compat::Dalli)
  raise LoadError, "Dalli is already loaded, so it cannot be replaced: require pinyon/compat/dalli/replace before dalli"
end

# Pinyon's interface for programs that use Dalli.
Dalli = Pinyon::Compat::Dalli unless defined?(Dalli)
$LOAD_PATH.unshift(File.join(__dir__, "replacing"))
