//! The hint log: the keys that racks have missed, in one file, which outlives the process.
//!
//! One thread writes it. It takes all batches that have gathered, of all shards, and makes them durable with one commit.

use anyhow::{Context, Result};
use racks::{Kept, KeptHint, Record, Session, Stale};
use redb::{Database, ReadableDatabase, ReadableTable, Table, TableDefinition};
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use tracing::error;

/// The name of a copy, NUL, and a key: the first missed write, and its time.
const HINTS: TableDefinition<'_, &[u8], (u64, u64)> = TableDefinition::new("hints");
/// The same of keys that a stale copy has alone.
const KEYS: TableDefinition<'_, &[u8], ()> = TableDefinition::new("keys");
/// The name of a copy: whether it is stale, the run of its node, and our connection to it.
const COPIES: TableDefinition<'_, &str, (u8, &str, i64)> = TableDefinition::new("copies");
/// The name of the file.
const FILE: &str = "hints.redb";

/// The states of a copy, as the file has them.
const STALE: [Stale; 3] = [Stale::No, Stale::Missed, Stale::New];

/// Records of one shard, and the receiver of the outcome.
pub(super) struct Batch {
    pub shard: usize,
    pub records: Vec<Record>,
    pub done: Box<dyn FnOnce(bool) + Send>,
}

/// The log, and its records of each copy of each shard.
pub(super) struct Opened {
    pub log: mpsc::Sender<Batch>,
    pub kept: Vec<Vec<Kept>>,
}

/// Opens the log in the folder `at`. `names` are those of the copies of each shard.
pub(super) fn open(at: &Path, names: Vec<Vec<String>>) -> Result<Opened> {
    std::fs::create_dir_all(at).with_context(|| format!("--hint-log {}", at.display()))?;
    let database = Database::create(at.join(FILE)).with_context(|| format!("--hint-log {}", at.display()))?;
    let log = Log { database, names };
    let kept = log.read().with_context(|| format!("--hint-log {}", at.display()))?;
    let (sender, batches) = mpsc::channel();
    std::thread::Builder::new().name("hint-log".to_owned()).spawn(move || log.run(&batches))?;
    Ok(Opened { log: sender, kept })
}

struct Log {
    database: Database,
    names: Vec<Vec<String>>,
}

impl Log {
    fn run(&self, batches: &mpsc::Receiver<Batch>) {
        while let Ok(first) = batches.recv() {
            let all: Vec<Batch> = std::iter::once(first).chain(batches.try_iter()).collect();
            let written = self.write(&all);
            if let Err(error) = &written {
                error!(%error, hint = "writes that racks missed are not acknowledged meanwhile", "hint log failed");
            }
            all.into_iter().for_each(|batch| (batch.done)(written.is_ok()));
        }
    }

    fn write(&self, batches: &[Batch]) -> Result<(), redb::Error> {
        let transaction = self.database.begin_write()?;
        {
            let mut tables = Tables {
                hints: transaction.open_table(HINTS)?,
                keys: transaction.open_table(KEYS)?,
                copies: transaction.open_table(COPIES)?,
            };
            for batch in batches {
                for record in &batch.records {
                    tables.apply(&self.names[batch.shard], record)?;
                }
            }
        }
        transaction.commit()?;
        Ok(())
    }

    fn read(&self) -> Result<Vec<Vec<Kept>>, redb::Error> {
        // A new file has no tables yet.
        self.write(&[])?;
        let transaction = self.database.begin_read()?;
        let (hints, keys) = (transaction.open_table(HINTS)?, transaction.open_table(KEYS)?);
        let copies = transaction.open_table(COPIES)?;
        let kept = |name: &String| -> Result<Kept, redb::Error> {
            let mut kept = Kept::default();
            if let Some(copy) = copies.get(name.as_str())? {
                let (stale, run_id, client) = copy.value();
                kept.is_known = true;
                kept.stale = STALE.get(usize::from(stale)).copied().unwrap_or_default();
                let session = Session { run_id: run_id.to_owned(), client };
                kept.session = (!run_id.is_empty()).then_some(session);
            }
            let range = keys_of(name);
            for hint in hints.range::<&[u8]>(range.start.as_slice()..range.end.as_slice())? {
                let (key, value) = hint?;
                let (since, at_ms) = value.value();
                kept.hints.push(KeptHint { key: key.value()[name.len() + 1..].into(), since, at_ms });
            }
            for key in keys.range::<&[u8]>(range.start.as_slice()..range.end.as_slice())? {
                kept.keys.push(key?.0.value()[name.len() + 1..].into());
            }
            Ok(kept)
        };
        self.names.iter().map(|names| names.iter().map(kept).collect()).collect()
    }
}

struct Tables<'t> {
    hints: Table<'t, &'static [u8], (u64, u64)>,
    keys: Table<'t, &'static [u8], ()>,
    copies: Table<'t, &'static str, (u8, &'static str, i64)>,
}

impl Tables<'_> {
    fn apply(&mut self, names: &[String], record: &Record) -> Result<(), redb::Error> {
        let place = |rack: usize, key: &[u8]| [names[rack].as_bytes(), &[0], key].concat();
        match record {
            Record::Hint { rack, key, since, at_ms } => {
                self.hints.insert(place(*rack, key).as_slice(), (*since, *at_ms))?;
            }
            Record::Keep { rack, key } => {
                self.keys.insert(place(*rack, key).as_slice(), ())?;
            }
            Record::Settled { rack, key } => {
                self.hints.remove(place(*rack, key).as_slice())?;
                self.keys.remove(place(*rack, key).as_slice())?;
            }
            Record::Standing { rack, stale } => {
                let range = keys_of(&names[*rack]);
                let range = range.start.as_slice()..range.end.as_slice();
                self.hints.retain_in::<&[u8], _>(range.clone(), |_, _| false)?;
                self.keys.retain_in::<&[u8], _>(range, |_, _| false)?;
                let code = STALE.iter().position(|known| known == stale).unwrap_or_default() as u8;
                self.change(&names[*rack], |copy| copy.0 = code)?;
            }
            Record::Session { rack, session } => {
                self.change(&names[*rack], |copy| {
                    (copy.1, copy.2) = (session.run_id.clone(), session.client)
                })?;
            }
        }
        Ok(())
    }

    fn change(&mut self, name: &str, change: impl FnOnce(&mut (u8, String, i64))) -> Result<(), redb::Error> {
        let mut copy = match self.copies.get(name)? {
            None => (0, String::new(), 0),
            Some(copy) => {
                let (stale, run_id, client) = copy.value();
                (stale, run_id.to_owned(), client)
            }
        };
        change(&mut copy);
        self.copies.insert(name, (copy.0, copy.1.as_str(), copy.2))?;
        Ok(())
    }
}

/// The range of all keys of the copy `name`.
fn keys_of(name: &str) -> Range<Vec<u8>> {
    [name.as_bytes(), &[0]].concat()..[name.as_bytes(), &[1]].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<Vec<String>> {
        vec![vec!["a/1 h:1".to_owned(), "a/2 h:2".to_owned()]]
    }

    fn write(opened: &Opened, records: Vec<Record>) -> bool {
        let (sender, outcome) = mpsc::channel();
        let done = Box::new(move |written| sender.send(written).expect("somebody waits"));
        opened.log.send(Batch { shard: 0, records, done }).expect("the log runs");
        outcome.recv().expect("an outcome")
    }

    #[test]
    fn records_are_there_after_a_restart() {
        let folder = std::env::temp_dir().join(format!("shardis-hints-{}", std::process::id()));
        let key = |text: &str| text.as_bytes().into();
        let hint = |rack, text| Record::Hint { rack, key: key(text), since: 7, at_ms: 8 };
        let session = Session { run_id: "run".to_owned(), client: 3 };
        let opened = open(&folder, names()).expect("a new log");
        assert_eq!(opened.kept, [[Kept::default(), Kept::default()]]);
        assert!(write(&opened, vec![hint(0, "x"), hint(1, "x"), hint(1, "y"), hint(1, "z")]));
        let more = [
            Record::Settled { rack: 1, key: key("y") },
            Record::Session { rack: 1, session: session.clone() },
            Record::Standing { rack: 0, stale: Stale::Missed },
            Record::Keep { rack: 0, key: key("k") },
        ];
        assert!(write(&opened, more.to_vec()));
        assert!(open(&folder, names()).is_err(), "the file has one owner");
        drop(opened);
        let kept = (0..100_000).find_map(|_| open(&folder, names()).ok()).expect("it was closed").kept;
        let _ = std::fs::remove_dir_all(&folder);
        let hint = |text| KeptHint { key: key(text), since: 7, at_ms: 8 };
        let stale = Kept { is_known: true, stale: Stale::Missed, keys: vec![key("k")], ..Kept::default() };
        let behind = Kept {
            is_known: true,
            hints: vec![hint("x"), hint("z")],
            session: Some(session),
            ..Kept::default()
        };
        assert_eq!(kept, [[stale, behind]]);
    }
}
