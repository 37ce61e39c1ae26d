# frozen_string_literal: true

require "action_dispatch"
require "pinyon/compat/dalli"
require "pinyon/compat/memcache"
require "pinyon/compat/redis_em_mutex"
require "pinyon/compat/redlock"
require "pinyon/eventmachine"
require "active_support/cache/pinyon_store"
require "action_dispatch/session/pinyon_session_store"
require "pinyon/railtie"
require "pinyon/unique"
require "pinyon/unique/active_job"
require "pinyon/unique/sidekiq"
# The bundler of Ruby 3.1.2, which rbs loads, needs it and does not ask for it.
require "rubygems/source"
require "rbs"
require "rbs/test"

# The library's modules, and their signatures in `sig`.
module Signatures
  FOLDER = File.expand_path("../sig", __dir__)
  LIBRARIES = %w[timeout].freeze
  OUTSIDE = [
    ActiveSupport::Cache::PinyonStore, Rack::Session::Pinyon, ActionDispatch::Session::PinyonSessionStore
  ].freeze

  module_function

  def environment
    @environment ||= begin
      loader = RBS::EnvironmentLoader.new
      LIBRARIES.each { |library| loader.add(library:, version: nil) }
      loader.add(path: Pathname(FOLDER))
      RBS::Environment.from_loader(loader).resolve_type_names
    end
  end

  # All modules of the library that programs can name.
  def modules
    [Pinyon, *OUTSIDE].flat_map { |each| within(each) }.uniq
  end

  def within(parent)
    nested = parent.constants(false).map { |name| parent.const_get(name) }.grep(Module)
    [parent, *nested.select { |each| each.name.start_with?("#{parent.name}::") }.flat_map { |each| within(each) }]
  end

  # The names of the modules in the folder's signatures, by how Ruby says them.
  def declared
    ours = environment.class_decls.select { |_, entry| entry.decls.any? { |each| ours?(each.decl) } }
    ours.keys.to_h { |name| [name.to_s.delete_prefix("::"), name] }.select { |name, _| name.include?("Pinyon") }
  end

  # The methods that are declared for a module: its own, then those of its singleton.
  def declared_methods(type_name)
    members = environment.class_decls.fetch(type_name).decls.flat_map { |each| each.decl.members }
    %i[instance singleton].map { |kind| members.flat_map { |member| names(member, kind) }.uniq }
  end

  def names(member, kind)
    ast = RBS::AST::Members
    case member
    when ast::MethodDefinition then [kind, :singleton_instance].include?(member.kind) ? [member.name] : []
    when ast::Alias then member.kind == kind ? [member.new_name] : []
    when ast::AttrReader then member.kind == kind ? [member.name] : []
    when ast::AttrWriter then member.kind == kind ? [:"#{member.name}="] : []
    when ast::AttrAccessor then member.kind == kind ? [member.name, :"#{member.name}="] : []
    else []
    end
  end

  def ours?(declaration)
    declaration.location.buffer.name.to_s.start_with?(FOLDER)
  end
end
