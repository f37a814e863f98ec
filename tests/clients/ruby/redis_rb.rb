# redis-rb: its pipelines, its `multi`, which many put around everything, and its subscriptions.

require 'redis'

class RedisRb
  include Checks

  # Every byte, of which some end a line or begin a reply.
  EVERY_BYTE = (0..255).map(&:chr).join.b

  def initialize(port)
    @port = port
    @redis = client
  end

  def checks
    %w[connect strings pipeline multi-key scan scripts errors transactions blocking pubsub reconnect]
  end

  def connect
    expect(@redis.ping, 'PONG')
    expect(@redis.info['redis_version'].match?(/\A\d+\.\d+/), true)
    named = client(id: 'named', db: 2)
    expect(named.connection[:db], 2)
    expect(named.call([:client, 'getname']), 'named')
    named.close
  end

  def strings
    expect(@redis.set('string:bytes', EVERY_BYTE), 'OK')
    expect(@redis.get('string:bytes').b, EVERY_BYTE)
    expect(@redis.get('string:no'), nil)
    expect(@redis.set('string:new', 'a', nx: true), true)
    expect(@redis.set('string:new', 'b', nx: true), false)
    expect(@redis.append('string:new', '!!'), 3)
    expect(@redis.getset('string:new', '7'), 'a!!')
    expect(@redis.incrby('string:new', 5), 12)
    expect(@redis.expire('string:new', 100), true)
    expect(@redis.ttl('string:new'), 100)
    expect(@redis.hset('hash', 'a', 1, 'b', 'two'), 2)
    expect(@redis.hgetall('hash'), { 'a' => '1', 'b' => 'two' })
    expect(@redis.zadd('zset', [[1.5, 'a'], [-2, 'b']]), 2)
    expect(@redis.zrange('zset', 0, -1, with_scores: true), [['b', -2.0], ['a', 1.5]])
  end

  def pipeline
    replies = @redis.pipelined do |pipe|
      500.times do |n|
        pipe.set("pipe:#{n}", n)
        pipe.get("pipe:#{n}")
      end
    end
    expect(replies, (0...500).flat_map { |n| ['OK', n.to_s] })
    futures = @redis.pipelined { |pipe| 100.times { |n| pipe.incr("pipe:#{n}") } }
    expect(futures, (1..100).to_a)
  end

  # Also commands whose keys must be on one node of a Redis Cluster.
  def multi_key
    names = keys('multi', 100)
    expect(@redis.mapped_mset(names.zip((0...100).map(&:to_s)).to_h), 'OK')
    expect(@redis.mapped_mget(*names).values, (0...100).map(&:to_s))
    expect(@redis.exists(*names, 'multi:no'), 100)
    expect(@redis.rename('multi:0', 'multi:renamed'), 'OK')
    expect(@redis.msetnx('multi:1', 'x', 'multi:other', 'y'), false)
    20.times { |n| @redis.sadd("multi:set:#{n}", [n, n + 1]) }
    expect(@redis.sunion(*keys('multi:set', 20)).map(&:to_i).sort, (0..20).to_a)
    expect(@redis.sinterstore('multi:both', 'multi:set:3', 'multi:set:4'), 1)
    expect(@redis.smembers('multi:both'), ['4'])
    expect(@redis.del(*names), 99)
  end

  def scan
    names = keys('scan', 1000)
    @redis.pipelined do |pipe|
      names.each_with_index do |name, n|
        pipe.set(name, n)
        pipe.hset('scanned', name, n)
      end
    end
    expect_each_once(@redis.scan_each(match: 'scan:*').to_a, names)
    expect_each_once(@redis.scan_each(match: 'scan:*', count: 300).to_a, names)
    expect_each_once(@redis.hscan_each('scanned').map(&:first), names)
    expect_each_once(@redis.keys('scan:*'), names)
  end

  def scripts
    source = "return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}"
    expect(@redis.eval(source, keys: ['script'], argv: [5]), ['script', 5])
    digest = @redis.script(:load, source)
    expect(@redis.script(:exists, [digest, '0' * 40]), [true, false])
    # Enough keys that every shard runs it.
    keys('script', 40).each { |name| expect(@redis.evalsha(digest, keys: [name], argv: [7]), [name, 7]) }
    expect_error(Redis::CommandError, 'NOSCRIPT') { @redis.evalsha('0' * 40, keys: ['script']) }
  end

  def errors
    @redis.set('errors', 'x')
    expect_error(Redis::CommandError, 'WRONGTYPE') { @redis.lpush('errors', 'x') }
    expect_error(Redis::CommandError, 'ERR value is not an integer') { @redis.incr('errors') }
    expect_error(Redis::CommandError, 'ERR unknown command') { @redis.call([:nosuch]) }
    expect_error(Redis::CommandError, 'WRONGTYPE') do
      @redis.pipelined { |pipe| %w[errors errors:new].each { |name| pipe.rpush(name, 'y') } }
    end
    expect([@redis.get('errors'), @redis.llen('errors:new')], ['x', 1])
  end

  # Over all shards: a part on each, with replies in the order of the commands.
  def transactions
    names = keys('tx', 100)
    expect(@redis.multi { |tx| names.each { |name| tx.set(name, 1) } }, ['OK'] * 100)
    replies = @redis.multi do |tx|
      names.each { |name| tx.incr(name) }
      tx.mget(*names)
      tx.publish('tx:channel', 'x')
      tx.del(*names[0, 50])
    end
    expect(replies, [2] * 100 + [['2'] * 100, 0, 50])
    expect(@redis.exists(*names), 50)
    expect_error(Redis::CommandError, 'WRONGTYPE') do
      @redis.multi do |tx|
        tx.incr('tx:60')
        tx.lpush('tx:61', 'x')
        tx.incr('tx:62')
      end
    end
    # One command's error does not keep the others from running.
    expect(@redis.mget('tx:60', 'tx:61', 'tx:62'), %w[3 2 3])
    watched('tx:60', nil)
    watched('tx:70', ['OK', 'OK'])
  end

  def blocking
    popped = Thread.new { client.blpop(*keys('blocking', 20), timeout: PATIENCE) }
    until_somebody_waits
    expect(@redis.rpush('blocking:7', %w[x y]), 2)
    expect(popped.value, ['blocking:7', 'x'])
    moved = Thread.new { client.brpoplpush('from{t}', 'to{t}', timeout: PATIENCE) }
    until_somebody_waits
    expect(@redis.lpush('from{t}', 'z'), 1)
    expect(moved.value, 'z')
    expect(@redis.lrange('to{t}', 0, -1), ['z'])
    expect(@redis.brpop(*keys('blocking:none', 5), timeout: 0.05), nil)
    expect(@redis.bzpopmin('blocking:none', timeout: 0.05), nil)
  end

  def pubsub
    told = Queue.new
    listener = Thread.new { listen(client, told) }
    # Every subscription was confirmed.
    3.times { expect(told.pop, 'subscribed') }
    expect(@redis.publish('news:a', 'x'), 2)
    expect(@redis.publish('news:other', 'y'), 1)
    # Between channels there is no order: each has its shard.
    expect(Array.new(3) { told.pop }.sort, ['news:* news:a x', 'news:* news:other y', 'news:a x'])
    100.times { |n| @redis.publish('news:b', n) }
    heard = Array.new(200) { told.pop }
    expect(heard.grep(/\Anews:b/), (0...100).map { |n| "news:b #{n}" })
    @redis.publish('news:a', 'end')
    listener.value
    expect(@redis.publish('news:a', 'z'), 0)
  end

  def reconnect
    restart
    # The library connects anew by itself, once for each request.
    eventually('the request succeeds') do
      @redis.set('reconnect', 'again') == 'OK'
    rescue Redis::BaseConnectionError
      false
    end
    100.times { expect(@redis.get('reconnect'), 'again') }
  end

  private

  def client(**more)
    Redis.new(host: '127.0.0.1', port: @port, timeout: PATIENCE, **more)
  end

  def keys(prefix, count)
    (0...count).map { |n| "#{prefix}:#{n}" }
  end

  # A transaction that watches keys of several shards gives `expected` if another client has written to `written`.
  def watched(written, expected)
    result = @redis.watch('tx:60', 'tx:61', 'tx:62') do
      client.set(written, 5)
      @redis.multi { |tx| %w[tx:60 tx:63].each { |name| tx.set(name, 9) } }
    end
    expect(result, expected)
    expect(@redis.get('tx:60'), expected ? '9' : '5')
  end

  # Returns when a client's request waits.
  def until_somebody_waits
    eventually('a client waits') { @redis.client(:list).any? { |client| client['flags'].include?('b') } }
  end

  # Listens to two channels and a pattern until the message `end`.
  def listen(redis, told)
    redis.psubscribe('news:*') do |on|
      on.psubscribe { |*| redis.subscribe('news:a', 'news:b').then { told << 'subscribed' } }
      on.subscribe { |*| told << 'subscribed' }
      on.message { |channel, message| told << "#{channel} #{message}" }
      on.pmessage do |pattern, channel, message|
        message == 'end' ? redis.unsubscribe.then { redis.punsubscribe } : told << "#{pattern} #{channel} #{message}"
      end
    end
  end
end
