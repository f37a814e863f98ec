//! Sources of users and passwords: options and files. Files are read at the start, and again on SIGHUP and ACL LOAD.

use proxy::Credentials;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use users::{Registry, Users};

/// A password. It shows nowhere.
#[derive(Clone)]
pub(crate) struct Secret {
    bytes: Vec<u8>,
    /// The file that it is from, if its value says `file:/path`.
    file: Option<PathBuf>,
}

/// The word before the path of a file with a secret.
const FILE: &str = "file:";
/// The most bytes of a file with a secret.
const FILE_BYTES_MAX: usize = 64 << 10;

/// Two secrets are the same if their passwords are.
impl PartialEq for Secret {
    fn eq(&self, other: &Secret) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Secret {}

impl Secret {
    /// The value of a flag or a key: the password, or `file:/path` of a file that has it.
    pub(crate) fn parse(text: &str) -> Result<Secret, String> {
        match text.strip_prefix(FILE) {
            Some(path) if Path::new(path).is_absolute() => Secret::of_file(Path::new(path)),
            Some(_) => Err("write an absolute path, as in file:/run/secrets/password".to_owned()),
            None => Secret::of(text.as_bytes()),
        }
    }

    /// The file that `text`, the value of a flag, names.
    pub(crate) fn file_in(text: &str) -> Option<&str> {
        text.strip_prefix(FILE)
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
        &self.bytes
    }

    /// The whole file at `path`, without the end of its last line.
    fn of_file(path: &Path) -> Result<Secret, String> {
        let refusal = |why: String| format!("the file {}: {why}", path.display());
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| refusal(error.to_string()))?;
        let read = io::Read::read_to_end(&mut io::Read::take(file, FILE_BYTES_MAX as u64 + 1), &mut bytes);
        read.map_err(|error| refusal(error.to_string()))?;
        if bytes.len() > FILE_BYTES_MAX {
            return Err(refusal(format!("more than {FILE_BYTES_MAX} bytes")));
        }
        let text = str::from_utf8(&bytes).map_err(|_| refusal("a byte is not UTF-8".to_owned()))?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        let secret = Secret::of(text.strip_suffix('\r').unwrap_or(text).as_bytes()).map_err(refusal)?;
        Ok(Secret { file: Some(path.to_owned()), ..secret })
    }

    /// The secret of `option` by the present text of its file, if it has one.
    pub(crate) fn again(&self, option: &str) -> Result<Secret, String> {
        let Some(path) = &self.file else { return Ok(self.clone()) };
        Secret::of_file(path).map_err(|error| format!("{option}: {error}"))
    }

    /// Whether a file has it.
    pub(crate) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// A remark on its file, if every user of this machine can read it.
    pub(crate) fn warning(&self) -> Option<String> {
        let path = self.file.as_deref()?;
        let mode = std::fs::metadata(path).ok()?.permissions().mode();
        let shown = path.display();
        (mode & 0o004 != 0)
            .then(|| format!("every user of this machine can read {shown}; write chmod o-r {shown}"))
    }

    /// The credentials for nodes.
    pub(crate) fn credentials(&self, user: Option<&str>) -> Credentials {
        Credentials::new(user.map(str::as_bytes), &self.bytes)
    }

    fn of(password: &[u8]) -> Result<Secret, String> {
        if password.is_empty() {
            Err("there is no password".to_owned())
        } else {
            Ok(Secret { bytes: password.to_vec(), file: None })
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
    /// `--user`, the lines of a file without their first word.
    Lines(Vec<Secret>),
}

impl Source {
    /// The present users. The error names file and line, and no password.
    pub(crate) fn users(&self) -> Result<Users, String> {
        match self {
            Source::Nothing => Ok(Users::default()),
            Source::Password(password) => Ok(Users::with_password(&password.again(self.option())?.bytes)),
            Source::PasswordFile(path) => Ok(Users::with_password(&Secret::read(self.option(), path)?.bytes)),
            Source::AclFile(path) => {
                let text = read(self.option(), path)?;
                Users::parse(&path.display().to_string(), &text).map_err(|error| error.to_string())
            }
            Source::Lines(lines) => {
                let mut text = Vec::new();
                for line in lines {
                    let line = line.again(self.option())?;
                    // A line feed would begin another user.
                    text.extend_from_slice(b"user ");
                    text.extend(line.bytes.iter().map(|&byte| if byte == b'\n' { b' ' } else { byte }));
                    text.push(b'\n');
                }
                Users::parse(self.option(), &text).map_err(|error| error.to_string())
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
            Source::Lines(_) => "--user",
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
        (matches!(self, Source::AclFile(_) | Source::Lines(_)) && is_open)
            .then_some("the users let every client do everything without a password, as user default")
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
        match self {
            Source::PasswordFile(_) | Source::AclFile(_) => true,
            Source::Password(password) => password.is_file(),
            Source::Lines(lines) => lines.iter().any(Secret::is_file),
            Source::Nothing => false,
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with `bytes`, which is removed at the end.
    struct Kept(PathBuf);

    impl Kept {
        fn new(name: &str, bytes: &[u8]) -> Kept {
            let path = std::env::temp_dir().join(format!("shardis-secret-{}-{name}", std::process::id()));
            std::fs::write(&path, bytes).expect("a temporary file");
            Kept(path)
        }

        fn parsed(&self) -> Result<Secret, String> {
            Secret::parse(&format!("file:{}", self.0.display()))
        }
    }

    impl Drop for Kept {
        fn drop(&mut self) {
            // The folder is temporary anyway.
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn secret_of_a_file_lacks_the_end_of_its_last_line() {
        for (number, (bytes, expected)) in
            [(&b"hush"[..], "hush"), (b"hush\n", "hush"), (b"hush\r\n", "hush"), (b" a b \n\n", " a b \n")]
                .into_iter()
                .enumerate()
        {
            let file = Kept::new(&format!("text-{number}"), bytes);
            assert_eq!(file.parsed().expect("valid").bytes, expected.as_bytes());
        }
        assert_eq!(Secret::parse("hush").expect("valid").bytes, b"hush");
    }

    #[test]
    fn a_file_that_is_no_secret_is_refused_and_not_shown() {
        let large = vec![b'x'; FILE_BYTES_MAX + 1];
        let cases: [(&str, &[u8], &str); 4] = [
            ("empty", b"", "there is no password"),
            ("newline", b"\n", "there is no password"),
            ("binary", b"hush\xff", "a byte is not UTF-8"),
            ("large", &large, "more than 65536 bytes"),
        ];
        for (name, bytes, expected) in cases {
            let error = Kept::new(name, bytes).parsed().expect_err(name);
            assert!(error.contains(expected) && !error.contains("hush"), "{error}");
        }
        let largest = Kept::new("largest", &large[1..]).parsed().expect("as large as may be");
        assert_eq!(largest.bytes.len(), FILE_BYTES_MAX);
        for (value, expected) in [
            ("file:hush", "an absolute path"),
            ("file:", "an absolute path"),
            ("file:/nowhere", "No such file"),
        ] {
            let error = Secret::parse(value).expect_err(value);
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn secret_of_a_file_is_read_again_for_the_users() {
        let file = Kept::new("again", b"one");
        let source = Source::Password(file.parsed().expect("valid"));
        assert!(source.is_file());
        std::fs::write(&file.0, "two").expect("a temporary file");
        let users = source.users().expect("valid");
        assert!(users.authenticate(b"default", b"two").is_some());
        assert!(users.authenticate(b"default", b"one").is_none());
    }

    #[test]
    fn secret_that_all_users_can_read_gives_a_remark() {
        let file = Kept::new("mode", b"hush");
        let warning = |mode: u32| {
            std::fs::set_permissions(&file.0, std::fs::Permissions::from_mode(mode))
                .expect("the file is ours");
            file.parsed().expect("valid").warning()
        };
        assert!(warning(0o644).is_some_and(|text| text.contains("chmod o-r /")));
        assert_eq!(warning(0o640), None);
        assert_eq!(Secret::parse("hush").expect("valid").warning(), None);
    }
}
