//! Files of other proxies as a configuration of shardis: text in, value out. Nothing here opens a file, resolves a name or
//! connects; a file that another one includes comes from a callback.
//!
//! ```text
//!     text ─► kind ─► lines of that program ─► options, each looked up in its table ─► Draft ─► Import ─► shardis.toml
//! ```
//!
//! Begin with [`read`]. Each program has a file of its own with its table of options; `docs/import.md` is made from these tables.
//! No option is dropped. Each becomes keys of shardis, or a line in one of these lists:
//!
//! - options that need no key
//! - options that are not carried over
//! - refusals: the file cannot be served without the option
//! - faults: the other program itself would refuse it
//!
//! ```
//! use import::{Kind, NoFiles};
//!
//! let text = "alpha:\n  listen: 127.0.0.1:22121\n  redis: true\n  backlog: 512\n  servers:\n   - 127.0.0.1:6379:1\n";
//! assert_eq!(import::kind(text), Some(Kind::Twemproxy));
//! let imported = import::read(Kind::Twemproxy, "nutcracker.yml", text, &mut NoFiles).unwrap();
//! assert!(imported.rendered().text.contains("port = 22121"));
//! assert_eq!(imported.left_out[0].to_string(), "nutcracker.yml:4:3: backlog: shardis sets it itself, to 4096");
//! ```

mod address;
mod braces;
mod codis;
mod corvus;
mod detect;
mod draft;
mod dynomite;
mod fault;
mod haproxy;
mod nginx;
mod options;
mod passing;
mod predixy;
mod reference;
mod render;
mod twemproxy;
mod units;
mod yaml;

pub use detect::kind;
pub use draft::{Import, LeftOut};
pub use fault::{Fault, Faults, Place};
pub use reference::{REFERENCE_BEGIN, reference};
pub use render::Rendered;

use draft::Draft;
use std::fmt;

/// The most bytes of one file.
pub const BYTES_MAX: usize = 1 << 20;
/// The most files that one file may include, directly or not.
pub const FILES_MAX: usize = 64;

/// The program whose file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `nutcracker.yml`.
    Twemproxy,
    /// `dynomite.yml`.
    Dynomite,
    /// `corvus.conf`.
    Corvus,
    /// `predixy.conf`.
    Predixy,
    /// `proxy.toml` of codis.
    Codis,
    /// `nginx.conf` with `stream {}`.
    Nginx,
    /// `haproxy.cfg` with `mode tcp`.
    Haproxy,
}

impl Kind {
    /// All programs.
    pub const ALL: [Kind; 7] = [
        Kind::Twemproxy,
        Kind::Dynomite,
        Kind::Corvus,
        Kind::Predixy,
        Kind::Codis,
        Kind::Nginx,
        Kind::Haproxy,
    ];
}

impl fmt::Display for Kind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Kind::Twemproxy => "twemproxy",
            Kind::Dynomite => "dynomite",
            Kind::Corvus => "corvus",
            Kind::Predixy => "predixy",
            Kind::Codis => "codis",
            Kind::Nginx => "nginx",
            Kind::Haproxy => "haproxy",
        })
    }
}

/// The files that a file includes.
pub trait Files {
    /// The names and texts of the files that `path` in the file `from` names. There are several if `path` has wildcards, and
    /// then none is no error. The error is a clause, such as `the file does not exist`.
    fn open(&mut self, from: &str, path: &str) -> Result<Vec<(String, String)>, String>;
}

/// Files that do not exist: for a text that stands alone.
#[derive(Clone, Copy, Debug)]
pub struct NoFiles;

impl Files for NoFiles {
    fn open(&mut self, _: &str, _: &str) -> Result<Vec<(String, String)>, String> {
        Err("no other file can be read here".to_owned())
    }
}

/// Reads `text`, the content of the file `name`, as a file of `kind`.
///
/// The error has all faults that the program itself would refuse, as far as they could be seen.
pub fn read(kind: Kind, name: &str, text: &str, files: &mut dyn Files) -> Result<Import, Faults> {
    if text.len() > BYTES_MAX {
        let text = format!("the file has more than {BYTES_MAX} bytes, the limit of a configuration");
        return Err(Faults(vec![Fault { place: None, text }]));
    }
    let mut draft = Draft::new(kind, name);
    match kind {
        Kind::Twemproxy => twemproxy::read(name, text, &mut draft),
        Kind::Dynomite => dynomite::read(name, text, &mut draft),
        Kind::Corvus => corvus::read(name, text, &mut draft),
        Kind::Predixy => predixy::read(name, text, files, &mut draft),
        Kind::Codis => codis::read(name, text, &mut draft),
        Kind::Nginx => nginx::read(name, text, files, &mut draft),
        Kind::Haproxy => haproxy::read(name, text, &mut draft),
    }
    draft.finish()
}
