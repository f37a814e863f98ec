<?php
// Typical uses of a Redis library, against the endpoint on 127.0.0.1:<port>, whose keyspace should be empty.
//
//     php main.php <phpredis|predis> <port> emulate
//
// tests/clients/README.md defines its output. A check throws on an unexpected result.

declare(strict_types=1);

require __DIR__ . '/checks.php';

// Debian's Predis is older than the warnings of this PHP.
error_reporting(E_ALL & ~E_DEPRECATED);
// A warning is a failure of the check in which it comes.
set_error_handler(function (int $level, string $text, string $file, int $line): bool {
    if (!(error_reporting() & $level)) {
        return false;
    }
    throw new ErrorException($text, 0, $level, $file, $line);
});

const LIBRARIES = ['phpredis' => 'PhpRedis', 'predis' => 'PredisClient'];

[, $library, $port, $setup] = $argv + [null, '', '', ''];
if ($argc !== 4 || !isset(LIBRARIES[$library]) || (int) $port <= 0 || $setup !== 'emulate') {
    fwrite(STDERR, "usage: php main.php <phpredis|predis> <port> emulate\n");
    exit(2);
}
require __DIR__ . "/$library.php";
exit(run(new (LIBRARIES[$library])((int) $port)));
