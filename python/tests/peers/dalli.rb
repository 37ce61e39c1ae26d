# Stores Ruby values with Dalli, and shows how Dalli reads Pinyon's. __init__.py describes the output.
require "dalli"
require "json"

Dalli.logger.level = Logger::FATAL
Encoding.default_external = Encoding::UTF_8

def shown(value)
  case value
  when String then "#{value.encoding}:#{value.bytesize > 60 ? "#{value[0, 10].inspect}… (#{value.bytesize} bytes)" : value.inspect}"
  when Array then "[#{value.map { |item| shown(item) }.join(", ")}]"
  when Hash then "{#{value.map { |key, item| "#{shown(key)} => #{shown(item)}" }.join(", ")}}"
  else value.inspect
  end
end

cache = Dalli::Client.new(ARGV[0], compress: true)
gzip = Dalli::Client.new(ARGV[0], compress: true, compressor: Dalli::GzipCompressor)
values = {
  "bytes" => "\x00\xFFbytes".b, "text" => "größer 🌲", "empty-text" => "", "integer" => 42, "negative" => -7,
  "large-integer" => 2**40, "huge-integer" => -2**70, "float" => 1.5, "infinite" => Float::INFINITY, "true" => true, "false" => false, "none" => nil,
  "list" => [1, "zwei", nil, [true, 2.5]], "dict" => { "name" => "Ada", "größe" => 36 },
  "symbols" => { name: :ada, "again" => [:ada, :name] }, "latin1" => "größer".encode("ISO-8859-1"),
  "long-text" => "a value like any other, " * 1000, "object" => [Time.at(0)], "shared" => [["a"] * 2, ["b"]].then { |a| a + a },
}
values.each { |name, value| cache.set("theirs:#{name}", value) }
gzip.set("theirs:gzip", values["long-text"])
cache.set("theirs:raw", "plain", nil, raw: true)
read = JSON.parse(ARGV[1]).to_h { |name| [name, (shown((name == "long-gzip" ? gzip : cache).get("ours:#{name}")) rescue "#{$!.class}: #{$!.message}")] }
puts JSON.generate({ version: "Dalli #{Dalli::VERSION}", wrote: values.keys + %w[gzip raw], read: read })
