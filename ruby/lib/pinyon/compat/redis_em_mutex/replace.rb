# frozen_string_literal: true

require "pinyon/compat/redis_em_mutex"

# Redis::EM::Mutex itself, for programs that are not to be changed.
class Redis
  # Its namespace.
  module EM
    remove_const(:Mutex) if const_defined?(:Mutex, false)
    # Pinyon's interface for programs that use redis-em-mutex.
    Mutex = Pinyon::Compat::RedisEMMutex
  end
end
