# frozen_string_literal: true

module Pinyon
  VERSION = "0.1.0"
end
