# frozen_string_literal: true

# What `require "dalli/cas/client"` finds once Dalli is replaced.
require "pinyon/compat/dalli/replace"
