//! The folder for data of nodes: removed at the end, or kept with a description of its topology.

use super::arguments::LocalArgs;
use super::layout::Layout;
use anyhow::{Context, Result, bail, ensure};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// In a folder that is kept: the topology, once it was ready.
const LAYOUT_FILE: &str = "shardis-local.json";

/// Makes a folder for data that is not kept; no other user can look into it.
pub(super) fn make_temporary() -> Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt;
    for number in 0.. {
        let path = std::env::temp_dir().join(format!("shardis-local-{}-{number}", std::process::id()));
        match fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left by a process with that number, both parts of which were killed at once.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error).with_context(|| format!("cannot make {}", path.display())),
        }
    }
    unreachable!("the numbers do not end")
}

/// Removes a folder that may be gone already.
pub(super) fn remove(path: &Path) {
    if let Err(error) = fs::remove_dir_all(path)
        && error.kind() != ErrorKind::NotFound
    {
        eprintln!("shardis: cannot remove {}: {error}", path.display());
    }
}

/// The folder of one start. A temporary folder is removed with this value.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    kept: bool,
    /// Its topology when it was opened.
    layout: Option<Layout>,
    /// New folders of members, which are removed if the topology never becomes ready.
    made: Vec<PathBuf>,
}

impl Folder {
    /// Opens `path`. A kept folder must be ours or empty, and its topology must be the requested one.
    pub(super) fn open(path: &Path, args: &LocalArgs) -> Result<Folder> {
        let kept = args.keep().is_some();
        fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
        let path = path.canonicalize()?;
        let shown = path.display();
        let layout = if kept { read_layout(&path)? } else { None };
        match &layout {
            Some(layout) => {
                if let Some(shape) = args.shape().filter(|shape| *shape != layout.shape) {
                    bail!("--keep {shown} has {}, and not {shape}; choose another folder", layout.shape);
                }
                if let (Some(base), Some(&first)) = (args.port(), layout.ports.first()) {
                    ensure!(base == first, "--port {base}: the topology in {shown} begins at port {first}");
                }
            }
            None if kept => {
                let is_empty = fs::read_dir(&path)?.next().is_none();
                ensure!(
                    is_empty,
                    "--keep {shown} is not empty, and not from shardis local; choose another folder"
                );
            }
            None => {}
        }
        Ok(Folder { path, kept, layout, made: Vec::new() })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn is_kept(&self) -> bool {
        self.kept
    }

    /// Its topology from an earlier start.
    pub(super) fn layout(&self) -> Option<&Layout> {
        self.layout.as_ref()
    }

    /// The folder of a member with its configuration. An existing one stays unchanged: a failover may have changed it.
    pub(super) fn prepare(&mut self, name: &str, file: &str, config: &str) -> Result<PathBuf> {
        let folder = self.path.join(name);
        let config_file = folder.join(file);
        if !config_file.exists() {
            fs::create_dir_all(&folder)?;
            self.made.push(folder.clone());
            fs::write(&config_file, config)?;
        }
        Ok(folder)
    }

    /// All is ready: from now on the folder is kept.
    pub(super) fn complete(&mut self, layout: &Layout) -> Result<()> {
        self.made.clear();
        if self.kept && self.layout.is_none() {
            let text = serde_json::to_string_pretty(layout)? + "\n";
            // Written in one step: half of it would look like a foreign file.
            let (file, draft) = (self.path.join(LAYOUT_FILE), self.path.join("shardis-local.draft"));
            fs::write(&draft, text)?;
            fs::rename(&draft, &file)?;
        }
        Ok(())
    }
}

fn read_layout(folder: &Path) -> Result<Option<Layout>> {
    let file = folder.join(LAYOUT_FILE);
    let text = match fs::read_to_string(&file) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        text => text.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let layout: Layout =
        serde_json::from_str(&text).with_context(|| format!("{} is not valid", file.display()))?;
    let members = layout.shape.members().len();
    ensure!(
        layout.ports.len() == members,
        "{} names {} ports for {members}",
        file.display(),
        layout.ports.len()
    );
    Ok(Some(layout))
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.kept {
            self.made.iter().for_each(|folder| remove(folder));
        } else {
            remove(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Shape;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: LocalArgs,
    }

    fn args(words: &[&str]) -> LocalArgs {
        Line::try_parse_from(["local"].iter().chain(words)).map(|line| line.args).expect("they are valid")
    }

    #[test]
    fn a_kept_topology_returns_and_another_is_refused() {
        let path = make_temporary().expect("there is a folder for such");
        let keep = format!("--keep={}", path.display());
        let layout = Layout { shape: Shape::Cluster { nodes: 3 }, ports: vec![7000, 7001, 7002] };
        let mut first = Folder::open(&path, &args(&[&keep])).expect("it is empty");
        first.prepare("node-0", "redis.conf", "port 7000").expect("it is ours");
        first.complete(&layout).expect("it is ours");
        drop(first);
        let again = Folder::open(&path, &args(&[&keep, "--cluster=3", "--port=7000"])).expect("the same");
        assert_eq!(again.layout(), Some(&layout));
        assert!(path.join("node-0/redis.conf").exists());
        for (words, reason) in
            [(["--nodes=3", "--port=7000"], "has --cluster=3"), (["--cluster=3", "--port=7001"], "begins at")]
        {
            let error =
                Folder::open(&path, &args(&[&[keep.as_str()], &words[..]].concat())).expect_err("other");
            assert!(error.to_string().contains(reason), "{error}");
        }
        fs::remove_file(path.join(LAYOUT_FILE)).expect("it is there");
        let error = Folder::open(&path, &args(&[&keep])).expect_err("somebody's data").to_string();
        assert!(error.contains("not empty"), "{error}");
        remove(&path);
    }

    #[test]
    fn a_topology_that_was_never_ready_is_removed() {
        for words in [&[][..], &["--keep=x"]] {
            let path = make_temporary().expect("there is a folder for such");
            let mut folder = Folder::open(&path, &args(words)).expect("it is empty");
            folder.prepare("node-0", "redis.conf", "port 7000").expect("it is ours");
            drop(folder);
            assert_eq!(path.exists(), !words.is_empty());
            assert!(!path.join("node-0").exists());
            remove(&path);
        }
    }
}
