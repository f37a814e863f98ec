<?php
// The checks of both libraries, their report, and their helpers.

declare(strict_types=1);

/** In their order; a library has a method for each, without the hyphens. */
const CHECKS = [
    'connect', 'strings', 'pipeline', 'multi-key', 'scan', 'scripts', 'errors', 'transactions', 'blocking', 'pubsub',
    'reconnect',
];

/** Seconds: longer than any check takes on a busy machine. */
const PATIENCE = 30;

/** Runs all checks and prints a line for each; gives the exit code. */
function run(object $library): int
{
    $failed = 0;
    foreach (CHECKS as $name) {
        try {
            $library->{str_replace('-', '', $name)}();
            echo "ok $name\n";
        } catch (Throwable $error) {
            $failed = 1;
            echo "not ok $name: ", preg_replace('/\s+/', ' ', reason($error)), "\n";
        }
    }
    echo "done\n";
    return $failed;
}

/** The error, and where it comes from: the last place in a library's file. */
function reason(Throwable $error): string
{
    $frames = [['file' => $error->getFile(), 'line' => $error->getLine()], ...$error->getTrace()];
    $own = array_filter($frames, fn ($frame) => isset($frame['file']) && dirname($frame['file']) === __DIR__
        && basename($frame['file']) !== 'checks.php');
    $place = $own ? basename(reset($own)['file']) . ':' . reset($own)['line'] : '';
    return get_class($error) . ": {$error->getMessage()} ($place)";
}

function expect(mixed $actual, mixed $expected): void
{
    if ($actual !== $expected) {
        throw new RuntimeException(abridged($actual) . ' instead of ' . abridged($expected));
    }
}

/** That `found` has every one of `expected` once, in any order. */
function expectEachOnce(array $found, array $expected): void
{
    sort($found);
    sort($expected);
    expect($found, $expected);
}

/** That `work` throws an error of this class, whose text begins with `start`. */
function expectError(string $class, string $start, callable $work): void
{
    try {
        $result = $work();
    } catch (Exception $error) {
        expect([get_class($error), substr($error->getMessage(), 0, strlen($start))], [$class, $start]);
        return;
    }
    throw new RuntimeException(abridged($result) . ' instead of an error');
}

/** Waits until `holds` gives true. */
function eventually(string $what, callable $holds): void
{
    $deadline = microtime(true) + PATIENCE;
    while (!$holds()) {
        if (microtime(true) > $deadline) {
            throw new RuntimeException('not so after ' . PATIENCE . " s: $what");
        }
        usleep(5000);
    }
}

/** Starts `work` in a process of its own. Gives a function that waits for the result. */
function beside(callable $work): Closure
{
    [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
    $child = pcntl_fork();
    if ($child === 0) {
        try {
            $result = $work();
        } catch (Throwable $error) {
            $result = reason($error);
        }
        fwrite($theirs, json_encode($result));
        // Not exit, which would end the connections of the parent in their own way.
        posix_kill(getmypid(), SIGKILL);
    }
    fclose($theirs);
    return function () use ($ours, $child): mixed {
        $text = stream_get_contents($ours);
        pcntl_waitpid($child, $status);
        return json_decode($text, true);
    };
}

/** Asks for a restart of the proxy, and waits for it. */
function restart(): void
{
    echo "restart?\n";
    expect(fgets(STDIN), "restarted\n");
}

/** `count` keys, in the order of their numbers; they spread over all shards. */
function keys(string $prefix, int $count): array
{
    return array_map(fn (int $n) => "$prefix:$n", range(0, $count - 1));
}

/** Every byte, of which some end a line or begin a reply. */
function everyByte(): string
{
    return implode('', array_map('chr', range(0, 255)));
}

function abridged(mixed $value): string
{
    $text = json_encode($value, JSON_INVALID_UTF8_SUBSTITUTE);
    return strlen($text) <= 200 ? $text : substr($text, 0, 100) . ' … ' . substr($text, -90);
}
