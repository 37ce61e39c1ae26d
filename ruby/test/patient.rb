# frozen_string_literal: true

require "pinyon"

# What the programs of the pages require: their clients wait as long as a busy machine needs. What users write does
# without timeouts, and the defaults are meant for machines that have time for them.
module Patient
  def self.for(*timeouts)
    generous = timeouts.to_h { |name| [name, 60] }
    Module.new do
      define_method(:initialize) { |*servers, **settings| super(*servers, **settings, **generous) }
    end
  end
end

Pinyon::Client.prepend(Patient.for(:timeout, :connect_timeout))
Pinyon::Locks.prepend(Patient.for(:command_timeout, :connect_timeout))
