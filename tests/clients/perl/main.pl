#!/usr/bin/perl
# Typical uses of Redis.pm or Redis::Fast, which have the same interface, against the given port.
# tests/clients/README.md defines its arguments and its output. A check dies on an unexpected result.
use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep time);

$| = 1;
my ($library, $port, $setup) = @ARGV;
die "usage: main.pl Redis|Redis::Fast <port> nodes|store\n"
    unless @ARGV == 3 && $library =~ /^Redis(::Fast)?$/ && $setup =~ /^(nodes|store)$/;
eval "require $library" or die $@;

# The longest that one request may take. Generous: the machine may be busy with other tests.
my $patience = 30;
# One client for all checks. A failed check may leave replies unread: then the next check gets a new one.
my $redis;

sub client {
    return $library->new(server => "127.0.0.1:$port", read_timeout => $patience, write_timeout => $patience, @_);
}

# ---- reports of the checks ----

# A value as text, the same for 1 and "1", which Perl does not tell apart either.
sub show {
    my ($value) = @_;
    return 'undef' unless defined $value;
    return '[' . join(', ', map { show($_) } @$value) . ']' if ref $value eq 'ARRAY';
    return '{' . join(', ', map { "$_: " . show($value->{$_}) } sort keys %$value) . '}' if ref $value eq 'HASH';
    (my $text = "$value") =~ s/([^\x20-\x7e])/sprintf '\\x%02x', ord $1/ge;
    return length $text > 200 ? substr($text, 0, 200) . '...' : $text;
}

sub expect {
    my ($what, $got, $expected) = @_;
    die "$what gives " . show($got) . ', not ' . show($expected) . "\n" unless show($got) eq show($expected);
}

sub expect_refusal {
    my ($what, $part, $request) = @_;
    die "$what is not refused\n" if eval { $request->(); 1 };
    die "$what is refused with $@, not with $part\n" unless index($@, $part) >= 0;
}

# Each of prefix0 to prefix999 must be in `names` once, and nothing else.
sub expect_once {
    my ($what, $prefix, @names) = @_;
    my %seen;
    $seen{$_}++ for @names;
    for my $n (0 .. 999) {
        my $times = delete $seen{"$prefix$n"} // 0;
        die "$what gives $prefix$n $times times\n" if $times != 1;
    }
    die "$what gives more: " . show(\%seen) . "\n" if %seen;
}

# ---- one request after the other ----

sub connects {
    die "PING\n" unless $redis->ping;
    expect('ECHO', $redis->echo('hello'), 'hello');
    expect('INFO', $redis->info->{redis_version} =~ /^\d+\.\d+/ ? 1 : 0, 1);
    # With a name, in a database by number: more of the handshake.
    my $named = client(name => 'named', on_connect => sub { $_[0]->select(0) });
    expect('CLIENT GETNAME', $named->client_getname, 'named');
    $named->quit;
}

sub strings {
    my $binary = "\x00\r\n\xff\$5\r\n*1\r\n";
    expect('SET', scalar $redis->set('string:binary' => $binary), 'OK');
    expect('GET', scalar $redis->get('string:binary'), $binary);
    $redis->set('string:empty' => '');
    expect('GET of nothing', scalar $redis->get('string:empty'), '');
    expect('GET of no key', scalar $redis->get('string:no'), undef);
    expect('SETNX of a key', $redis->setnx('string:empty', 'x'), 0);
    expect('SETNX of no key', $redis->setnx('string:new', "Gr\xc3\xbc\xc3\x9fe"), 1);
    expect('APPEND', $redis->append('string:new', '!!'), 9);
    expect('GETRANGE', $redis->getrange('string:new', 0, 6), "Gr\xc3\xbc\xc3\x9fe");
    expect('SETRANGE', $redis->setrange('string:new', 7, '??'), 9);
    expect('STRLEN', $redis->strlen('string:new'), 9);
    expect('GETSET', $redis->getset('string:new', 'x'), "Gr\xc3\xbc\xc3\x9fe??");
    expect('GETDEL', $redis->getdel('string:new'), 'x');
    expect('TYPE', $redis->type('string:empty'), 'string');
}

sub hashes {
    expect('HMSET', $redis->hmset('hash', a => 1, b => 'two'), 'OK');
    expect('HGETALL', {$redis->hgetall('hash')}, {a => 1, b => 'two'});
    expect('HGETALL of no key', {$redis->hgetall('hash:no')}, {});
    expect('HMGET', [$redis->hmget('hash', qw(b no a))], ['two', undef, 1]);
    expect('HINCRBY', $redis->hincrby('hash', 'a', 7), 8);
    expect('HINCRBYFLOAT', $redis->hincrbyfloat('hash', 'a', 0.5), 8.5);
    expect('HSETNX', $redis->hsetnx('hash', 'a', 'x'), 0);
    expect('HEXISTS', $redis->hexists('hash', 'b'), 1);
    expect('HDEL', $redis->hdel('hash', qw(b no)), 1);
    expect('HKEYS', [$redis->hkeys('hash')], ['a']);
    expect('HLEN', $redis->hlen('hash'), 1);
}

sub lists_sets_zsets {
    expect('RPUSH', $redis->rpush('list', qw(a b c d)), 4);
    expect('LRANGE', [$redis->lrange('list', 0, -1)], [qw(a b c d)]);
    expect('LPOP', $redis->lpop('list'), 'a');
    expect('RPOP of two', [$redis->rpop('list', 2)], [qw(d c)]);
    expect('LINSERT', $redis->linsert('list', 'BEFORE', 'b', 'x'), 2);
    expect('LINDEX', $redis->lindex('list', 0), 'x');
    expect('SORT', [$redis->sort(qw(list LIMIT 0 5 ALPHA DESC))], [qw(x b)]);

    expect('SADD', $redis->sadd('set:{t}', 1 .. 3), 3);
    expect('SADD of others', $redis->sadd('other:{t}', 3, 4), 2);
    expect('SINTER', [$redis->sinter('set:{t}', 'other:{t}')], [3]);
    expect('SUNIONSTORE', $redis->sunionstore('both:{t}', 'set:{t}', 'other:{t}'), 4);
    expect('SISMEMBER', $redis->sismember('both:{t}', 4), 1);
    expect('SREM', $redis->srem('both:{t}', 4, 5), 1);
    expect('SMEMBERS', [sort $redis->smembers('both:{t}')], [1 .. 3]);

    expect('ZADD', $redis->zadd('zset', 1.5 => 'a', -2 => 'b', '1e20' => 'c'), 3);
    expect('ZRANGE', [$redis->zrange('zset', 0, -1, 'WITHSCORES')], ['b', -2, 'a', 1.5, 'c', '1e+20']);
    expect('ZINCRBY', $redis->zincrby('zset', 2.5, 'a'), 4);
    expect('ZSCORE', $redis->zscore('zset', 'a'), 4);
    expect('ZRANK', $redis->zrank('zset', 'a'), 1);
    expect('ZRANGEBYSCORE', [$redis->zrangebyscore('zset', '(-2', '+inf', 'LIMIT', 0, 1)], ['a']);
    expect('ZPOPMIN', [$redis->zpopmin('zset')], ['b', -2]);
}

sub counters_expiry {
    expect('INCR', $redis->incr('counter'), 1);
    expect('INCRBY', $redis->incrby('counter', '9007199254740993'), '9007199254740994');
    expect('DECRBY', $redis->decrby('counter', '9007199254741002'), -8);
    expect('INCRBYFLOAT', $redis->incrbyfloat('counter', 0.25), -7.75);
    expect('TTL of a lasting key', $redis->ttl('counter'), -1);
    expect('TTL of no key', $redis->ttl('counter:no'), -2);
    expect('EXPIRE', $redis->expire('counter', 100), 1);
    my $left = $redis->pttl('counter');
    die "PTTL gives $left\n" unless 0 < $left && $left <= 100_000;
    expect('PERSIST', $redis->persist('counter'), 1);
    expect('SETEX', $redis->setex('counter', 100, 1), 'OK');
    expect('TTL', $redis->ttl('counter'), 100);
    expect('PSETEX', $redis->psetex('counter', 30, 1), 'OK');
    my $deadline = time + $patience;
    sleep 0.001 while $redis->exists('counter') && time < $deadline;
    expect('GET of an expired key', scalar $redis->get('counter'), undef);
}

sub multi_key {
    my %pairs = map { ("multi:$_" => "value $_") } 0 .. 99;
    my @keys = sort keys %pairs;
    expect('MSET', $redis->mset(%pairs), 'OK');
    expect('MGET', [$redis->mget(@keys, 'multi:no')], [@pairs{@keys}, undef]);
    expect('GET', scalar $redis->get($_), $pairs{$_}) for @keys;
    expect('EXISTS', $redis->exists(@keys, 'multi:no', 'multi:7'), 101);
    expect('UNLINK', $redis->unlink(@keys[0 .. 49]), 50);
    expect('DEL', $redis->del(@keys), 50);
    expect('EXISTS at the end', $redis->exists(@keys), 0);
}

# The libraries have no iterator; their users write this.
sub scan_all {
    my ($command, @args) = @_;
    my ($cursor, @found) = (0);
    # SCAN begins with the cursor, the others with a key.
    my @key = $command eq 'scan' ? () : shift @args;
    do {
        ($cursor, my $page) = $redis->$command(@key, $cursor, @args);
        push @found, @$page;
    } while $cursor ne '0';
    return @found;
}

sub scans {
    for my $n (0 .. 999) {
        $redis->set("scan:$n" => $n, sub { });
        $redis->hset('scanned:hash', "member:$n" => $n, sub { });
        $redis->sadd('scanned:set', "member:$n", sub { });
        $redis->zadd('scanned:zset', $n => "member:$n", sub { });
    }
    $redis->wait_all_responses;
    expect_once('SCAN', 'scan:', scan_all('scan', 'MATCH', 'scan:*'));
    expect_once('SCAN COUNT', 'scan:', scan_all('scan', 'MATCH', 'scan:*', 'COUNT', 300));
    expect_once('KEYS', 'scan:', $redis->keys('scan:*'));
    my %fields = scan_all('hscan', 'scanned:hash');
    expect_once('HSCAN', 'member:', keys %fields);
    expect_once('SSCAN', 'member:', scan_all('sscan', 'scanned:set', 'COUNT', 100));
    my %scores = scan_all('zscan', 'scanned:zset');
    expect_once('ZSCAN', 'member:', keys %scores);
    expect('the score of member:7', $scores{'member:7'}, 7);
}

sub scripts {
    my $source = q{return {KEYS[1], redis.call('incrby', KEYS[1], ARGV[1])}};
    expect('EVAL', [$redis->eval($source, 1, 'script:1', 5)], ['script:1', 5]);
    my ($digest) = $redis->script_load($source);
    expect('SCRIPT EXISTS', [$redis->script_exists($digest, '0' x 40)], [1, 0]);
    # Enough keys that every shard runs it: it must have been loaded into all.
    expect('EVALSHA', [$redis->evalsha($digest, 1, "script:$_", 7)], ["script:$_", 7]) for 10 .. 49;
    # The libraries have no script object.
    expect_refusal('EVALSHA of no script', 'NOSCRIPT', sub { $redis->evalsha('0' x 40, 1, 'script:1', 7) });
}

sub big_values {
    for my $len (1 << 20, 20 << 20) {
        my $value = substr(join('', map { pack 'N', $_ * 2654435761 & 0xffffffff } 1 .. 4099) x ($len / 16_000), 0, $len);
        die "the value has not $len bytes\n" unless length $value == $len;
        expect('SET', scalar $redis->set('big' => $value), 'OK');
        my $stored = $redis->get('big');
        die "$len bytes came back as " . length($stored) . " others\n" unless $stored eq $value;
    }
    expect('DEL', $redis->del('big'), 1);
}

sub errors {
    $redis->set('errors' => 'x');
    expect_refusal('LPUSH', '[lpush] WRONGTYPE Operation against a key', sub { $redis->lpush('errors', 'x') });
    expect('GET after it', scalar $redis->get('errors'), 'x');
    expect_refusal('INCR', 'ERR value is not an integer', sub { $redis->incr('errors') });
    expect_refusal('an unknown command', 'ERR unknown command', sub { $redis->nosuch('x') });
    expect_refusal('GET without a key', 'ERR wrong number of arguments', sub { $redis->get });
    expect('GET after all', scalar $redis->get('errors'), 'x');
}

# ---- state of a connection ----

sub transactions {
    $redis->multi;
    expect('SET in MULTI', scalar $redis->set('tx:a{t}' => 1), 'QUEUED');
    expect('INCR in MULTI', $redis->incr('tx:a{t}'), 'QUEUED');
    expect('RPUSH in MULTI', $redis->rpush('tx:b{t}', qw(x y)), 'QUEUED');
    expect('LRANGE in MULTI', $redis->lrange('tx:b{t}', 0, -1), 'QUEUED');
    expect('EXEC', [$redis->exec], ['OK', 2, 2, [qw(x y)]]);
    # All of it in one go.
    my ($replies, $error);
    $redis->multi(sub { });
    $redis->incr('tx:a{t}', sub { });
    $redis->lpush('tx:a{t}', 'x', sub { });
    $redis->get('tx:a{t}', sub { });
    $redis->exec(sub { ($replies, $error) = @_ });
    $redis->wait_all_responses;
    expect('EXEC in one go', [map { $_->[0] } @$replies], [3, undef, 3]);
    die "EXEC does not say what went wrong in it\n" unless $replies->[1][1] =~ /^WRONGTYPE /;
    expect('DISCARD', do { $redis->multi; $redis->incr('tx:a{t}'); $redis->discard }, 'OK');
    expect('GET after DISCARD', scalar $redis->get('tx:a{t}'), 3);

    my $other = client();
    for my $case (['tx:a{t}', undef], ['tx:b{t}', 11]) {
        my ($written, $expected) = @$case;
        $redis->watch('tx:a{t}');
        $other->set($written => 10);
        $redis->multi;
        $redis->incr('tx:a{t}');
        expect("EXEC after a write to $written", ($redis->exec)[0], $expected);
    }
    # Keys of several shards make no transaction, and none of its commands runs.
    my $refused = 0;
    $redis->multi;
    eval { $redis->set("tx:apart:$_" => 'x'); 1 } or $refused++ for 1 .. 20;
    die "keys of several shards are queued\n" unless $refused;
    expect_refusal('EXEC over several shards', 'EXECABORT', sub { $redis->exec });
    expect('EXISTS', $redis->exists(map { "tx:apart:$_" } 1 .. 20), 0);
}

# Returns when CLIENT LIST has a client whose request waits.
sub until_somebody_waits {
    my $deadline = time + $patience;
    until ($redis->client_list =~ / flags=b /) {
        die "nobody waits after $patience s\n" if time > $deadline;
        sleep 0.001;
    }
}

# One client waits for an element that another pushes.
sub blocking {
    pipe my $reader, my $writer or die "pipe: $!\n";
    my $child = fork // die "fork: $!\n";
    if (!$child) {
        my @popped = eval { client()->blpop('blocking:a{t}', 'blocking:b{t}', 20) };
        syswrite $writer, $@ || show(\@popped);
        # Without the ends of objects: the connections are the parent's.
        POSIX::_exit(0);
    }
    close $writer;
    until_somebody_waits();
    expect('RPUSH', $redis->rpush('blocking:b{t}', qw(x y)), 2);
    expect('BLPOP', do { local $/; <$reader> }, '[blocking:b{t}, x]');
    waitpid $child, 0;
    expect('BRPOP of nothing', [$redis->brpop('blocking:none', 0.01)], [undef]);
}

# Subscribing takes a connection of its own, and another one that publishes. The functions receive the messages.
sub pubsub {
    my $subscriber = client();
    my @told;
    my $tell = sub { push @told, join ' ', map { $_ // 'undef' } @_ };
    $subscriber->subscribe('news:a', 'news:b', $tell);
    $subscriber->psubscribe('news:*', $tell);
    expect('is_subscriber', $subscriber->is_subscriber, 3);
    expect('PUBLISH', $redis->publish('news:a', 'x'), 2);
    expect('PUBLISH to the pattern', $redis->publish('news:other', 'y'), 1);
    my $hear = sub {
        my ($count) = @_;
        my $deadline = time + $patience;
        while (@told < $count) {
            die scalar @told, " messages, not $count\n" if time > $deadline;
            $subscriber->wait_for_messages(1);
        }
        return splice @told;
    };
    expect('the messages', [sort $hear->(3)], ['x news:a news:*', 'x news:a news:a', 'y news:other news:*']);
    $subscriber->punsubscribe('news:*', $tell);
    $redis->publish('news:b', $_, sub { }) for 1 .. 100;
    $redis->wait_all_responses;
    expect('the messages of a channel', [$hear->(100)], [map { "$_ news:b news:b" } 1 .. 100]);
    $subscriber->unsubscribe($_, $tell) for 'news:a', 'news:b';
    expect('PUBLISH to nobody', $redis->publish('news:a', 'z'), 0);
    # It is an ordinary connection again.
    die "PING\n" unless $subscriber->ping;
}

sub databases {
    $redis->set('database' => 'zero');
    my $other = client(on_connect => sub { $_[0]->select(1) });
    expect('GET elsewhere', scalar $other->get('database'), undef);
    $other->set('database' => 'one');
    expect('GET', scalar $redis->get('database'), 'zero');
    $other->select(0);
    expect('GET behind SELECT', scalar $other->get('database'), 'zero');
    expect_refusal('SELECT', 'DB index is out of range', sub { $other->select(99) });
}

# ---- many requests at a time ----

# A function as the last argument makes a request one of many: its reply comes when it comes.
sub pipeline {
    my (@replies, @errors);
    for my $n (0 .. 499) {
        $redis->set("pipe:$n" => $n, sub { push @replies, "SET $_[0]" });
        $redis->lpush("pipe:$n" => 'x', sub { push @errors, $_[1] }) if $n == 250;
        $redis->get("pipe:$n", sub { push @replies, "GET $_[0]" });
    }
    $redis->wait_all_responses;
    expect('the pipeline', \@replies, [map { ('SET OK', "GET $_") } 0 .. 499]);
    expect('its errors', [map { /^WRONGTYPE / ? 'WRONGTYPE' : $_ } @errors], ['WRONGTYPE']);
    # A request without a function waits for those before it.
    my $counted = 0;
    $redis->incr('pipe:counter', sub { $counted++ }) for 1 .. 100;
    expect('GET behind a pipeline', scalar $redis->get('pipe:counter'), 100);
    expect('how many were counted', $counted, 100);
    # So many that neither side keeps them in one buffer, and none is read before the last is sent.
    my $written = 0;
    $redis->set("pipe:many:$_" => $_, sub { $written += $_[0] eq 'OK' }) for 1 .. 20_000;
    $redis->wait_all_responses;
    expect('how many were written', $written, 20_000);
}

# Fifty jobs over one connection, request by request in turn, each with its own callbacks.
sub async {
    my @jobs = map { {replies => [], expected => []} } 1 .. 50;
    for my $n (1 .. 50) {
        for my $number (0 .. $#jobs) {
            my ($job, $value) = ($jobs[$number], "$n of $number");
            $redis->set("job:$number:$n" => $value, sub { push @{$job->{replies}}, $_[0] });
            $redis->get("job:$number:$n", sub { push @{$job->{replies}}, $_[0] });
            push @{$job->{expected}}, 'OK', $value;
        }
    }
    $redis->wait_all_responses;
    expect("job $_", $jobs[$_]{replies}, $jobs[$_]{expected}) for 0 .. $#jobs;
    # One reply at a time, with work in between.
    my @words;
    $redis->echo($_, sub { push @words, $_[0] }) for qw(first second third);
    $redis->wait_one_response;
    die "no reply after waiting for one\n" unless @words;
    $redis->wait_all_responses;
    expect('the words', \@words, [qw(first second third)]);
}

# Both ways that users have: the library's own reconnecting, and a request that is repeated until it succeeds.
sub reconnects {
    my $patient = client(reconnect => 10, every => 10_000);
    $patient->set('reconnect' => 'once');
    print "restart?\n";
    my $line = <STDIN>;
    die 'stdin says ' . show($line) . "\n" unless defined $line && $line eq "restarted\n";
    for my $client ($patient, $redis) {
        my $deadline = time + 10;
        until (eval { $client->set('reconnect' => 'again'); 1 }) {
            die "no answer 10 s after the restart: $@" if time > $deadline;
            sleep 0.01;
            # Without the option the library leaves it to its user.
            eval { $client->connect } if $client == $redis;
        }
        expect('GET', scalar $client->get('reconnect'), 'again') for 1 .. 100;
    }
}

my @checks = (
    ['connect', \&connects],
    ['strings', \&strings],
    ['hashes', \&hashes],
    ['lists-sets-zsets', \&lists_sets_zsets],
    ['counters-expiry', \&counters_expiry],
    ['pipeline', \&pipeline],
    ['multi-key', \&multi_key],
    ['scan', \&scans],
    ['scripts', \&scripts],
    ['big-values', \&big_values],
    ['errors', \&errors],
    ['async', \&async],
    ['transactions', \&transactions],
    ['blocking', \&blocking],
    ['pubsub', \&pubsub],
    ['databases', \&databases],
    ['reconnect', \&reconnects],
);
my $failed = 0;
for my $check (@checks) {
    my ($name, $run) = @$check;
    if (eval { $redis //= client(); $run->(); 1 }) {
        print "ok $name\n";
    } else {
        (my $why = $@) =~ s/\s+/ /g;
        print "not ok $name: $why\n";
        ($failed, $redis) = (1, undef);
    }
}
print "done\n";
exit $failed;
