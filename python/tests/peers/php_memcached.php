<?php
// Stores PHP values with php-memcached, and shows how it reads Pinyon's. __init__.py describes the output.

function shown($value) {
    if (is_array($value)) {
        $parts = [];
        foreach ($value as $key => $item) {
            $parts[] = shown($key) . ' => ' . shown($item);
        }
        return '[' . implode(', ', $parts) . ']';
    }
    if (!is_string($value)) {
        return is_null($value) ? 'NULL' : var_export($value, true);
    }
    $length = strlen($value);
    $text = $length > 60 ? substr($value, 0, 10) . "... ($length bytes)" : $value;
    return json_encode($text) ?: '0x' . bin2hex($text);
}

[, $host, $port, $names] = $argv;
$cache = new Memcached();
$cache->addServer($host, (int) $port);
// The default depends on the system: it is igbinary in Debian 13.
$cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_PHP);
$long = str_repeat('a value like any other, ', 1000);
$values = [
    'bytes' => "\x00\xffbytes", 'text' => 'größer 🌲', 'empty-text' => '', 'integer' => 42, 'negative' => -7,
    'large-integer' => 2 ** 40, 'float' => 1.5, 'infinite' => INF, 'true' => true, 'false' => false, 'none' => null,
    'list' => [1, 'zwei', null, [true, 2.5]], 'dict' => ['name' => 'Ada', 'größe' => 36], 'long-text' => $long,
    'object' => [new ArrayObject()],
];
$one = ['a'];
$values['shared'] = [&$one, &$one];
$cache->setOption(Memcached::OPT_COMPRESSION, true);
$cache->setOption(Memcached::OPT_COMPRESSION_TYPE, Memcached::COMPRESSION_ZLIB);
$wrote = [];
foreach ($values as $name => $value) {
    $cache->set("theirs:$name", $value) and $wrote[] = $name;
}
$cache->setOption(Memcached::OPT_COMPRESSION_TYPE, Memcached::COMPRESSION_FASTLZ);
$cache->set('theirs:fastlz', $long) and $wrote[] = 'fastlz';
$others = ['json' => 'SERIALIZER_JSON_ARRAY', 'igbinary' => 'SERIALIZER_IGBINARY', 'msgpack' => 'SERIALIZER_MSGPACK'];
foreach ($others as $name => $serializer) {
    if ($cache->setOption(Memcached::OPT_SERIALIZER, constant("Memcached::$serializer"))) {
        $cache->set("theirs:$name", $values['dict']) and $wrote[] = $name;
    }
}
$cache->setOption(Memcached::OPT_SERIALIZER, Memcached::SERIALIZER_PHP);
$read = [];
foreach (json_decode($names) as $name) {
    $value = $cache->get("ours:$name");
    $read[$name] = $cache->getResultCode() === 0 ? shown($value) : $cache->getResultMessage();
}
echo json_encode(['version' => 'php-memcached ' . phpversion('memcached'), 'wrote' => $wrote, 'read' => $read]);
