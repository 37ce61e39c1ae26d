# frozen_string_literal: true

# A site with Rails' cache and sessions on memcached (MEMCACHE_SERVERS), for the tests. It logs to LOG, and waits
# for memcached for TIMEOUT seconds.

require "action_controller/railtie"
require "pinyon"

TIMEOUT = Float(ENV.fetch("TIMEOUT", 60))

# The application.
class Site < Rails::Application
  config.load_defaults Rails::VERSION::STRING.to_f
  config.root = __dir__
  config.eager_load = true
  config.hosts.clear
  config.secret_key_base = "secret" * 10
  config.logger = Logger.new(ENV.fetch("LOG"), level: :info)
  config.cache_store = :pinyon_store, { namespace: "site", timeout: TIMEOUT, connect_timeout: TIMEOUT }
  config.session_store :pinyon_session_store, key: "site", expire_after: 86_400, timeout: TIMEOUT,
                                              connect_timeout: TIMEOUT
end

# Answers in one line.
class PagesController < ActionController::Base
  def cached
    render plain: Rails.cache.fetch("page", expires_in: 3600) { "made by #{Process.pid}" }
  end

  def page
    name = params[:name]
    render plain: Rails.cache.fetch("page #{name}", expires_in: 3600) { "page #{name} made by #{Process.pid}" }
  end

  def visit
    render plain: "#{Process.pid} #{Rails.cache.increment("visits")}"
  end

  def count
    session[:count] = session[:count].to_i + 1
    flash[:said] = :before
    render plain: session[:count].to_s
  end

  # Whose session it is, and how many visits it has seen.
  def mine
    session[:visitor] ||= params[:visitor]
    session[:visits] = session[:visits].to_i + 1
    render plain: "#{session[:visitor]} #{session[:visits]}"
  end

  def out
    reset_session
    render plain: "out"
  end
end

Rails.application.initialize!
Rails.application.routes.draw do
  %w[cached page visit count mine out].each { |page| get page, to: "pages##{page}" }
end
# The client has a connection before the server forks.
Rails.cache.write("begun", Process.pid)

run Rails.application
