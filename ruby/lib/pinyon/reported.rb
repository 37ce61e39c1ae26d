# frozen_string_literal: true

module Pinyon
  # What a client reports: events of its servers, and facts about items.
  class Client
    # An event of the servers.
    #
    # @!attribute kind [Symbol] +:down+, +:up+, +:retry+, +:slow+, +:servers+, +:discovery+, +:classic+, +:crowded+ (no
    #   further connection can be made), +:unreadable+ (a stored value cannot be read, and counts as missing; each
    #   reason is told once), +:stale+ ({Leases#fetch} keeps an old value), +:certificates+ or
    #   +:stale_certificates+; of {Locks} also
    #   +:connected+, +:disconnected+, +:down+, +:up+, +:gone+ (was down, and is no longer used), +:switched+ (the
    #   primary), +:sentinel_down+, +:sentinel_up+, +:renewals+ (are refused) or
    #   +:warning+ (anything else that you should know)
    # @!attribute server [String] the server's name
    # @!attribute command [String, nil] the command's name
    # @!attribute error [Error, nil] what failed
    # @!attribute seconds [Float, nil] how long the server was down, or the command took
    # @!attribute level [Symbol] +:debug+, +:info+ or +:warning+
    # @!attribute message [String] a line for people, without keys and values
    # @!attribute previous [String, nil] of +:switched+: the former primary
    Event = Struct.new(:kind, :server, :command, :error, :seconds, :level, :message, :previous)

    # What the server knows about an item.
    #
    # @!attribute size [Integer] the bytes of its value: the name that all languages have, not the number of members
    # @!attribute flags [Integer]
    # @!attribute cas [Integer] its CAS token
    # @!attribute ttl [Integer, nil] seconds until it expires; nil if it never does
    # @!attribute last_access [Integer] seconds since it was last read
    # @!attribute fetched [Boolean] whether it was ever read
    Metadata = Struct.new(:size, :flags, :cas, :ttl, :last_access, :fetched) # rubocop:disable Lint/StructNewOverride
  end
end
