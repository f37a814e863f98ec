//! Sources of users and passwords: options and files. Files are read at the start, and again on SIGHUP and ACL LOAD.

use proxy::Credentials;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use users::{Registry, Users};

/// A password. It shows nowhere.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(Vec<u8>);

impl Secret {
    /// From the command line.
    pub(crate) fn parse(text: &str) -> Result<Secret, String> {
        Secret::of(text.as_bytes())
    }

    /// The first line of the file at `path`, which `option` names.
    pub(crate) fn read(option: &str, path: &Path) -> Result<Secret, String> {
        let text = read(option, path)?;
        let line = text.split(|&byte| byte == b'\n').next().unwrap_or_default();
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Secret::of(line).map_err(|error| format!("{option} {}: {error}", path.display()))
    }

    /// The password itself.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The credentials for nodes.
    pub(crate) fn credentials(&self, user: Option<&str>) -> Credentials {
        Credentials::new(user.map(str::as_bytes), &self.0)
    }

    fn of(password: &[u8]) -> Result<Secret, String> {
        if password.is_empty() {
            Err("there is no password".to_owned())
        } else {
            Ok(Secret(password.to_vec()))
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("(hidden)")
    }
}

/// Source of the users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nothing: everybody may do everything.
    Nothing,
    /// `--requirepass`.
    Password(Secret),
    /// `--requirepass-file`.
    PasswordFile(PathBuf),
    /// `--acl-file`.
    AclFile(PathBuf),
}

impl Source {
    /// The present users. The error names file and line, and no password.
    pub(crate) fn users(&self) -> Result<Users, String> {
        match self {
            Source::Nothing => Ok(Users::default()),
            Source::Password(password) => Ok(Users::with_password(&password.0)),
            Source::PasswordFile(path) => Ok(Users::with_password(&Secret::read(self.option(), path)?.0)),
            Source::AclFile(path) => {
                let text = read(self.option(), path)?;
                Users::parse(&path.display().to_string(), &text).map_err(|error| error.to_string())
            }
        }
    }

    /// The option that says so, if there is one.
    pub(crate) fn option(&self) -> &'static str {
        match self {
            Source::Nothing => "",
            Source::Password(_) => "--requirepass",
            Source::PasswordFile(_) => "--requirepass-file",
            Source::AclFile(_) => "--acl-file",
        }
    }

    /// Writes `users` to the ACL file, which is replaced whole, or stays unchanged.
    pub(crate) fn save(&self, users: &Users) -> Result<(), String> {
        let Source::AclFile(path) = self else { return Err("there is no ACL file".to_owned()) };
        replace(path, &users.to_file()).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// A remark on a probable mistake of the operator.
    pub(crate) fn warning(&self, users: &Users) -> Option<&'static str> {
        let is_open = users.default_user().is_open() && users.default_user().is_unlimited();
        (matches!(self, Source::AclFile(_)) && is_open)
            .then_some("the ACL file lets every client do everything without a password, as user default")
    }

    /// The registry of a process with the present users.
    pub(crate) fn registry(&self) -> Result<Registry, String> {
        let mut secret = [0; 32];
        let random = File::open("/dev/urandom");
        random
            .and_then(|mut random| std::io::Read::read_exact(&mut random, &mut secret))
            .map_err(|error| format!("/dev/urandom: {error}"))?;
        Ok(Registry::new(self.users()?, secret, self.is_acl_file()))
    }

    /// Whether ACL LOAD and ACL SAVE have a file.
    pub(crate) fn is_acl_file(&self) -> bool {
        matches!(self, Source::AclFile(_))
    }

    /// Whether it can change while the process runs.
    pub(crate) fn is_file(&self) -> bool {
        matches!(self, Source::PasswordFile(_) | Source::AclFile(_))
    }
}

/// Replaces the file at `path` by one with `text`, atomically: a reader finds the old text or the new one, also after a
/// power failure.
fn replace(path: &Path, text: &[u8]) -> io::Result<()> {
    // The target of a symbolic link is replaced, not the link.
    let path = std::fs::canonicalize(path)?;
    let folder = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
    let mut name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_owned();
    name.push(format!(".tmp-{}", std::process::id()));
    let temporary = folder.join(name);
    let written = write_anew(&temporary, text, &path).and_then(|()| std::fs::rename(&temporary, &path));
    if written.is_err() {
        // The file may not exist. The first error is reported.
        let _ = std::fs::remove_file(&temporary);
        return written;
    }
    // The name is on the disk when the folder is.
    File::open(folder)?.sync_all()
}

/// Writes `text` to a new file at `path` and syncs it. The file gets the permissions of `model`.
fn write_anew(path: &Path, text: &[u8], model: &Path) -> io::Result<()> {
    // Removes the file of a killed process.
    let _ = std::fs::remove_file(path);
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::metadata(model)?.permissions())?;
    file.write_all(text)?;
    file.sync_all()
}

fn read(option: &str, path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{option} {}: {error}", path.display()))
}
