//! ACL files: a line `user NAME rules…` for each user, as `ACL LIST` prints them.

use crate::rules::{self, join_selectors};
use crate::user::{User, Users};
use std::collections::BTreeSet;
use std::fmt;

/// Faults of an ACL file: one finding for each wrong line. Passwords are not shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    findings: Vec<String>,
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.findings.join(". "))
    }
}

impl std::error::Error for FileError {}

impl Users {
    /// Reads the text of an ACL file. `path` is its name in errors.
    ///
    /// As in Redis, a file without a default user leaves one that may do everything without a password. Lines that begin with
    /// `#` are comments here; Redis refuses them.
    pub fn parse(path: &str, text: &[u8]) -> Result<Users, FileError> {
        let (mut users, mut findings) = (Vec::new(), Vec::new());
        let mut names = BTreeSet::new();
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            match parse_line(line) {
                Ok(None) => {}
                Ok(Some(user)) if !names.insert(user.name.clone()) => {
                    let name = String::from_utf8_lossy(&user.name);
                    findings.push(format!("{path}:{number}: Duplicate user '{name}'"));
                }
                Ok(Some(user)) => users.push(user),
                Err(text) => findings.push(format!("{path}:{number}: {text}")),
            }
        }
        if findings.is_empty() { Ok(Users::of(users)) } else { Err(FileError { findings }) }
    }

    /// The text of an ACL file with these users, passwords as hashes.
    pub fn to_file(&self) -> Vec<u8> {
        let lines = self.iter().map(|user| [&user.describe(), &b"\n"[..]].concat());
        lines.collect::<Vec<_>>().concat()
    }

    /// Whether `text` defines the default user; if not, clients need no password.
    pub fn defines_default(text: &[u8]) -> bool {
        let lines = text.split(|&byte| byte == b'\n');
        lines.filter_map(|line| parse_line(line).ok().flatten()).any(|user| *user.name == *crate::DEFAULT)
    }
}

/// The user of a line, if there is one.
fn parse_line(line: &[u8]) -> Result<Option<User>, String> {
    let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let words: Vec<&[u8]> = words.collect();
    let (name, rules) = match &*words {
        [] => return Ok(None),
        [first, ..] if first.starts_with(b"#") => return Ok(None),
        [b"user", name, rules @ ..] => (*name, rules),
        _ => return Err("should start with user keyword followed by the username".to_owned()),
    };
    if rules::has_blanks(name) {
        return Err("username contains invalid characters".to_owned());
    }
    let rules =
        join_selectors(rules).map_err(|_| "Unmatched parenthesis in selector definition".to_owned())?;
    let mut user = User::new(name);
    for rule in rules {
        user.apply(&rule).map_err(|error| match rules::is_secret(&rule) {
            true => error.to_string(),
            false => format!("{error} ('{}')", String::from_utf8_lossy(&rule)),
        })?;
    }
    Ok(Some(user))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_equals_the_output_of_acl_list() {
        let text = "user default off\n\n# who reports\n  user bob on >secret ~a* (+get ~b)\r\n";
        let users = Users::parse("users.acl", text.as_bytes()).expect("valid");
        let printed = String::from_utf8(users.to_file()).expect("text");
        let lines = users.iter().map(|user| String::from_utf8(user.describe()).expect("text"));
        assert_eq!(printed.lines().collect::<Vec<_>>(), lines.collect::<Vec<_>>());
        let again = Users::parse("users.acl", printed.as_bytes()).expect("valid");
        assert_eq!(again.by_name, users.by_name);
        assert!(
            users.authenticate(b"bob", b"secret").is_some() && users.authenticate(b"bob", b"x").is_none()
        );
        assert!(users.authenticate(b"default", b"").is_none(), "a user that is off");
    }

    #[test]
    fn file_without_default_user_keeps_it_unlimited() {
        let users = Users::parse("users.acl", b"user bob on").expect("valid");
        assert!(users.default_user().is_open() && users.default_user().is_unlimited());
        assert!(!Users::defines_default(b"user bob on") && Users::defines_default(b"user default off"));
    }

    #[test]
    fn errors_name_file_and_line_and_no_password() {
        let text = b"usr bob\nuser bob on +nosuch >secret\nuser eve on >a <secret\nuser eve2 (+get\nuser al on\nuser al off";
        let error = Users::parse("users.acl", text).expect_err("wrong").to_string();
        for finding in [
            "users.acl:1: should start with user keyword",
            "users.acl:2: Unknown command or category name in ACL ('+nosuch')",
            "users.acl:3: The password you are trying to remove from the user does not exist",
            "users.acl:4: Unmatched parenthesis",
            "users.acl:6: Duplicate user 'al'",
        ] {
            assert!(error.contains(finding), "{finding}: {error}");
        }
        assert!(!error.contains("secret"), "{error}");
    }
}
