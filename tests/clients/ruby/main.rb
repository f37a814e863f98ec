# Typical uses of a Redis library, against the endpoint on 127.0.0.1:<port>, whose keyspace should be empty.
#
#     ruby main.rb <redis-rb|sidekiq> <port> emulate
#
# tests/clients/README.md defines its output. A check raises on an unexpected result.

require_relative 'checks'

library, port, setup = ARGV
unless ARGV.length == 3 && %w[redis-rb sidekiq].include?(library) && port.to_i.positive? && setup == 'emulate'
  abort 'usage: ruby main.rb <redis-rb|sidekiq> <port> emulate'
end
$stdout.sync = true
if library == 'sidekiq'
  require_relative 'jobs'
  checks = Jobs.new(port.to_i)
else
  require_relative 'redis_rb'
  checks = RedisRb.new(port.to_i)
end
exit Checks.run(checks)
