# frozen_string_literal: true

require "open3"
require_relative "support"

# Clients of the scenarios of namespaces, tags and hot keys: in this program, and in one in Python beside it.
module SharingClients
  # A call's outcome. +raised+ is an error's class and its ancestors, by name.
  Outcome = Struct.new(:returned, :makes, :raised)

  # In this program.
  class Here
    # @param connect [Proc] makes a client with these settings
    # @param meanwhile [Proc] plays the steps of a maker
    def initialize(connect, meanwhile)
      @connect = connect
      @meanwhile = meanwhile
      @all = {}
      @tokens = {}
    end

    def add(name, settings)
      given = settings.to_h { |key, value| [key.to_sym, value.is_a?(Hash) ? value.transform_keys(&:to_sym) : value] }
      using = given.delete(:using)
      @all[name] = using ? @all[using].using(**given) : @connect.call(**given)
    end

    def call(by, call)
      name, *arguments = call
      case name
      when "get_or_set" then get_or_set(by, *arguments)
      when "gets", "cas" then Outcome.new(send(name, by, *arguments), false)
      else Outcome.new(plainly(by, name, arguments), false)
      end
    rescue Pinyon::Error => e
      Outcome.new(nil, false, e.class.ancestors.map { _1.name.to_s.split("::").last })
    end

    private

    def plainly(by, name, arguments)
      settings = arguments.size > 1 && arguments.last.is_a?(Hash) ? arguments.pop.transform_keys(&:to_sym) : {}
      @all[by].public_send(name, *arguments, **settings)
    end

    def gets(by, key)
      value, @tokens[by] = @all[by].gets(key)
      value
    end

    def cas(by, key, value)
      @all[by].cas(key, value, @tokens[by])
    end

    def get_or_set(by, key, maker, terms)
      makes = false
      returned = @all[by].fetch(key, **terms.transform_keys(&:to_sym)) do
        makes = true
        @meanwhile.call(maker["meanwhile"] || [])
        maker["value"]
      end
      Outcome.new(returned, makes)
    end
  end

  # In a program in Python, which all tests share.
  class InPython
    PROGRAM = [File.join(Support::ROOT, ".venv", "bin", "python"),
               File.join(Support::ROOT, "python", "tests", "sharing_playing.py")].freeze

    # @param meanwhile see {Here}
    def initialize(_connect, meanwhile)
      @meanwhile = meanwhile
      ask("forget" => true)
    end

    def add(name, settings)
      ask("by" => name, "settings" => settings)
    end

    def call(by, call)
      answer = ask("by" => by, "call" => call)
      while answer.key?("meanwhile")
        @meanwhile.call(call[2]["meanwhile"])
        answer = ask("made" => true)
      end
      Outcome.new(*answer.values_at("returns", "makes", "raises"))
    end

    private

    def ask(order)
      input, output = SharingClients.python
      input.puts(JSON.dump(order))
      JSON.parse(output.gets)
    end
  end

  # Its input and output.
  def self.python
    @python ||= Open3.popen2(*InPython::PROGRAM, Support.memcached.address).tap do |input, _output, process|
      Minitest.after_run do
        input.close
        process.join
      end
    end
  end
end
