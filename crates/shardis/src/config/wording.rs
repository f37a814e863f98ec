//! Texts about flags as texts about keys: `--tls-port=6390` is `tls-port = 6390` in a file.

/// Translation of texts about flags into texts about a file.
#[derive(Debug, Default)]
pub(super) struct Wording {
    /// Flags that were on the command line, and stay flags.
    said: Vec<String>,
}

impl Wording {
    /// A wording with the names of flags that were on the command line.
    pub(super) fn new(said: Vec<String>) -> Wording {
        Wording { said }
    }

    /// `text`, which speaks of flags, in the form for readers of a file.
    pub(super) fn of_file(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, name, behind)) = split_at_flag(rest) {
            out.push_str(before);
            rest = behind;
            if self.said.iter().any(|said| said == name) {
                out.push_str("--");
                out.push_str(name);
                continue;
            }
            // The flag of `shardis tcp`.
            out.push_str(if name == "listen" { "address" } else { name });
            if let Some(value) = rest.strip_prefix('=') {
                let (value, behind) = split_value(value);
                let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
                let quotes = if is_number { "" } else { "\"" };
                out.push_str(&format!(" = {quotes}{value}{quotes}"));
                rest = behind;
            }
        }
        out.push_str(rest);
        out
    }
}

/// The names of flags in `text`, without their dashes.
pub(super) fn flags_in(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let (_, name, behind) = split_at_flag(rest)?;
        rest = behind;
        Some(name)
    })
}

/// The text before the first flag of `text`, its name, and the text behind it.
fn split_at_flag(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let at = from + text[from..].find("--")?;
        let behind = &text[at + 2..];
        let is_of_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
        let end = behind.find(|letter| !is_of_name(letter)).unwrap_or(behind.len());
        let is_first = !text[..at].ends_with(is_of_name);
        let is_name = behind.starts_with(|letter: char| letter.is_ascii_alphabetic());
        if is_first && is_name {
            return Some((&text[..at], &behind[..end], &behind[end..]));
        }
        from = at + 2;
    }
}

/// A value up to the blank, or the mark of the sentence, behind it.
fn split_value(text: &str) -> (&str, &str) {
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    let value = text[..end].trim_end_matches([':', ';', ',', ')']);
    text.split_at(value.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_become_keys_unless_the_command_line_has_them() {
        let wording = Wording::new(vec!["nodes".to_owned()]);
        let cases = [
            ("--tls-port 1 needs --tls-cert-file", "tls-port 1 needs tls-cert-file"),
            ("as in --tls-port=6390", "as in tls-port = 6390"),
            ("--on-node-down=remap: only for --nodes", "on-node-down = \"remap\": only for --nodes"),
            ("--auth=nodes (x --zone=a)", "auth = \"nodes\" (x zone = \"a\")"),
            ("take --cluster=a:1,b:2; or", "take cluster = \"a:1,b:2\"; or"),
            ("--listen x --- -- a--b -", "address x --- -- a--b -"),
            ("--host=", "host = \"\""),
        ];
        for (text, expected) in cases {
            assert_eq!(wording.of_file(text), expected);
        }
        assert_eq!(flags_in("--a=--b c--d --e").collect::<Vec<_>>(), ["a", "b", "e"]);
    }
}
