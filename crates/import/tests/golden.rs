//! Files of the other programs, beside the shardis.toml that each means (`golden/PROGRAM/NAME.out`).
//!
//! `SHARDIS_BLESS=1 cargo test -p import --test golden` writes the latter anew.

use import::{Files, Import, Kind, Place, kind, read};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of one folder, which others include.
struct Folder(PathBuf);

impl Files for Folder {
    fn open(&mut self, _: &str, path: &str) -> Result<Vec<(String, String)>, String> {
        let text = fs::read_to_string(self.0.join(path)).map_err(|_| "the file does not exist".to_owned())?;
        Ok(vec![(path.to_owned(), text)])
    }
}

/// All inputs: the kind, the folder, the name and the text.
fn inputs() -> Vec<(Kind, PathBuf, String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut inputs = Vec::new();
    for kind in Kind::ALL {
        let folder = root.join(kind.to_string());
        let files = fs::read_dir(&folder).expect("a folder for each program");
        let names = files.map(|file| file.expect("readable").file_name().into_string().expect("UTF-8"));
        let mut names: Vec<String> =
            names.filter(|name| !name.ends_with(".out") && name != "parts").collect();
        names.sort();
        for name in names {
            let text = fs::read_to_string(folder.join(&name)).expect("a text");
            inputs.push((kind, folder.clone(), name, text));
        }
    }
    inputs
}

/// The meaning of a file as text: the shardis.toml, and why it cannot be served; or its faults.
fn shown(result: &Result<Import, import::Faults>) -> String {
    match result {
        Ok(import) => {
            let refusals = import.refusals.iter().chain(&import.lacks_nodes);
            let refusals: String = refusals.map(|refusal| format!("REFUSED {refusal}\n")).collect();
            import.rendered().text + &refusals
        }
        Err(faults) => faults.0.iter().map(|fault| format!("FAULT {fault}\n")).collect(),
    }
}

#[test]
fn files_of_other_programs_mean_the_stored_configuration() {
    let is_blessed = std::env::var_os("SHARDIS_BLESS").is_some_and(|value| value == "1");
    for (expected_kind, folder, name, text) in inputs() {
        assert_eq!(kind(&text), Some(expected_kind), "{name}");
        let result = read(expected_kind, &name, &text, &mut Folder(folder.clone()));
        let (shown, path) = (shown(&result), folder.join(format!("{name}.out")));
        if is_blessed {
            fs::write(&path, &shown).expect("the folder can be written to");
        }
        let stored = fs::read_to_string(&path).unwrap_or_default();
        assert_eq!(
            shown, stored,
            "{expected_kind} {name}: write it anew with SHARDIS_BLESS=1 if this is right"
        );
    }
}

#[test]
fn each_line_of_an_option_is_mentioned_in_the_result() {
    let of_pairs = [Kind::Twemproxy, Kind::Dynomite, Kind::Corvus, Kind::Codis];
    for (kind, folder, name, text) in inputs().into_iter().filter(|(kind, ..)| of_pairs.contains(kind)) {
        let Ok(import) = read(kind, &name, &text, &mut Folder(folder)) else { continue };
        let is_refused = !import.refusals.is_empty();
        let shown = shown(&Ok(import));
        for (number, line) in text.lines().enumerate() {
            let (bare, number) = (line.trim(), number + 1);
            let is_option = !bare.is_empty() && !bare.starts_with('#') && line != "---";
            // The name of a pool is no option.
            let is_pool = [Kind::Twemproxy, Kind::Dynomite].contains(&kind) && !line.starts_with(' ');
            // The head of a list is mentioned with its values, and a refused list as a whole.
            let is_of_list = bare.ends_with(':') || (is_refused && bare.starts_with("- "));
            if is_option && !is_pool && !is_of_list {
                let is_mentioned =
                    [format!("# line {number}:"), format!("# line {number}\n"), format!("{name}:{number}:")]
                        .iter()
                        .any(|mention| shown.contains(mention));
                assert!(is_mentioned, "{kind} {name}: line {number} is not mentioned: {line}\n{shown}");
            }
        }
    }
}

#[test]
fn every_line_of_the_result_knows_its_origin() {
    for (kind, folder, name, text) in inputs() {
        let Ok(import) = read(kind, &name, &text, &mut Folder(folder)) else { continue };
        let rendered = import.rendered();
        assert_eq!(rendered.text.lines().count(), rendered.places.len(), "{name}");
        let is_in_file = |place: &Place| *place.file != *name || place.line <= text.lines().count();
        assert!(rendered.places.iter().flatten().all(is_in_file), "{name}");
    }
}

#[test]
fn no_part_of_a_file_causes_a_panic() {
    for (expected, folder, name, text) in inputs() {
        let mut files = Folder(folder);
        for at in (0..text.len()).filter(|at| text.is_char_boundary(*at)) {
            let part = &text[..at];
            let kinds = [kind(part), Some(expected)];
            for kind in kinds.into_iter().flatten() {
                if let Ok(import) = read(kind, &name, part, &mut files) {
                    let rendered = import.rendered().text;
                    assert!(rendered.parse::<toml::Table>().is_ok(), "{kind} {name} up to {at}:\n{rendered}");
                }
            }
        }
    }
}

#[test]
fn no_mixture_of_lines_causes_a_panic() {
    let inputs = inputs();
    let lines: Vec<&str> = inputs.iter().flat_map(|(.., text)| text.lines()).collect();
    let mut prng = stdx::Prng::new(24);
    for _ in 0..2000 {
        let text: Vec<&str> = (0..1 + prng.below(30)).map(|_| *prng.pick(&lines)).collect();
        let text = text.join("\n");
        for kind in Kind::ALL {
            if let Ok(import) = read(kind, "mixed", &text, &mut import::NoFiles) {
                let rendered = import.rendered().text;
                assert!(rendered.parse::<toml::Table>().is_ok(), "{kind}:\n{text}\n\n{rendered}");
            }
        }
    }
}

#[test]
fn a_file_of_the_largest_size_is_read() {
    // Quadratic work on 100,000 lines would be noticed: minutes instead of a second.
    for (kind, begin, line) in [
        (Kind::Twemproxy, "a:\n", "  x#: 1\n"),
        (Kind::Dynomite, "a:\n", "  x#: 1\n"),
        (Kind::Corvus, "node a:1\n", "x# 1\n"),
        (Kind::Predixy, "", "x# 1\n"),
        (Kind::Codis, "product_name = 'a'\n", "x# = 1\n"),
        (Kind::Nginx, "stream {\n", "x# 1;\n"),
        (Kind::Haproxy, "listen a\n", "x# 1\n"),
    ] {
        let mut text = begin.to_owned();
        for number in 0.. {
            let line = line.replace('#', &number.to_string());
            if text.len() + line.len() > import::BYTES_MAX {
                break;
            }
            text.push_str(&line);
        }
        let result = read(kind, "large", &text, &mut import::NoFiles);
        let count = result.map_or_else(|faults| faults.0.len(), |import| import.left_out.len());
        assert!(count > 50_000, "{kind}: {count}");
    }
}

#[test]
fn no_password_is_shown_but_in_its_key() {
    // Each is in one of the files: of twemproxy, dynomite, corvus, predixy and codis.
    const PASSWORDS: [&str; 8] =
        ["a $", "secret", "pass-", "#a complex", "p#w", "sesame", "w\\\"riters", "inner"];
    const KEYS: [&str; 3] = ["requirepass = ", "node-auth = ", "sentinel-auth = "];
    for (kind, folder, name, text) in inputs() {
        let shown = shown(&read(kind, &name, &text, &mut Folder(folder)));
        for line in shown.lines().filter(|line| !KEYS.iter().any(|key| line.starts_with(key))) {
            let bare = line.replace("(secret)", "");
            assert!(!PASSWORDS.iter().any(|password| bare.contains(password)), "{kind} {name}: {line}");
        }
    }
}
