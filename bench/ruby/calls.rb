# frozen_string_literal: true

# The harness's view of one client: its methods, and which of them a row needs.
module PinyonBench
  # The client has no such operation.
  class CannotDo < StandardError; end

  # A reply of the client was wrong.
  class WrongResult < StandardError
    # Raises it unless the reply is the one wanted.
    def self.unless_equal(what, key, reply, wanted)
      return if reply == wanted

      raise self, "#{what} #{short(key)} answered #{short(reply)} instead of #{short(wanted)}"
    end

    # Returns the value's text, shortened for a message.
    def self.short(value)
      text = value.inspect
      text.length <= 40 ? text : "#{text[0, 37]}..."
    end
  end

  # The calls that store a step's text.
  STORES = %w[set add replace].freeze

  # A connected client's methods, bound, so that the timing loop costs every client the same.
  #
  # `set`, `add` and `replace` take key and value; `incr` and `decr` key and delta; `incr_or_create` key, delta and
  # initial. `quietly` runs a block in a quiet batch and yields the calls to use in it; when it returns, the servers
  # have done everything. A call that the client lacks is nil.
  Calls = Struct.new(
    :get, :set, :close, :add, :replace, :delete, :get_many, :incr, :decr, :incr_or_create, :quietly,
    keyword_init: true
  ) do
    # Returns a client's own methods of these names, and others.
    def self.of(client, names, **others)
      new(**names.to_h { |name| [name, client.method(name)] }, **others)
    end

    # Returns each step as a method and its arguments.
    def bind(steps, row)
      steps.map do |name, key, *rest|
        function = self[name] if members.include?(name.to_sym)
        raise CannotDo, "no #{name.tr("_", " ")}" unless function

        [function, STORES.include?(name) ? [key, PinyonBench.value_of(row, rest.first)] : [key, *rest]]
      end
    end

    # Does each step, and returns its reply as JSON knows it.
    def replies(steps, row)
      steps.zip(bind(steps, row)).map do |(name), (function, arguments)|
        reply = function.call(*arguments)
        [*STORES, "delete"].include?(name) ? !!reply : PinyonBench.told(reply)
      end
    end
  end

  module_function

  # Returns the value that a step's text stands for: an empty Array, or the text's bytes, repeated to the row's length.
  def value_of(row, text)
    return [] if row[:kind] == "object"

    length = row[:length]
    text = (text * ((length / text.length) + 1))[0, length] unless length.zero?
    text.encode(Encoding::ISO_8859_1).b.freeze
  end

  # Returns a reply as JSON knows it: for bytes, a text with a character for each.
  def told(reply)
    case reply
    when String then reply.dup.force_encoding(Encoding::ISO_8859_1).encode(Encoding::UTF_8)
    when Hash then reply.transform_values { |value| told(value) }
    else reply
    end
  end
end
