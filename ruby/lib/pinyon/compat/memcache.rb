# frozen_string_literal: true

# The common methods of two older clients: {Pinyon::Compat::MemCache} for memcache-client, {Pinyon::Compat::Memcached}
# for the gem memcached.
require "pinyon"
require "pinyon/compat/as_stored"
require "pinyon/compat/memcache/values"
require "pinyon/compat/memcache/mem_cache"
require "pinyon/compat/memcache/memcached"
