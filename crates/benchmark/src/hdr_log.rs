//! The interval log of HdrHistogram, one histogram an interval in nanoseconds. HistogramLogProcessor and the plotters read it.

use crate::run::Moment;
use anyhow::{Context, Result};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, SystemTime};

/// A log that is being written.
pub(crate) struct HdrLog {
    out: BufWriter<File>,
    began: bool,
}

/// Maxima are shown in milliseconds, as by the writer of Java.
const MAX_DIVISOR: f64 = 1e6;

impl HdrLog {
    /// A log at `path`.
    pub(crate) fn create(path: &Path) -> Result<HdrLog> {
        let file = File::create(path).with_context(|| path.display().to_string())?;
        Ok(HdrLog { out: BufWriter::new(file), began: false })
    }

    /// Appends an interval, unless it belongs to the warm-up or holds nothing.
    pub(crate) fn append(&mut self, moment: &Moment<'_>) -> Result<()> {
        let Some(at) = moment.at.filter(|_| moment.interval.counts.requests > 0) else { return Ok(()) };
        let began = (!self.began).then(|| SystemTime::now() - at);
        self.began = true;
        self.out.write_all(&entry(moment, at, began)?)?;
        Ok(())
    }

    /// Writes out everything.
    pub(crate) fn finish(mut self) -> Result<()> {
        Ok(self.out.flush()?)
    }
}

/// The lines of one interval that ended at `at`. The first entry says when the run began.
fn entry(moment: &Moment<'_>, at: Duration, began: Option<SystemTime>) -> Result<Vec<u8>> {
    let (mut bytes, mut serializer) = (Vec::new(), V2DeflateSerializer::new());
    let mut builder = IntervalLogWriterBuilder::new();
    if let Some(began) = began {
        builder.add_comment("[Histogram log format version 1.3]");
        builder.with_start_time(began).with_base_time(began);
    }
    {
        let mut header = Vec::new();
        builder.begin_log_with(&mut header, &mut serializer)?;
        bytes.extend_from_slice(&header);
    }
    let (mut line, mut builder) = (Vec::new(), IntervalLogWriterBuilder::new());
    builder.with_max_value_divisor(MAX_DIVISOR);
    let mut writer = builder.begin_log_with(&mut line, &mut serializer)?;
    let all = moment.interval.all();
    let start = at.saturating_sub(moment.length);
    let written = writer.write_histogram(&all, start, moment.length, None);
    written.map_err(|error| anyhow::anyhow!("the interval log: {error:?}"))?;
    // Readers want the header once.
    bytes
        .extend(line.split_inclusive(|&byte| byte == b'\n').filter(|line| !line.starts_with(b"#")).flatten());
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorder::Interval;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    #[test]
    fn the_log_is_read_back_with_the_same_histograms() {
        let mut interval = Interval::new(1);
        (1..=1000).for_each(|us| interval.kinds[0].saturating_record(us * 1000));
        interval.counts.requests = 1000;
        let second = Duration::from_secs(1);
        let moment = |at| Moment { at: Some(at), length: second, interval: &interval, total: &interval };
        let mut log = entry(&moment(second), second, Some(SystemTime::UNIX_EPOCH)).expect("written");
        log.extend(entry(&moment(2 * second), 2 * second, None).expect("written"));
        let (mut histograms, mut starts) = (Vec::<Histogram<u64>>::new(), Vec::new());
        for entry in IntervalLogIterator::new(&log) {
            if let LogEntry::Interval(line) = entry.expect("a valid line") {
                let bytes = decode(line.encoded_histogram());
                histograms.push(Deserializer::new().deserialize(&mut &bytes[..]).expect("a histogram"));
                starts.push(line.start_timestamp().as_secs());
                assert!((line.max() - 1.0).abs() < 0.01, "in milliseconds: {}", line.max());
            }
        }
        assert_eq!(starts, [0, 1]);
        assert!(histograms.iter().all(|histogram| *histogram == interval.all()));
    }

    /// Base64, as the format has it.
    fn decode(text: &str) -> Vec<u8> {
        const LETTERS: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let (mut bytes, mut bits, mut count) = (Vec::new(), 0u32, 0);
        for letter in text.bytes().filter(|&letter| letter != b'=') {
            let value = LETTERS.iter().position(|&known| known == letter).expect("base64");
            (bits, count) = (bits << 6 | value as u32, count + 6);
            if count >= 8 {
                count -= 8;
                bytes.push((bits >> count) as u8);
            }
        }
        bytes
    }
}
