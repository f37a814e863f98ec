//! apt-get with lists of our own, for packages that the machine's sources do not have. The machine stays unchanged.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, ensure};
use programs::process::{self, command};

/// Package lists in a folder.
pub(crate) struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// An apt-get with the lists of `sources`, as in a `sources.list`. They are empty until [`Apt::command`] has done `update`.
    pub(crate) fn new(folder: PathBuf, sources: &str) -> Result<Apt> {
        std::fs::create_dir_all(folder.join("lists/partial"))?;
        std::fs::write(folder.join("sources.list"), sources)?;
        Ok(Apt { folder })
    }

    /// `apt-get args…`, to be run in `place`, where downloads go.
    pub(crate) fn command(&self, args: &[&str], place: &Path) -> Command {
        let options = [
            format!("Dir::Etc::SourceList={}", self.folder.join("sources.list").display()),
            "Dir::Etc::SourceParts=/dev/null".into(),
            format!("Dir::State::Lists={}", self.folder.join("lists").display()),
            "Dir::Cache::pkgcache=".into(),
            "Dir::Cache::srcpkgcache=".into(),
            "APT::Sandbox::User=".into(),
        ];
        let mut apt_get = command("apt-get");
        apt_get.args(options.iter().flat_map(|option| ["-o", option])).arg("-qq").args(args);
        apt_get.current_dir(place);
        apt_get
    }
}

/// Where this machine gets Debian's packages from, in lines of `format`, as `apt-get indextargets` takes it.
pub(crate) fn debian_sources(format: &str) -> Result<String> {
    let args = ["indextargets", "--format", format, "Created-By: Packages", "Origin: Debian"];
    let sources = process::read(command("apt-get").args(args))?;
    ensure!(!sources.is_empty(), "apt-get knows no sources of Debian's packages");
    Ok(sources)
}
