# Sidekiq with shardis as its Redis: a process of its own does 1,000 jobs of two queues.
#
# Sidekiq pushes jobs in `multi`, waits for them with BRPOP of all queues, and knows nothing of hash tags.

require 'sidekiq'
require 'sidekiq/api'
require_relative 'checks'

JOBS = 1000
QUEUES = %w[first second].freeze

# Debian's Sidekiq is older than the warnings of its redis-rb.
Redis.silence_deprecations = true
Sidekiq.logger = Sidekiq::Logger.new($stderr, level: Logger::WARN)
redis = { url: "redis://127.0.0.1:#{ENV.fetch('JOBS_PORT') { ARGV[1] }}/0", network_timeout: 30 }
Sidekiq.configure_client { |config| config.redis = redis }
Sidekiq.configure_server do |config|
  config.redis = redis
  # Jobs for later and jobs that failed are looked for more often than every five seconds.
  config.options[:poll_interval_average] = 0.1
end

class Job
  include Sidekiq::Job
  # A repetition would be after ten seconds.
  sidekiq_options retry: 0

  def perform(number)
    Sidekiq.redis { |conn| conn.hincrby('done', number, 1) }
    raise 'on purpose' if number.zero?
  end
end

class Jobs
  include Checks

  def initialize(port)
    @port = port
  end

  def checks
    %w[jobs]
  end

  # Each job is done once, Sidekiq's counts say so, and the one that failed is where failures are kept.
  def jobs
    # Some at once, some one by one, some later: each is pushed in another way.
    Sidekiq::Client.push_bulk('class' => Job, 'queue' => 'first', 'args' => (0...500).map { |n| [n] })
    (500...900).each { |n| Job.set(queue: QUEUES[n % 2]).perform_async(n) }
    (900...JOBS).each { |n| Job.set(queue: 'second').perform_in(0.001, n) }
    with_worker { eventually('all jobs are done') { done.length == JOBS && left.zero? } }
    expect(done, (0...JOBS).to_h { |n| [n.to_s, '1'] })
    stats = Sidekiq::Stats.new
    expect([stats.processed, stats.failed, stats.dead_size, left], [JOBS, 1, 1, 0])
    expect([stats.processes_size, stats.workers_size], [0, 0])
    expect(stats.queues, { 'first' => 0, 'second' => 0 })
  end

  private

  def done
    Sidekiq.redis { |conn| conn.hgetall('done') }
  end

  # Jobs in any queue.
  def left
    stats = Sidekiq::Stats.new
    stats.enqueued + stats.scheduled_size + stats.retry_size
  end

  # Has a process do jobs while the block runs. It ends as an operator ends it, and writes down its counts.
  def with_worker
    # As the program `sidekiq` does. That one has RubyGems look for versions first, which failed once in ten runs.
    start = 'require "sidekiq/cli"; cli = Sidekiq::CLI.instance; cli.parse(ARGV); cli.run'
    options = ['-r', __FILE__, '-c', '10', *QUEUES.flat_map { |name| ['-q', name] }]
    worker = Process.spawn({ 'JOBS_PORT' => @port.to_s }, 'ruby', '-e', start, '--', *options, out: $stderr)
    yield
  ensure
    Process.kill('TERM', worker)
    Process.wait(worker)
  end
end
