<?php
// Predis: the library in PHP. An error is an exception; a transaction is given as a function.

declare(strict_types=1);

require_once 'Predis/Autoloader.php';

use Predis\Client;
use Predis\Collection\Iterator\HashKey;
use Predis\Collection\Iterator\Keyspace;
use Predis\CommunicationException;
use Predis\Response\ServerException;
use Predis\Transaction\AbortedMultiExecException;

Predis\Autoloader::register();

final class PredisClient
{
    private Client $redis;

    public function __construct(private int $port)
    {
        $this->redis = $this->client();
    }

    public function connect(): void
    {
        expect((string) $this->redis->ping(), 'PONG');
        expect(preg_match('/^\d+\.\d+/', $this->redis->info('server')['Server']['redis_version']), 1);
        $other = $this->client(['database' => 2]);
        expect((string) $other->client('setname', 'named'), 'OK');
        expect($other->client('getname'), 'named');
        $other->disconnect();
    }

    public function strings(): void
    {
        $r = $this->redis;
        expect((string) $r->set('string:bytes', everyByte()), 'OK');
        expect($r->get('string:bytes'), everyByte());
        expect($r->get('string:no'), null);
        expect((string) $r->set('string:new', 'a', 'ex', 100, 'nx'), 'OK');
        expect($r->set('string:new', 'b', 'nx'), null);
        expect($r->ttl('string:new'), 100);
        expect($r->append('string:new', '!!'), 3);
        expect($r->getset('string:new', '7'), 'a!!');
        expect($r->incrby('string:new', 5), 12);
        expect((string) $r->hmset('hash', ['a' => 1, 'b' => 'two']), 'OK');
        expect($r->hgetall('hash'), ['a' => '1', 'b' => 'two']);
        expect($r->zadd('zset', ['a' => 1.5, 'b' => -2]), 2);
        expect($r->zrange('zset', 0, -1, ['withscores' => true]), ['b' => '-2', 'a' => '1.5']);
    }

    public function pipeline(): void
    {
        $replies = $this->redis->pipeline(function ($pipe) {
            foreach (keys('pipe', 500) as $n => $name) {
                $pipe->set($name, $n);
                $pipe->get($name);
            }
        });
        $expected = array_merge(...array_map(fn ($n) => ['OK', (string) $n], range(0, 499)));
        expect(array_map('strval', $replies), $expected);
    }

    /** Also commands whose keys must be on one node of a Redis Cluster. */
    public function multiKey(): void
    {
        $r = $this->redis;
        $names = keys('multi', 100);
        $values = array_map('strval', range(0, 99));
        expect((string) $r->mset(array_combine($names, $values)), 'OK');
        expect($r->mget([...$names, 'multi:no']), [...$values, null]);
        expect((string) $r->rename('multi:0', 'multi:renamed'), 'OK');
        expect($r->msetnx(['multi:1' => 'x', 'multi:other' => 'y']), 0);
        foreach (keys('multi:set', 20) as $n => $name) {
            $r->sadd($name, [$n, $n + 1]);
        }
        expectEachOnce($r->sunion(keys('multi:set', 20)), array_map('strval', range(0, 20)));
        expect($r->sinterstore('multi:both', ['multi:set:3', 'multi:set:4']), 1);
        expect($r->smembers('multi:both'), ['4']);
        expect($r->del($names), 99);
    }

    public function scan(): void
    {
        $r = $this->redis;
        $names = keys('scan', 1000);
        $r->pipeline(function ($pipe) use ($names) {
            foreach ($names as $n => $name) {
                $pipe->set($name, $n);
                $pipe->hset('scanned', $name, $n);
            }
        });
        foreach ([10, 300] as $count) {
            expectEachOnce(iterator_to_array(new Keyspace($r, 'scan:*', $count), false), $names);
        }
        expectEachOnce(array_keys(iterator_to_array(new HashKey($r, 'scanned'))), $names);
        expectEachOnce($r->keys('scan:*'), $names);
    }

    public function scripts(): void
    {
        $r = $this->redis;
        $source = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}";
        expect($r->eval($source, 1, 'script', 5), ['script', 5]);
        $digest = $r->script('load', $source);
        expect($r->script('exists', $digest, str_repeat('0', 40)), [1, 0]);
        // Enough keys that every shard runs it.
        foreach (keys('script', 40) as $name) {
            expect($r->evalsha($digest, 1, $name, 7), [$name, 7]);
        }
        expectError(ServerException::class, 'NOSCRIPT', fn () => $r->evalsha(str_repeat('0', 40), 1, 'script'));
    }

    public function errors(): void
    {
        $r = $this->redis;
        $r->set('errors', 'x');
        expectError(ServerException::class, 'WRONGTYPE', fn () => $r->lpush('errors', ['x']));
        expectError(ServerException::class, 'ERR value is not an integer', fn () => $r->incr('errors'));
        expect(substr($r->executeRaw(['NOSUCH']), 0, 19), 'ERR unknown command');
        expectError(ServerException::class, 'WRONGTYPE', fn () => $r->pipeline(function ($pipe) {
            $pipe->rpush('errors', ['y']);
            $pipe->get('errors');
        }));
        // Predis has closed the connection: replies of the pipeline were not read.
        expect($r->get('errors'), 'x');
    }

    /** Over all shards: a part on each, with replies in the order of the commands. */
    public function transactions(): void
    {
        $r = $this->redis;
        $names = keys('tx', 100);
        $replies = $r->transaction(function ($tx) use ($names) {
            foreach ($names as $name) {
                $tx->set($name, 1);
            }
        });
        expect(array_map('strval', $replies), array_fill(0, 100, 'OK'));
        $replies = $r->transaction(function ($tx) use ($names) {
            foreach ($names as $name) {
                $tx->incr($name);
            }
            $tx->mget($names);
            $tx->publish('tx:channel', 'x');
            $tx->del(array_slice($names, 0, 50));
        });
        expect($replies, [...array_fill(0, 100, 2), array_fill(0, 100, '2'), 0, 50]);
        expectError(ServerException::class, 'WRONGTYPE', fn () => $r->transaction(function ($tx) {
            $tx->incr('tx:60');
            $tx->lpush('tx:61', ['x']);
            $tx->incr('tx:62');
        }));
        // One command's error does not keep the others from running.
        expect($r->mget(['tx:60', 'tx:61', 'tx:62']), ['3', '2', '3']);
        expectError(AbortedMultiExecException::class, 'The current transaction', fn () => $this->watched('tx:60'));
        expect(array_map('strval', $this->watched('tx:70')), ['OK', 'OK']);
    }

    public function blocking(): void
    {
        $popped = beside(fn () => $this->client()->blpop(keys('blocking', 20), PATIENCE));
        $this->untilSomebodyWaits();
        expect($this->redis->rpush('blocking:7', ['x', 'y']), 2);
        expect($popped(), ['blocking:7', 'x']);
        $moved = beside(fn () => $this->client()->brpoplpush('from{t}', 'to{t}', PATIENCE));
        $this->untilSomebodyWaits();
        expect($this->redis->lpush('from{t}', ['z']), 1);
        expect($moved(), 'z');
        expect($this->redis->lrange('to{t}', 0, -1), ['z']);
        expect($this->redis->executeRaw(['BRPOP', ...keys('blocking:none', 5), '0.05']), null);
    }

    public function pubsub(): void
    {
        $subscriber = $this->client();
        $loop = $subscriber->pubSubLoop();
        $loop->subscribe('news:a', 'news:b');
        $loop->psubscribe('news:*');
        $told = function (int $count) use ($loop): array {
            $told = [];
            while (count($told) < $count) {
                $message = $loop->current();
                $told[] = "$message->kind $message->channel $message->payload";
            }
            return $told;
        };
        expectEachOnce($told(3), ['subscribe news:a 1', 'subscribe news:b 2', 'psubscribe news:* 3']);
        expect($this->redis->publish('news:a', 'x'), 2);
        expect($this->redis->publish('news:other', 'y'), 1);
        // Between channels there is no order: each has its shard.
        expectEachOnce($told(3), ['message news:a x', 'pmessage news:a x', 'pmessage news:other y']);
        foreach (range(0, 99) as $n) {
            $this->redis->publish('news:b', (string) $n);
        }
        $heard = array_filter($told(200), fn ($message) => str_starts_with($message, 'message'));
        expect(array_values($heard), array_map(fn ($n) => "message news:b $n", range(0, 99)));
        $loop->stop(true);
        eventually('nobody listens', fn () => $this->redis->publish('news:a', 'z') === 0);
    }

    public function reconnect(): void
    {
        restart();
        eventually('the request succeeds', function (): bool {
            try {
                return (string) $this->redis->set('reconnect', 'again') === 'OK';
            } catch (CommunicationException | ErrorException) {
                return false;
            }
        });
        foreach (range(1, 100) as $_) {
            expect($this->redis->get('reconnect'), 'again');
        }
    }

    private function client(array $parameters = []): Client
    {
        $common = ['host' => '127.0.0.1', 'port' => $this->port, 'timeout' => PATIENCE];
        return new Client($common + ['read_write_timeout' => 2 * PATIENCE] + $parameters);
    }

    /** A transaction over several shards that watches keys, while another client writes to `written`. */
    private function watched(string $written): array
    {
        $options = ['watch' => ['tx:60', 'tx:61', 'tx:62'], 'cas' => true];
        return $this->redis->transaction($options, function ($tx) use ($written) {
            // Predis sends WATCH with the first command.
            $tx->get('tx:60');
            $this->client()->set($written, '5');
            $tx->multi();
            $tx->set('tx:60', '9');
            $tx->set('tx:63', '9');
        });
    }

    /** Returns when a client's request waits. */
    private function untilSomebodyWaits(): void
    {
        $waits = fn ($client) => str_contains($client['flags'], 'b');
        eventually('a client waits', fn () => array_filter($this->redis->client('list'), $waits) !== []);
    }
}
