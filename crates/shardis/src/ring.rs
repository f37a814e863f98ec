//! `shardis ring`: the files and sockets from which keys come, and the report.

use crate::args::{ProxyArgs, Ring, RingOptions};
use crate::asking::{Conversation, Round};
use anyhow::{Context, Result, anyhow, bail};
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use stdx::Instant;
use survey::{Layout, Report, Scan, Source, Survey, generated_keys};
use topology::ShardId;

/// The longest key that a list may have.
const KEY_BYTES_MAX: u64 = 1 << 20;

/// Counts keys, and prints the report.
pub(crate) fn run(ring: &Ring) -> Result<ExitCode> {
    let now = Arc::new(layout(&ring.now)?);
    let then = ring.then.as_ref().map(|then| layout(then).map(Arc::new)).transpose()?;
    let options = &ring.options;
    if options.list {
        return list(options, &now, then.as_deref());
    }
    let mut survey = Survey::new(Arc::clone(&now), then);
    let source = match options.scan {
        true => {
            scan(&ring.now, options, &now, &mut survey)?;
            Source::Scan
        }
        false => each_key(options, |key| {
            survey.add(key);
            Ok(())
        })?,
    };
    let report = Report::new(&survey, source);
    let text = if options.json { report.json()? } else { report.text() };
    // A closed stdout is no error: nobody reads.
    let _ = io::stdout().write_all(text.as_bytes());
    Ok(ExitCode::SUCCESS)
}

fn layout(args: &ProxyArgs) -> Result<Layout> {
    if args.discovery.is_given() {
        bail!(
            "the layout of --cluster and --sentinel is known to a shardis that runs (redis-cli -p PORT PROXY TOPOLOGY); \
             name nodes with --nodes"
        );
    }
    Ok(Layout::new(args.topology().map_err(|error| anyhow!(error))?))
}

/// Prints a line for each key.
fn list(options: &RingOptions, now: &Layout, then: Option<&Layout>) -> Result<ExitCode> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut print = |key: &[u8]| {
        out.write_all(key)?;
        write!(out, "\t{}", now.node(now.owner(key)))?;
        if let Some(then) = then {
            write!(out, "\t{}", then.node(then.owner(key)))?;
        }
        out.write_all(b"\n")
    };
    let printed = each_key(options, |key| print(key).map_err(anyhow::Error::from));
    match printed.and_then(|_| Ok(out.flush()?)) {
        // The reader may have seen enough.
        Err(error) if error.downcast_ref().is_some_and(is_closed) => Ok(ExitCode::SUCCESS),
        printed => printed.map(|()| ExitCode::SUCCESS),
    }
}

fn is_closed(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::BrokenPipe
}

/// Passes each key of the list to `take`, or generated ones if there is no list. Returns which it was.
fn each_key(options: &RingOptions, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<Source> {
    match &options.keys_file {
        Some(path) if path == Path::new("-") => {
            each_line(io::stdin().lock(), take).context("standard input")?
        }
        Some(path) => {
            let shown = || path.display().to_string();
            let file = File::open(path).with_context(shown)?;
            each_line(BufReader::new(file), take).with_context(shown)?;
        }
        None if options.keys.is_empty() => {
            generated_keys().try_for_each(|key| take(&key))?;
            return Ok(Source::Generated);
        }
        None => options.keys.iter().try_for_each(|key| take(key.as_bytes()))?,
    }
    Ok(Source::List)
}

/// Passes each line that is not empty to `take`, without its line feed.
fn each_line(mut lines: impl BufRead, mut take: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let len = (&mut lines).take(KEY_BYTES_MAX + 1).read_until(b'\n', &mut line)?;
        if len == 0 {
            break;
        }
        if len as u64 > KEY_BYTES_MAX {
            bail!("line {number} has more than {KEY_BYTES_MAX} bytes: a key is expected in each line");
        }
        let key = line.strip_suffix(b"\n").unwrap_or(&line);
        if !key.is_empty() {
            take(key)?;
        }
    }
    Ok(())
}

/// Asks the primaries of all shards for their keys.
fn scan(args: &ProxyArgs, options: &RingOptions, now: &Layout, survey: &mut Survey) -> Result<()> {
    if !args.has_nodes() {
        bail!("--scan: there are no nodes to ask; name them with --nodes");
    }
    let sample_max = if options.sample == 0 { u64::MAX } else { options.sample };
    let nodes = args.spec().map_err(|error| anyhow!(error))?.nodes;
    let talks = (0..)
        .zip(nodes)
        .map(|(shard, node)| (node.address, Talk(Scan::new(ShardId(shard), sample_max, survey.emptied()))));
    let talks = Round::new(args, talks.collect())?.ask_all(None, |_| Vec::new())?;
    for (talk, node) in talks.into_iter().zip(now.nodes()) {
        let (sample, keys) = talk.0.into_outcome().map_err(|error| anyhow!("{node}: {error}"))?;
        survey.add_sample(&sample, keys);
    }
    Ok(())
}

/// A scan as a conversation.
struct Talk(Scan);

impl Conversation for Talk {
    fn begin(&mut self, auth: Option<&[u8]>, _now: Instant) -> Vec<u8> {
        self.0.begin(auth)
    }

    fn handle_bytes(&mut self, bytes: &[u8], _now: Instant) -> Vec<u8> {
        self.0.handle_bytes(bytes)
    }

    fn fail(&mut self, reason: &str) {
        self.0.fail(reason);
    }

    fn is_done(&self) -> bool {
        self.0.is_done()
    }

    fn may_begin_again(&self) -> bool {
        self.0.may_begin_again()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        each_line(bytes, |key| {
            keys.push(key.to_vec());
            Ok(())
        })?;
        Ok(keys)
    }

    #[test]
    fn each_line_is_a_key_of_any_bytes() {
        assert_eq!(lines(b"a\n\n\xff b\r\nc").expect("valid"), [&b"a"[..], b"\xff b\r", b"c"]);
        assert!(lines(b"").expect("valid").is_empty());
    }

    #[test]
    fn a_line_that_is_no_key_is_refused_by_its_number() {
        let mut bytes = b"a\n".to_vec();
        bytes.extend(std::iter::repeat_n(b'x', KEY_BYTES_MAX as usize + 1));
        let error = lines(&bytes).expect_err("too long").to_string();
        assert!(error.starts_with("line 2 has more than 1048576 bytes"), "{error}");
    }
}
