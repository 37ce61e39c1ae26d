# frozen_string_literal: true

module Pinyon
  # A key with the arguments of a call in braces, such as <tt>"product:{id}"</tt>. It is checked when the method is
  # cached.
  # @api private
  class Template
    # A brace that is written twice, an argument in braces, or a brace that is neither.
    PARTS = /\{\{|\}\}|\{([^{}]*)\}|[{}]/
    # An argument by its name or number, and methods of it.
    FIELD = /\A(?:[a-z_]\w*|\d+)(?:\.[a-z_]\w*[?!]?)*\z/i
    POSITIONAL = %i[req opt rest].freeze
    private_constant :PARTS, :FIELD, :POSITIONAL

    attr_reader :text

    # @param text [String]
    # @param parameters [Array] as +Method#parameters+ returns them
    # @param name [String] what errors call the method
    # @param has_receiver [Boolean] whether +self+ may be an argument
    # @raise [UsageError] the key needs an argument that a call of the method may leave out
    def initialize(text, parameters, name, has_receiver)
      @text = text
      @name = name
      @has_receiver = has_receiver
      @kinds = parameters.to_h { |kind, argument| [argument.to_s, kind] }
      @positional = parameters.select { |kind,| POSITIONAL.include?(kind) }
      @leading = @positional.take_while { |kind,| kind == :req }.size
      @required = @positional.count { |kind,| kind == :req }
      @parts = parts.freeze
      @parts.each { |part| check(part.first) if part.is_a?(Array) }
      freeze
    end

    # The key of a call.
    #
    # @param receiver [Object, nil] the object whose method it is
    # @param arguments [Array]
    # @param keywords [Hash]
    # @raise [ArgumentError] the method does not take these arguments
    def fill(receiver, arguments, keywords)
      check_number(arguments.size)
      @parts.map do |part|
        next part if part.is_a?(String)

        argument, *methods = part
        methods.inject(value_of(argument, receiver, arguments, keywords)) { |value, method| value.public_send(method) }
      end.join
    end

    private

    # Texts, and for each argument its name and those of methods.
    def parts
      parts = []
      rest = @text
      while (found = PARTS.match(rest))
        parts << found.pre_match << part_of(found)
        rest = found.post_match
      end
      parts << rest
    end

    def part_of(found)
      return found[0][0] if ["{{", "}}"].include?(found[0])
      return found[1].split(".") if found[1]&.match?(FIELD)

      raise UsageError, "#{@text.inspect} is no key: #{found[0].inspect} names no argument; " \
                        "a brace itself is written twice"
    end

    def check(argument)
      return if argument == "self" && @has_receiver

      case @kinds[argument]
      when :req, :keyreq then return
      when :opt, :key
        raise UsageError, "#{@name} gives #{argument.inspect} a default, which the key #{@text.inspect} cannot know: " \
                          "make the key by a Proc that takes the same arguments"
      end
      numbered = argument.match?(/\A\d/)
      return if numbered ? argument.to_i < @leading || kind?(:rest) : kind?(:keyrest)

      raise unfilled(argument)
    end

    def kind?(kind)
      @kinds.value?(kind)
    end

    def check_number(given)
      most = kind?(:rest) ? given : @positional.size
      return if given.between?(@required, most)

      expected = kind?(:rest) ? "#{@required}+" : [@required, most].uniq.join("..")
      raise ArgumentError, "wrong number of arguments for #{@name} (given #{given}, expected #{expected})"
    end

    def value_of(argument, receiver, arguments, keywords)
      return receiver_or_raise(receiver) if argument == "self" && @has_receiver
      return arguments.fetch(argument.to_i) { raise unfilled(argument) } if argument.match?(/\A\d/)
      return arguments[place_of(argument)] if @kinds[argument] == :req

      keywords.fetch(argument.to_sym) { raise unfilled(argument) }
    end

    # From the beginning, or from the end for what stands behind arguments that may be left out.
    def place_of(argument)
      index = @positional.index { |_, name| name.to_s == argument }
      index < @leading ? index : index - @positional.size
    end

    def receiver_or_raise(receiver)
      return receiver unless receiver.nil?

      raise UsageError, "the key #{@text.inspect} needs an object: bind #{@name} to one, by bind(object)"
    end

    def unfilled(argument)
      UsageError.new("no argument of #{@name} fills #{argument.inspect} in the key #{@text.inspect}")
    end
  end
end
