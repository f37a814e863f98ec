<?php
// phpredis: the extension in C. An error is `false`, and the text is asked for.

declare(strict_types=1);

final class PhpRedis
{
    private Redis $redis;

    public function __construct(private int $port)
    {
        $this->redis = $this->client();
    }

    public function connect(): void
    {
        expect($this->redis->ping(), true);
        expect(preg_match('/^\d+\.\d+/', $this->redis->info()['redis_version']), 1);
        $named = $this->client();
        expect($named->client('setname', 'named'), true);
        expect($named->client('getname'), 'named');
        expect($named->select(2), true);
        expect($named->getDbNum(), 2);
        $named->close();
    }

    public function strings(): void
    {
        $r = $this->redis;
        expect($r->set('string:bytes', everyByte()), true);
        expect($r->get('string:bytes'), everyByte());
        expect($r->get('string:no'), false);
        expect($r->set('string:new', 'a', ['nx', 'ex' => 100]), true);
        expect($r->set('string:new', 'b', ['nx']), false);
        expect($r->ttl('string:new'), 100);
        expect($r->append('string:new', '!!'), 3);
        expect($r->getSet('string:new', '7'), 'a!!');
        expect($r->incrBy('string:new', 5), 12);
        expect($r->hMSet('hash', ['a' => 1, 'b' => 'two']), true);
        expect($r->hGetAll('hash'), ['a' => '1', 'b' => 'two']);
        expect($r->zAdd('zset', 1.5, 'a', -2, 'b'), 2);
        expect($r->zRange('zset', 0, -1, true), ['b' => -2.0, 'a' => 1.5]);
    }

    public function pipeline(): void
    {
        $pipe = $this->redis->multi(Redis::PIPELINE);
        $expected = [];
        foreach (keys('pipe', 500) as $n => $name) {
            $pipe->set($name, (string) $n)->get($name);
            array_push($expected, true, (string) $n);
        }
        expect($pipe->exec(), $expected);
    }

    /** Also commands whose keys must be on one node of a Redis Cluster. */
    public function multiKey(): void
    {
        $r = $this->redis;
        $names = keys('multi', 100);
        $values = array_map('strval', range(0, 99));
        expect($r->mSet(array_combine($names, $values)), true);
        expect($r->mGet([...$names, 'multi:no']), [...$values, false]);
        expect($r->exists([...$names, 'multi:no']), 100);
        expect($r->rename('multi:0', 'multi:renamed'), true);
        expect($r->mSetNX(['multi:1' => 'x', 'multi:other' => 'y']), false);
        foreach (keys('multi:set', 20) as $n => $name) {
            $r->sAdd($name, $n, $n + 1);
        }
        expectEachOnce($r->sUnion(keys('multi:set', 20)), array_map('strval', range(0, 20)));
        expect($r->sInterStore('multi:both', 'multi:set:3', 'multi:set:4'), 1);
        expect($r->sMembers('multi:both'), ['4']);
        expect($r->del($names), 99);
    }

    public function scan(): void
    {
        $r = $this->redis;
        $names = keys('scan', 1000);
        $pipe = $r->multi(Redis::PIPELINE);
        foreach ($names as $n => $name) {
            $pipe->set($name, $n)->hSet('scanned', $name, (string) $n);
        }
        $pipe->exec();
        $r->setOption(Redis::OPT_SCAN, Redis::SCAN_RETRY);
        foreach ([10, 300] as $count) {
            [$cursor, $found] = [null, []];
            while (($page = $r->scan($cursor, 'scan:*', $count)) !== false) {
                array_push($found, ...$page);
            }
            expectEachOnce($found, $names);
        }
        [$cursor, $found] = [null, []];
        while (($page = $r->hScan('scanned', $cursor, '*', 100)) !== false) {
            array_push($found, ...array_keys($page));
        }
        expectEachOnce($found, $names);
        expectEachOnce($r->keys('scan:*'), $names);
    }

    public function scripts(): void
    {
        $r = $this->redis;
        $source = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}";
        expect($r->eval($source, ['script', 5], 1), ['script', 5]);
        $digest = $r->script('load', $source);
        expect($r->script('exists', $digest, str_repeat('0', 40)), [1, 0]);
        // Enough keys that every shard runs it.
        foreach (keys('script', 40) as $name) {
            expect($r->evalSha($digest, [$name, 7], 1), [$name, 7]);
        }
        expect($r->evalSha(str_repeat('0', 40), ['script'], 1), false);
        expect(substr($r->getLastError(), 0, 8), 'NOSCRIPT');
        $r->clearLastError();
    }

    public function errors(): void
    {
        $r = $this->redis;
        $r->set('errors', 'x');
        expect($r->lPush('errors', 'x'), false);
        expect(substr($r->getLastError(), 0, 9), 'WRONGTYPE');
        $r->clearLastError();
        expect($r->rawCommand('NOSUCH'), false);
        expect(substr($r->getLastError(), 0, 19), 'ERR unknown command');
        $r->clearLastError();
        expect($r->multi(Redis::PIPELINE)->incr('errors')->get('errors')->exec(), [false, 'x']);
        $r->clearLastError();
    }

    /** Over all shards: a part on each, with replies in the order of the commands. */
    public function transactions(): void
    {
        $r = $this->redis;
        $names = keys('tx', 100);
        $tx = $r->multi();
        foreach ($names as $name) {
            $tx->set($name, '1');
        }
        expect($tx->exec(), array_fill(0, 100, true));
        $tx = $r->multi();
        foreach ($names as $name) {
            $tx->incr($name);
        }
        $replies = $tx->mGet($names)->publish('tx:channel', 'x')->del(array_slice($names, 0, 50))->exec();
        expect($replies, [...array_fill(0, 100, 2), array_fill(0, 100, '2'), 0, 50]);
        expect($r->exists($names), 50);
        // One command's error does not keep the others from running.
        expect($r->multi()->incr('tx:60')->lPush('tx:61', 'x')->incr('tx:62')->exec(), [3, false, 3]);
        $r->clearLastError();
        expect($this->watched('tx:60'), false);
        expect($this->watched('tx:70'), [true, true]);
    }

    public function blocking(): void
    {
        $popped = beside(fn () => $this->client()->blPop(keys('blocking', 20), PATIENCE));
        $this->untilSomebodyWaits();
        expect($this->redis->rPush('blocking:7', 'x', 'y'), 2);
        expect($popped(), ['blocking:7', 'x']);
        $moved = beside(fn () => $this->client()->brpoplpush('from{t}', 'to{t}', PATIENCE));
        $this->untilSomebodyWaits();
        expect($this->redis->lPush('from{t}', 'z'), 1);
        expect($moved(), 'z');
        expect($this->redis->lRange('to{t}', 0, -1), ['z']);
        // Nothing came: for phpredis that is an array with nothing in it.
        expect($this->redis->rawCommand('BRPOP', ...keys('blocking:none', 5), ...['0.05']) ?: [], []);
    }

    public function pubsub(): void
    {
        $told = beside(function (): array {
            $told = [];
            $tell = function ($redis, $pattern, $channel, $message) use (&$told) {
                $told[] = "$pattern $channel $message";
                if ($message === 'end') {
                    $redis->close();
                }
            };
            try {
                $this->client()->psubscribe(['news:*', 'olds:*'], $tell);
            } catch (RedisException $error) {
                // The loop ends no other way than with the connection.
                expect($error->getMessage(), 'Connection closed');
            }
            return $told;
        });
        eventually('two patterns', fn () => $this->redis->pubsub('numpat') === 2);
        expect($this->redis->publish('news:a', 'x'), 1);
        expect($this->redis->publish('other', 'x'), 0);
        foreach (range(0, 99) as $n) {
            $this->redis->publish('news:a', (string) $n);
        }
        $this->redis->publish('news:a', 'end');
        $heard = array_map(fn ($message) => "news:* news:a $message", ['x', ...range(0, 99), 'end']);
        expect($told(), $heard);
        eventually('nobody listens', fn () => $this->redis->publish('news:a', 'z') === 0);
    }

    public function reconnect(): void
    {
        restart();
        eventually('the request succeeds', function (): bool {
            try {
                return $this->redis->set('reconnect', 'again');
            } catch (RedisException | ErrorException) {
                return false;
            }
        });
        foreach (range(1, 100) as $_) {
            expect($this->redis->get('reconnect'), 'again');
        }
    }

    private function client(): Redis
    {
        $redis = new Redis();
        $redis->connect('127.0.0.1', $this->port, PATIENCE);
        $redis->setOption(Redis::OPT_READ_TIMEOUT, (string) (2 * PATIENCE));
        return $redis;
    }

    /** The reply of EXEC for keys of several shards, some of them watched, after another client has written to `written`. */
    private function watched(string $written): array|false
    {
        $this->redis->watch(['tx:60', 'tx:61', 'tx:62']);
        $this->client()->set($written, '5');
        return $this->redis->multi()->set('tx:60', '9')->set('tx:63', '9')->exec();
    }

    /** Returns when a client's request waits. */
    private function untilSomebodyWaits(): void
    {
        $waits = fn ($client) => str_contains($client['flags'], 'b');
        eventually('a client waits', fn () => array_filter($this->redis->client('list'), $waits) !== []);
    }
}
