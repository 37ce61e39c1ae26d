# frozen_string_literal: true

require "pinyon/compat/redlock"

# The name that programs know.
Redlock = Pinyon::Compat::Redlock unless defined?(Redlock)
