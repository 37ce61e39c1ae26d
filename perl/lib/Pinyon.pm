package Pinyon;

use 5.016;
use strict;
use warnings;

our $VERSION = '0.1.0';

require XSLoader;
XSLoader::load( 'Pinyon', $VERSION );

require Pinyon::Error;
require Pinyon::Values;
require Pinyon::Cache;
require Pinyon::MigratingCache;
require Pinyon::Locks;

1;

__END__

=encoding utf-8

=head1 NAME

Pinyon - one client for shared caches (memcached) and shared locks (Redis, Valkey)

=head1 SYNOPSIS

    use Pinyon;

    my $cache = Pinyon::Cache->new(servers => ['127.0.0.1:11211'], timeout => 0.5);
    $cache->set('user:1' => { name => 'Ada' }, 300);
    say $cache->get('user:1')->{name};    # Ada

    my $locks = Pinyon::Locks->new('redis://127.0.0.1:6379/0');
    my $lock  = $locks->lock('report');

=head1 DESCRIPTION

This module loads L<Pinyon::Cache>, L<Pinyon::Locks> and L<Pinyon::Error>. Pinyon has the same core in other languages: programs
in Perl, Python, Ruby and C share caches, values, leases and locks.

You need not do anything before or after a fork: a child opens connections of its own. Perl's threads share the connections.
Signal handlers run while Pinyon waits. If a handler dies, the wait ends. While the end of a scope releases a lock or gives back a
lease, handlers wait, and run after it.

=head1 SEE ALSO

L<Pinyon::Cache>, L<Pinyon::MigratingCache>, L<Pinyon::Locks>, L<Pinyon::Error>

=head1 LICENSE

MIT or Apache-2.0, as you like.

=cut
