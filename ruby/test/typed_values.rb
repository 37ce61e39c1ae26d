# frozen_string_literal: true

require "date"

# The values of the test vectors, which are written as their type and their content.
module TypedValues
  module_function

  def made(typed)
    kind, content = typed
    case kind
    when "null" then nil
    when "integer" then Integer(content)
    when "float" then float(content)
    when "bool" then content
    when "text" then repeated(content)
    when "bytes" then repeated(content).b
    when "bytes_hex" then [content].pack("H*")
    when "list", "tuple" then content.map { |item| made(item) }
    when "map" then content.to_h { |key, value| [made(key), made(value)] }
    when "instant" then Time.at(*content.split(".").map(&:to_i), :nsec).utc
    when "date_time" then DateTime.parse(content)
    when "repeated" then made(content["of"]) * content["times"]
    else raise "there is no type #{kind}"
    end
  end

  def float(text)
    special = { "nan" => Float::NAN, "inf" => Float::INFINITY, "-inf" => -Float::INFINITY }
    special.fetch(text.to_s) { Float(text) }
  end

  def repeated(text)
    text.is_a?(Hash) ? text["repeated"] * text["times"] : text
  end
end
