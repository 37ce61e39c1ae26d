# frozen_string_literal: true

module Pinyon
  # In everything that Pinyon raises, so +rescue Pinyon::Error+ catches all of it. Each class also inherits from the
  # error of Ruby's own that it resembles. A miss is never an error: it is nil, false, or a key that is not in the Hash.
  module Error
    # @return [String, nil] the server's name as the client was given it; nil if no server was involved
    attr_reader :server

    # @return [String, nil] the protocol's name of the command; nil if there was none
    attr_reader :command

    # @return [Symbol] whether the server may have executed the command: +:no+ (nothing of it was sent), +:maybe+ (it
    #   was sent, and no answer came) or +:yes+ (the server answered)
    attr_reader :sent

    # @return [Object, nil] what was achieved before the failure: of {Client#get_many} the Hash of what arrived, of
    #   {Client#set_many} the keys that are not known to be stored, of {Client#delete_many} the number of deleted items
    attr_reader :partial

    # @param message [String] what happened, to what, and what to do
    # @param server [String, nil] the server's name
    # @param command [String, nil] the command's name
    # @param sent [Symbol] whether it was sent
    def initialize(message = nil, server: nil, command: nil, sent: :no)
      super(message)
      @server = server
      @command = command
      @sent = sent
      @partial = nil
    end
  end

  # The operation took longer than the client's timeout.
  class Timeout < ::Timeout::Error
    include Error
  end

  # Another caller was still making the value when the time to wait for it was over.
  class LeaseTimeout < Timeout; end

  # No connection could be made: refused, unreachable, or a name that does not resolve.
  class ConnectError < IOError
    include Error
  end

  # The connection broke while the command was in flight.
  class ConnectionLost < IOError
    include Error
  end

  # The server is marked down, and not tried until its back-off is over.
  class ServerDown < IOError
    include Error
  end

  # The server sent what the protocol does not allow, or a reply to another request. The connection is closed, and no
  # value of such a reply is returned.
  class ProtocolError < StandardError
    include Error
  end

  # The server answered with an error. The message quotes it.
  class ServerError < StandardError
    include Error
  end

  # The server's version cannot do this. The message names the first version that can.
  class Unsupported < StandardError
    include Error
  end

  # An argument is wrong, or something was used wrongly. The message says what is right.
  class UsageError < ArgumentError
    include Error
  end

  # A key that memcached does not take: empty, too long, or with spaces or control bytes. The message names it.
  class InvalidKey < UsageError; end

  # A server list that is empty or malformed.
  class InvalidServers < UsageError; end

  # A name that no lock can have: empty, too long, or with a NUL.
  class InvalidName < UsageError; end

  # A value larger than +max_value_size+, or than the server stores (its option +-I+).
  class ValueTooLarge < ArgumentError
    include Error
  end

  # A key, value or argument of a class that the client does not take. The message says what to pass.
  class UnsupportedType < TypeError
    include Error
  end

  # A value that Marshal cannot write.
  class Unpicklable < UnsupportedType; end

  # A stored value that is not what its flags say.
  class UndecodableValue < ArgumentError
    include Error
  end

  # A stored value whose flags the serializer does not know: another client, or another setting, wrote it.
  class UnknownFlags < UndecodableValue; end

  # The client was closed.
  class Closed < StandardError
    include Error
  end

  # Commands of a quiet batch failed. The others were carried out.
  class BatchError < StandardError
    include Error

    # A command of a batch that was not carried out.
    #
    # @!attribute key [String] its key
    # @!attribute command [String] its name in the protocol
    # @!attribute reason [String] why, for people
    # @!attribute error [Error, nil] the failure; nil if the server answered that the command does not apply
    Failure = Struct.new(:key, :command, :reason, :error, keyword_init: true)

    # Raises an error if commands failed.
    #
    # @api private
    def self.check(unsuccessful)
      return if unsuccessful.empty?

      failures = unsuccessful.map do |_number, command, key, reason, error|
        Failure.new(key:, command:, reason:, error:)
      end
      raise BatchError, failures
    end

    # @return [Array<Failure>] the commands that were not carried out, in the order in which they were given
    attr_reader :failures

    # @param failures [Array<Failure>]
    def initialize(failures)
      @failures = failures
      first = failures.first
      more = failures.size > 1 ? ", and #{failures.size - 1} more in #failures" : ""
      super("#{first.command} #{first.key.inspect}: #{first.reason}#{more}")
    end
  end

  # In everything that goes wrong with a lock.
  module LockError
    include Error
  end

  # The lock could not be acquired in time, because others held it. What is not known of the holder is nil.
  class LockTimeout < Timeout
    include LockError

    # @return [String, nil] the attempt that held it
    attr_reader :holder
    # @return [Float, nil] the seconds for which it was held then
    attr_reader :held_for
    # @return [String, nil] the short name of the holder's host
    attr_reader :host
    # @return [Integer, nil] the holder's process there
    attr_reader :pid
    # @return [String, nil] what the holder's client is called (the setting +label+)
    attr_reader :label
    # @return [String, nil] what the holder says about its lock (+note:+)
    attr_reader :note
  end

  # The lock is no longer held: it expired, was deleted, or was released by force.
  class LockLost < StandardError
    include LockError
  end

  # The caller already holds one of the names, and would wait for itself.
  class AlreadyHeld < StandardError
    include LockError
  end

  # The holders of the names wait, in turn, for what the caller holds.
  class Deadlock < StandardError
    include LockError

    # @return [Array<String>] the attempts that wait for each other
    attr_reader :cycle
  end
end
