use 5.016;
use strict;
use warnings;

use FindBin qw($Bin);
use lib "$Bin/lib";
use File::Temp       ();
use IO::Socket::INET ();
use Test::More;

use Patient ();
use Servers qw(have_server root server eventually in_child);

plan skip_all => 'the page is in the checkout' if !root();
plan skip_all => "$_ is not installed" for grep { !have_server($_) } qw(memcached redis-server);

# The applications on the page about frameworks answer requests: in the framework's own way of testing, and in servers
# that fork.
my $page   = content( root() . '/docs/perl-frameworks.md' );
my $folder = File::Temp->newdir;
chmod 0755, $folder;

# By TCP, for Apache's processes are those of another user.
my $memcached = server( qw(memcached -U 0 -t 2 -l 127.0.0.1 -p PORT -u), scalar getpwuid $> );
my $redis     = server( qw(redis-server --bind 127.0.0.1 --dir FOLDER --save), q{}, qw(--port PORT) );
$ENV{MOJO_LOG_LEVEL} = 'fatal';
$ENV{PERL5LIB}       = join ':', grep { !ref } @INC;
$ENV{PERL5OPT}       = '-MPatient';

sub content {
    my ($path) = @_;
    open my $file, '<:raw', $path or die "$path: $!";
    local $/ = undef;
    return scalar <$file>;
}

# Writes the blocks of a section into files, on servers of this test.
sub written {
    my ( $title, @names ) = @_;
    my ($section) = $page =~ /^##[ ]\Q$title\E\n(.*?)(?=^##[ ]|\z)/ms or die "no section $title";
    my @blocks = $section =~ /^```perl\n(.*?)^```$/msg;
    is scalar @blocks, scalar @names, "the blocks of $title";
    my @files;
    for my $name (@names) {
        my $block = shift @blocks;
        $block =~ s{127[.]0[.]0[.]1:11211}{$memcached->{address}}g;
        $block =~ s{redis://127[.]0[.]0[.]1:6379/0}{redis://$redis->{address}/0}g;
        push @files, "$folder/$name";
        mkdir $files[-1] =~ s{/[^/]+\z}{}r;
        open my $file, '>', $files[-1] or die "$files[-1]: $!";
        print {$file} "use 5.016; use strict; use warnings;\n$block\n1;\n" =~ s/\n1;\n\z//r;
        close $file;
    }
    return @files;
}

# A browser that keeps its cookie: returns a sub that takes a path and returns what the application answers, or
# without a path the cookie.
sub visitor {
    my ( $app, $cookie ) = @_;
    require HTTP::Request;
    require Plack::Test;
    return sub {
        my ($path) = @_;
        return $cookie if !defined $path;
        my $request = HTTP::Request->new( GET => "http://localhost$path" );
        $request->header( Cookie => $cookie ) if defined $cookie;
        my $response;
        Plack::Test::test_psgi( app => $app, client => sub { $response = $_[0]->($request) } );
        ($cookie) = $_ =~ /\A([^;]+)/ for grep { defined } scalar $response->header('Set-Cookie');
        return $response->content;
    };
}

# Those of the modules that are not installed. They are loaded in children, each in the one of its framework.
sub missing {
    my @folders = grep { !ref } @INC;
    return grep {
        my $file = ( $_ =~ s{::}{/}gr ) . '.pm';
        !grep { -e "$_/$file" } @folders;
    } @_;
}

# Two visitors of an application that counts the visits of each.
sub check_sessions {
    my ( $title, $file, @modules ) = @_;
    SKIP: {
        skip "$title: $_ is not installed", 1 for missing( 'Plack', @modules );
        my $said = in_child {
            require Plack::Util;
            my $app = Plack::Util::load_psgi($file);
            my ( $ada, $grace ) = ( visitor($app), visitor($app) );
            return join '; ', map { $_->('/') } $ada, $ada, $grace, $ada;
        };
        is $said, 'visit 1; visit 2; visit 1; visit 3', "sessions: $title";
    }
    return;
}

check_sessions( 'Plack', written( 'Plack', 'plack.psgi' ), 'Plack::Middleware::Session' );

# The engine takes the settings that the page has in YAML.
SKIP: {
    skip 'Dancer2 is not installed', 1 if !eval { require Dancer2::Session::Pinyon; 1 };
    require CPAN::Meta::YAML;
    my ($yaml)   = $page =~ /^```yaml\n(.*?)^```/ms or die 'the page has no YAML';
    my $settings = CPAN::Meta::YAML->read_string($yaml)->[0];
    my $engine   = 'Dancer2::Session::' . $settings->{session};
    ok $engine->new( %{ $settings->{engines}{session}{ $settings->{session} } } ), 'settings of Dancer2 in YAML';
}

check_sessions( 'Dancer2', written( 'Dancer2', 'dancer2.psgi' ), 'Dancer2' );

my ($dancer) = written( 'Dancer', 'dancer.psgi' );
check_sessions( 'Dancer', $dancer, 'Dancer', 'Dancer::Session::Memcached' );
SKIP: {
    skip "Dancer: $_ is not installed", 1 for missing(qw(Plack Dancer Dancer::Session::Memcached Cache::Memcached));
    my $theirs = content($dancer) =~ s/^use Pinyon.*\n//mr;
    my ( $from, $id );

    # Their client has a quarter of a second to connect, and says nothing if that is too short.
    ok eventually {
        my $said = in_child {
            my $visitor = visitor( eval "package Theirs; $theirs" || die $@ );
            return join q{ }, $INC{'Cache/Memcached.pm'}, $visitor->('/'), $visitor->();
        };
        ( $from, $id ) = $said =~ m{(\S+) visit 1 (dancer[.]session=\w+)\z} or die $said;
        return stored( $id =~ s/.*=//r ) =~ /visits/;
    }, 'a session';
    unlike $from, qr/Pinyon/, 'of Cache::Memcached';
    is in_child { require Plack::Util; visitor( Plack::Util::load_psgi($dancer), $id )->('/') }, 'visit 2', 'goes on';
}

# What the server answers when it is asked for a key.
sub stored {
    my ($key) = @_;
    my $socket = IO::Socket::INET->new( PeerAddr => $memcached->{address} ) or die "$memcached->{address}: $!";
    print {$socket} "get $key\r\nquit\r\n";
    local $/ = undef;
    return scalar <$socket>;
}

# The application and its controller are files of a library.
my @catalyst = ( 'Catalyst', map { "Catalyst::Plugin::$_" } qw(Cache Session Session::State::Cookie Session::Store::Cache) );
mkdir "$folder/$_" for qw(lib lib/Shop);
written( 'Catalyst', 'lib/Shop.pm', 'lib/Shop/Controller/Root.pm' );
SKIP: {
    mkdir "$folder/lib/Shop/Controller";
    skip "Catalyst: $_ is not installed", 1 for missing(@catalyst);
    my $said = in_child {
        unshift @INC, "$folder/lib";
        require Shop;
        my $app = Shop->psgi_app;
        my ( $ada, $grace ) = ( visitor($app), visitor($app) );
        return join '; ', map { $_->('/') } $ada, $ada, $grace;
    };
    is $said, 'visit 1, page made; visit 2, page cached; visit 1, page cached', 'sessions and a cache: Catalyst';
}

my ($forking) = written( 'Starman, and other servers that fork', 'forking.psgi' );

# Asks several workers at the same time: each of them takes one connection.
sub ask_workers {
    my ($port) = @_;
    my @connections = map { IO::Socket::INET->new( PeerAddr => "127.0.0.1:$port" ) or return } 1 .. 4;
    print {$_} "GET / HTTP/1.0\r\n\r\n" for @connections;
    return map { local $/ = undef; scalar <$_> } @connections;
}

# Until two processes have answered. Then the numbers of all visits are different: the counter and the lock are shared.
sub check_workers {
    my ( $title, $server ) = @_;
    my ( %workers, @visits, $wrong );
    my $done = eventually {
        for my $answer ( ask_workers( $server->{port} ) ) {
            my ( $worker, $visit ) = $answer =~ /worker (\d+), visit (\d+)\z/ or $wrong = $answer;
            $workers{ $worker // 0 }++;
            push @visits, $visit // 0;
        }
        defined $wrong || keys %workers > 1;
    };
    ok $done && !defined $wrong, "$title: several processes have answered"
        or diag $wrong, map { content($_) } glob "$folder/*.log";
    is_deeply [ sort { $a <=> $b } @visits ], [ 1 .. @visits ], "$title: they share a counter";
    $server->signal('TERM');
    waitpid $server->{pid}, 0;
    return;
}

SKIP: {
    skip 'starman is not installed', 2 if !have_server('starman');
    check_workers( Starman => server( qw(starman --host 127.0.0.1 --workers 3 --preload-app --port PORT), $forking ) );
}

# Apache loads the application before it forks, too: by mod_perl, into processes of its own.
my $modules = '/usr/lib/apache2/modules';
SKIP: {
    skip 'apache2 with mod_perl is not installed', 2 if !-e "$modules/mod_perl.so" || missing('Plack');
    open my $file, '>', "$folder/apache.conf" or die "apache.conf: $!";
    print {$file} <<"CONFIGURATION";
ServerRoot $folder
ServerName localhost
PidFile $folder/apache.pid
ErrorLog $folder/apache.log
LoadModule mpm_prefork_module $modules/mod_mpm_prefork.so
LoadModule perl_module $modules/mod_perl.so
StartServers 3
LoadModule authz_core_module $modules/mod_authz_core.so
User nobody
Group #@{[ ( getpwnam 'nobody' )[3] ]}
PerlSwitches @{[ map { "-I$_ " } split /:/, $ENV{PERL5LIB} ]}
<Perl>
    require Plack::Handler::Apache2;
    Plack::Handler::Apache2->preload('$forking');
</Perl>
<Location />
    SetHandler perl-script
    PerlResponseHandler Plack::Handler::Apache2
    PerlSetVar psgi_app $forking
</Location>
CONFIGURATION
    close $file;

    # At its end, it ends its whole process group.
    my $start = qq{exec setsid /usr/sbin/apache2 -D FOREGROUND -f $folder/apache.conf -C "Listen 127.0.0.1:\$0"};
    check_workers( Apache => server( qw(sh -c), $start, 'PORT' ) );
}

# A client of an event loop that was used before the fork.
SKIP: {
    skip 'Mojolicious is not installed', 2 if missing('Mojolicious');
    open my $file, '>', "$folder/prefork.pl" or die "prefork.pl: $!";
    print {$file} <<"APPLICATION";
use Mojolicious::Lite -signatures;
use Pinyon::Mojo;
my \$cache = Pinyon::Mojo::Cache->new(servers => '$memcached->{address}');
\$cache->delete('visits')->wait;
get '/' => sub (\$c) {
    return \$cache->incr('visits', 1, initial => 1)->then(sub (\$visits) { \$c->render(text => "worker \$\$, visit \$visits") });
};
app->start;
APPLICATION
    close $file;
    my $start =
        qq{exec $^X $folder/prefork.pl prefork --workers 3 --pid-file $folder/prefork.pid --listen http://127.0.0.1:\$0};
    check_workers( Mojolicious => server( qw(sh -c), $start, 'PORT' ) );
}

# At the end, for the server goes away.
my ($mojo) = written( 'Mojolicious', 'mojo.pl' );
SKIP: {
    skip 'Mojolicious is not installed', 1 if missing('Mojolicious');
    my $said = in_child {
        require Mojo::Server;
        require Test::Mojo;
        my $browser = Test::Mojo->new( Mojo::Server->new->load_app($mojo) );
        my $before  = $browser->ua->get('/page/news')->result->body;
        $memcached->signal('KILL');
        return join '; ', $before, $browser->ua->get('/page/news')->result->body;
    };
    is $said, '<h1>news</h1>; <h1>news</h1>', 'an action of Mojolicious returns a promise, with and without its server';
}

done_testing;
