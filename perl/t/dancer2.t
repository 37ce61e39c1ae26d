use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use Test::More;

use Servers qw(have_server memcached cache GENEROUS);

BEGIN {
    plan skip_all => 'Dancer2 is not installed'   if !eval { require Dancer2; require Plack::Test; 1 };
    plan skip_all => 'memcached is not installed' if !have_server('memcached');
}
use HTTP::Request::Common qw(GET);

my $memcached = memcached();
my %generous  = ( timeout => GENEROUS, connect_timeout => GENEROUS );

# Sessions of an application, on the server.
{

    package Shop;
    use Dancer2;

    set engines => { session =>
            { Pinyon => { servers => [ $memcached->{address} ], session_duration => 500, cookie_name => 'shop', %generous } } };
    set session => 'Pinyon';
    set logger  => 'null';

    get '/' => sub {
        my $visits = ( session('visits') // 0 ) + 1;
        session visits => $visits;
        return $visits;
    };
    get '/login'  => sub { app->change_session_id };
    get '/logout' => sub { app->destroy_session; 'bye' };
}

# Asks with a cookie, and returns the answer and the session's number in the cookie.
my $test = Plack::Test->create( Shop->to_app );

sub ask {
    my ( $path, $id ) = @_;
    my $response = $test->request( GET $path, defined $id ? ( Cookie => "shop=$id" ) : () );
    my ($given) = ( $response->header('Set-Cookie') // q{} ) =~ /shop=([^;]+)/;
    return ( $response->content, $given, $response->code );
}

my $stored = cache( namespace => 'session:' );
my ( $visits, $ada )   = ask('/');
my ( undef,   $grace ) = ask('/');
is $visits,                   1,      'a visitor has a session';
isnt $ada,                    $grace, 'each one has another';
is + ( ask( '/', $ada ) )[0], 2,      'which is kept';
is_deeply $stored->get($ada), { visits => 2 }, 'on the server';
my $ttl = $stored->get_with_ttl($ada)->[1];
ok $ttl > 300 && $ttl <= 500, 'as long as session_duration says';

my ( $renamed, $given ) = ask( '/login', $ada );
is $renamed,                    $given, 'a session gets another number';
is $stored->get($ada),          undef,  'and leaves the old one';
is + ( ask( '/', $given ) )[0], 3,      'with what it had';

ask( '/logout', $given );
is $stored->get($given), undef, 'a session ends';
my ( $first, $other ) = ask( '/', $given );
is $first,   1,      'its number is worth nothing';
isnt $other, $given, 'and is not taken up again';

# A visitor whose server fails is not logged out.
$memcached->pause;
my $engine = Dancer2::Session::Pinyon->new( servers => [ $memcached->{address} ], timeout => 0.05 );
ok !eval { $engine->retrieve( id => $grace ); 1 }, 'a server that fails is no session that is missing';
isa_ok $@, 'Pinyon::Error::Timeout';
$memcached->resume;
is_deeply +Dancer2::Session::Pinyon->new( servers => [ $memcached->{address} ], %generous )->retrieve( id => $grace )->data,
    { visits => 1 }, 'the session is there when the server is';

my $missing = Dancer2::Session::Pinyon->new( servers => ['127.0.0.1:1'], on_failure => 'miss' );
ok !eval { $missing->retrieve( id => $grace ); 1 }, 'by on_failure it is missing';
like $@, qr/\AUnable to retrieve session/, 'as Dancer2 says it';

ok !eval { Dancer2::Session::Pinyon->new( servrs => ['127.0.0.1:1'] ); 1 }, 'a setting that does not exist';
like $@, qr/did you mean "servers"/, 'is refused';

$memcached->stop;
my ( undef, $new, $code ) = ask( '/', $grace );
is $code, 500,   'a request whose session cannot be read fails';
is $new,  undef, 'and its visitor keeps the cookie';

is_deeply $engine->sessions, [], 'sessions are not listed';

done_testing;
