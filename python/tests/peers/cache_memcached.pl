# Stores Perl values with Cache::Memcached or Cache::Memcached::Fast, and shows how it reads Pinyon's. __init__.py
# describes the output.
use strict;
use warnings;
use utf8;
use JSON::PP;

my ($class, $server, $names) = @ARGV;
eval "require $class" or die $@;
my %more = $class =~ /Fast/ ? (utf8 => 1) : ();
my $cache = $class->new({ servers => [$server], compress_threshold => 10_000, %more });

sub shown {
    my ($value) = @_;
    return 'undef' unless defined $value;
    return '[' . join(', ', map { shown($_) } @$value) . ']' if ref $value eq 'ARRAY';
    return '{' . join(', ', map { shown($_) . ' => ' . shown($value->{$_}) } sort keys %$value) . '}' if ref $value eq 'HASH';
    return ref $value if ref $value;
    my $kind = utf8::is_utf8($value) ? 'text' : 'bytes';
    my $length = length $value;
    my $text = $length > 60 ? substr($value, 0, 10) . "… ($length)" : $value;
    $text =~ s/([^ -~…])/sprintf '\\x{%x}', ord $1/ge;
    return "$kind:\"$text\"";
}

my %values = (
    'bytes' => "\x00\xffbytes", 'text' => 'größer 🌲', 'empty-text' => '', 'integer' => 42, 'negative' => -7,
    'large-integer' => 2**40, 'float' => 1.5, 'infinite' => 9**9**9, 'list' => [1, 'two', undef, [2.5]],
    'dict' => { name => 'Ada', age => 36 }, 'text-keys' => { 'größe' => '🌲' },
    'long-text' => 'a value like any other, ' x 1000, 'object' => [bless({}, 'Some::Class')],
);
my $shared = ['a'];
$values{shared} = [$shared, $shared];
# Cache::Memcached accepts only bytes.
utf8::encode($values{text}) unless $class =~ /Fast/;
$cache->set("theirs:$_", $values{$_}) for sort keys %values;
my %read = map { $_ => shown($cache->get("ours:$_")) } @{ decode_json($names) };
my $version = $class->VERSION;
binmode STDOUT, ':raw';
print encode_json({ version => "$class $version", wrote => [sort keys %values], read => \%read });
