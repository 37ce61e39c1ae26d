package PinyonBench::Client::PinyonFast;

# Pinyon with the interface of Cache::Memcached::Fast.

use v5.36;
use parent 'PinyonBench::Client::CacheMemcachedFast';
use Pinyon                               ();
use Pinyon::Compat::Cache_Memcached_Fast ();

sub library ($) {
    return 'Pinyon::Compat::Cache_Memcached_Fast';
}

sub version ($self) {
    return join ', ', Pinyon->VERSION, $self->{model}->version;
}

1;
