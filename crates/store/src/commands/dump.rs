//! DUMP and RESTORE: values that move between stores and nodes.
//!
//! ```text
//! form, 1 byte ─ value ─ version of RDB, 2 bytes ─ CRC-64 of all before, 8 bytes; both with the little end first
//! ```

use crc::{CRC_64_REDIS, Crc};
use resp::Request;

use crate::args::{integer, is};
use crate::audience::Class;
use crate::database::NEVER;
use crate::error::Error;
use crate::formats::rdb;
use crate::keyspace::Keyspace;
use crate::replies::Reply;
use crate::values::value::Value;

type Done = Result<(), Error>;

/// The version that Redis 7.0 writes, and the newest that it reads.
pub(crate) const VERSION: u16 = 10;
/// The version of Redis 7.4 to 8.0; Redis 7.2 and Valkey up to 8.1 write 11. RESTORE refuses both, as Redis 7.0 does. [`read`]
/// accepts them: these versions added forms that are unknown here, and changed none.
pub(crate) const NEWEST_VERSION_READ: u16 = 12;
const VERSION_BYTES: usize = 2;
const CHECKSUM_BYTES: usize = 8;

static CHECKSUM: Crc<u64> = Crc::<u64>::new(&CRC_64_REDIS);

pub(crate) fn dump(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let Some(entry) = keyspace.find(request.arg(1)) else {
        out.nil();
        return Ok(());
    };
    let payload = write(&entry.value);
    out.bulk(&payload);
    Ok(())
}

/// The payload of `value`.
pub(crate) fn write(value: &Value) -> Vec<u8> {
    let mut writer = rdb::Writer::default();
    rdb::write(value, &mut writer);
    let mut payload = writer.bytes;
    payload.extend_from_slice(&VERSION.to_le_bytes());
    with_checksum(payload)
}

/// `payload` with the checksum of all that is in it.
pub(crate) fn with_checksum(mut payload: Vec<u8>) -> Vec<u8> {
    payload.extend_from_slice(&CHECKSUM.checksum(&payload).to_le_bytes());
    payload
}

/// The value in a payload of `version_max` at most.
pub(crate) fn read(payload: &[u8], version_max: u16, keyspace: &Keyspace) -> Option<Value> {
    rdb::read(body(payload, version_max)?, keyspace)
}

/// The version of RDB that `payload` has, checked or not.
pub(crate) fn version(payload: &[u8]) -> Option<u16> {
    let (checked, _) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (_, version) = checked.split_last_chunk::<VERSION_BYTES>()?;
    Some(u16::from_le_bytes(*version))
}

/// The options of RESTORE.
#[derive(Default)]
struct Options {
    replaces: bool,
    is_absolute: bool,
    idle_s: Option<i64>,
    has_frequency: bool,
}

impl Options {
    fn parse(request: &Request<'_>) -> Result<Options, Error> {
        let (mut options, mut at) = (Options::default(), 4);
        while let Some(word) = request.get(at) {
            match request.get(at + 1) {
                _ if is(word, "REPLACE") => options.replaces = true,
                _ if is(word, "ABSTTL") => options.is_absolute = true,
                Some(seconds) if is(word, "IDLETIME") && !options.has_frequency => {
                    let seconds = integer(seconds)?;
                    options.idle_s = Some(seconds).filter(|&seconds| seconds >= 0);
                    options.idle_s.ok_or(Error::RESTORE_IDLE)?;
                    at += 1;
                }
                // Accepted without effect: no policy uses it.
                Some(frequency) if is(word, "FREQ") && options.idle_s.is_none() => {
                    if !(0..=255).contains(&integer(frequency)?) {
                        return Err(Error::RESTORE_FREQUENCY);
                    }
                    options.has_frequency = true;
                    at += 1;
                }
                _ => return Err(Error::Syntax),
            }
            at += 1;
        }
        Ok(options)
    }
}

pub(crate) fn restore(keyspace: &mut Keyspace, request: &Request<'_>, out: &mut Reply) -> Done {
    let key = request.arg(1);
    let options = Options::parse(request)?;
    if !options.replaces && keyspace.find(key).is_some() {
        return Err(Error::BUSY_KEY);
    }
    let ttl = integer(request.arg(2))?;
    if ttl < 0 {
        return Err(Error::RESTORE_TTL);
    }
    let body = body(request.arg(3), VERSION).ok_or(Error::RESTORE_CHECKSUM)?;
    let value = rdb::read(body, keyspace).ok_or(Error::RESTORE_FORMAT)?;
    let now = i64::try_from(keyspace.now_ms).unwrap_or(i64::MAX);
    let expires_at = match ttl {
        0 => NEVER,
        _ if options.is_absolute => ttl as u64,
        // An expiry that does not fit wraps in Redis and lies in the past.
        _ => ttl.checked_add(now).map_or(0, |at| at as u64),
    };
    let is_replaced = keyspace.delete(key);
    if expires_at <= keyspace.now_ms {
        keyspace.discard(value);
        if is_replaced {
            keyspace.changed(Class::Generic, "del", key);
        }
    } else {
        keyspace.set(key, value, expires_at);
        keyspace.changed(Class::Generic, "restore", key);
        keyspace.set_idle(key, options.idle_s.unwrap_or_default() as u64);
    }
    out.simple(b"OK");
    Ok(())
}

/// The payload without version and checksum, if both are valid.
pub(crate) fn body(payload: &[u8], version_max: u16) -> Option<&[u8]> {
    let (checked, checksum) = payload.split_last_chunk::<CHECKSUM_BYTES>()?;
    let (body, version) = checked.split_last_chunk::<VERSION_BYTES>()?;
    let is_known = u16::from_le_bytes(*version) <= version_max;
    (is_known && CHECKSUM.checksum(checked) == u64::from_le_bytes(*checksum)).then_some(body)
}

#[cfg(test)]
mod tests {
    use stdx::Prng;

    use super::*;
    use crate::StoreSettings;
    use crate::testing::World;

    fn keyspace() -> Keyspace {
        Keyspace::new(1)
    }

    fn written(value: &Value) -> Vec<u8> {
        let mut writer = rdb::Writer::default();
        rdb::write(value, &mut writer);
        writer.bytes
    }

    /// A value of each form.
    fn values() -> Vec<Vec<u8>> {
        let text = |len: usize| vec![b'x'; len];
        let mut keyspace = keyspace();
        for key in ["small", "large"] {
            let len = if key == "small" { 5 } else { 600 };
            for number in 0..len {
                let (name, big) = (number.to_string().into_bytes(), text(number % 80));
                keyspace
                    .edit_or_create(
                        &[b"list", key.as_bytes()].concat(),
                        |list: &mut crate::values::list::List| {
                            list.push(crate::values::list::End::Right, &big);
                        },
                    )
                    .unwrap();
                keyspace
                    .edit_or_create(
                        &[b"hash", key.as_bytes()].concat(),
                        |hash: &mut crate::values::hash::Hash| hash.set(&name, &big),
                    )
                    .unwrap();
                keyspace
                    .edit_or_create(
                        &[b"zset", key.as_bytes()].concat(),
                        |zset: &mut crate::values::zset::Zset| {
                            zset.set(&name, number as f64 / 3.0);
                        },
                    )
                    .unwrap();
                keyspace
                    .edit_or_create(
                        &[b"set", key.as_bytes()].concat(),
                        |set: &mut crate::values::set::Set| set.insert(&name),
                    )
                    .unwrap();
            }
        }
        keyspace.set(b"text", Value::Text(text(300)), NEVER);
        keyspace.iter().map(|(_, value)| written(value)).collect()
    }

    #[test]
    fn restored_values_equal_dumped_ones() {
        for bytes in values() {
            let value = rdb::read(&bytes, &keyspace()).expect("a value");
            assert_eq!(written(&value).len(), bytes.len());
            for len in (0..bytes.len()).step_by(97) {
                assert!(rdb::read(&bytes[..len], &keyspace()).is_none(), "cut at {len}");
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let (mut prng, keyspace) = (Prng::new(3), keyspace());
        let values = values();
        for _ in 0..2_000 {
            let mut bytes = prng.pick(&values).clone();
            for _ in 0..=prng.below(4) {
                let at = prng.below(bytes.len().min(64) as u64) as usize;
                bytes[at] = prng.next_u64() as u8;
            }
            if let Some(value) = rdb::read(&bytes, &keyspace) {
                assert!(value.elements() > 0);
            }
        }
    }

    #[test]
    fn a_stream_of_any_bytes_can_be_worked_on() {
        let mut world = World::new(StoreSettings::default());
        for number in 0..120 {
            world.ask(&format!("XADD s {number}-1 a {number} b {}", "x".repeat(number % 50)));
        }
        for line in ["XDEL s 3-1 110-1", "XGROUP CREATE s g 0", "XREADGROUP GROUP g c COUNT 5 STREAMS s >"] {
            world.ask(line);
        }
        let payload = world.ask_raw(&[b"DUMP", b"s"]);
        let payload = resp::reply::as_bulk(&payload).expect("a payload").to_vec();
        let (mut prng, mut restored) = (Prng::new(5), 0);
        for _ in 0..3_000 {
            let mut spoilt = payload[..payload.len() - CHECKSUM_BYTES].to_vec();
            for _ in 0..=prng.below(2) {
                // More often where there are lengths and counters.
                let end = if prng.one_in(2) { 64 } else { spoilt.len() as u64 - 2 };
                let at = prng.below(end) as usize;
                spoilt[at] = prng.next_u64() as u8;
            }
            spoilt.extend_from_slice(&CHECKSUM.checksum(&spoilt).to_le_bytes());
            let reply = world.ask_raw(&[b"RESTORE", b"t", b"0", &spoilt, b"REPLACE"]);
            restored += u64::from(reply == b"+OK\r\n");
            for line in [
                "XREADGROUP GROUP g c STREAMS t 0",
                "XREADGROUP GROUP g d COUNT 1 STREAMS t >",
                "XPENDING t g - + 10",
                "XAUTOCLAIM t g e 0 0",
                "XDEL t 5-1 6-1",
                "XINFO STREAM t FULL",
                "XADD t * a 1 b 2",
                "XTRIM t MAXLEN ~ 20",
                "XTRIM t MAXLEN 10",
                "XREVRANGE t + -",
            ] {
                world.ask(line);
            }
        }
        assert!(restored > 100, "{restored}");
        world.ask("DEL s t");
        world.work_off();
        assert_eq!(world.store.memory_used(), 0);
    }

    #[test]
    fn a_payload_is_refused_if_its_checksum_or_version_is_not_right() {
        // DUMP of `SET k 1` in Redis 7.0.
        let payload = *b"\x00\xc0\x01\x0a\x00\xbe\x6d\x06\x89\x5a\x28\x00\x0a";
        let mut later = payload[..5].to_vec();
        later[3] = 11;
        later.extend_from_slice(&CHECKSUM.checksum(&later).to_le_bytes());
        assert_eq!(body(&later, VERSION), None);
        assert!(body(&later, NEWEST_VERSION_READ).is_some());
        (0..payload.len()).for_each(|at| {
            let mut spoilt = payload;
            spoilt[at] ^= 1;
            assert_eq!(body(&spoilt, VERSION), None, "byte {at}");
        });
    }
}
