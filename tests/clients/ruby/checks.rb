# The report of checks, and their helpers.

module Checks
  # Longer than any check takes on a busy machine.
  PATIENCE = 30

  # Runs every check of `library`, which has a method for each of the names in its `checks`. Gives the exit code.
  def self.run(library)
    failed = false
    library.checks.each do |name|
      library.public_send(name.tr('-', '_'))
      puts "ok #{name}"
    rescue StandardError => error
      failed = true
      place = error.backtrace&.find { |line| line.include?(__dir__) && !line.include?('checks.rb') }
      puts "not ok #{name}: #{"#{error.class}: #{error.message} (#{place})".gsub(/\s+/, ' ')}"
    end
    puts 'done'
    failed ? 1 : 0
  end

  def expect(actual, expected)
    raise "#{abridged(actual)} instead of #{abridged(expected)}" unless actual == expected
  end

  # The exception of this kind that the block raises; its text begins with `start`.
  def expect_error(kind, start)
    result = yield
  rescue kind => error
    raise "#{error.message} instead of #{start}" unless error.message.start_with?(start)
  else
    raise "#{abridged(result)} instead of an error"
  end

  def expect_each_once(found, expected)
    expect(found.sort, expected.sort)
  end

  # Waits until the block gives something true.
  def eventually(what)
    deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + PATIENCE
    until yield
      raise "not so after #{PATIENCE} s: #{what}" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline

      sleep 0.005
    end
  end

  # Asks for a restart of the proxy, and waits for it.
  def restart
    puts 'restart?'
    expect($stdin.gets, "restarted\n")
  end

  def abridged(value)
    text = value.inspect
    text.length <= 200 ? text : "#{text[0, 100]} … #{text[-90..]}"
  end
end
