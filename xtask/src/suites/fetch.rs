//! Sources of the suites: package registries, each through its own client. Fetched files are kept.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};
use programs::process::{self, command, target_dir};

use crate::apt::{Apt, debian_sources};

/// Where all of it is kept.
pub(super) fn folder() -> PathBuf {
    target_dir().join("suites")
}

/// Whether Debian's sources can be had.
pub(super) const APT_GET: &[&str] = &["apt-get", "--version"];

/// apt-get would lock its folder against itself.
static APT: Mutex<()> = Mutex::new(());

/// The folder with the original source of Debian's `package`, unpacked.
pub(super) fn debian_source(package: &str) -> Result<PathBuf> {
    let _apt = APT.lock().expect("nothing panics while it holds this");
    let place = folder().join("debian").join(package);
    if find(&place, |name| name.contains(".orig.tar")).is_err() {
        std::fs::create_dir_all(&place)?;
        download_source(package, &place)?;
    }
    let tarball = find(&place, |name| name.contains(".orig.tar"))?;
    let is_source = |name: &str| place.join(name).is_dir();
    if find(&place, is_source).is_err() {
        process::run(command("tar").arg("xf").arg(&tarball).arg("-C").arg(&place))?;
    }
    find(&place, is_source)
}

/// Downloads with lists of our own: the machine's sources may not name the source packages, and are not ours to change.
fn download_source(package: &str, place: &Path) -> Result<()> {
    println!("suites: {package}'s source from Debian");
    let apt = Apt::new(folder().join("apt"), &debian_sources("deb-src $(SITE) $(RELEASE) $(COMPONENT)")?)?;
    process::run(&mut apt.command(&["update"], place))?;
    // The command may end with an error although the one needed file is there: the packaging can be missing.
    let output = apt.command(&["source", "--download-only", package], place).output()?;
    find(place, |name| name.contains(".orig.tar"))
        .map(drop)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The entry of `folder` whose name is as wanted.
pub(super) fn find(folder: &Path, is_wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let name = names.filter(|name| is_wanted(name)).min();
    Ok(folder.join(name.with_context(|| format!("what we look for is not in {}", folder.display()))?))
}
