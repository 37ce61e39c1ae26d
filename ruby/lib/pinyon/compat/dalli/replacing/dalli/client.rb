# frozen_string_literal: true

# What `require "dalli/client"` finds once Dalli is replaced.
require "pinyon/compat/dalli/replace"
