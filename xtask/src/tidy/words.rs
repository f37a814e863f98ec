//! One word per thing: our names must not use words that the glossary gave up. And no name is a riddle: a test's name states
//! the behaviour in 60 characters.
//!
//! Only definitions are checked, so that the words of std and of other crates are free to use. Words that are right in other
//! senses (a map, a path, a channel) are not in the list. A check that is often wrong is soon ignored.

use proc_macro2::Ident;
use syn::visit::{self, Visit};

use super::Finding;
use super::permissions::Suspicion;
use super::source::Source;

/// The page that lists our words, relative to the root.
pub(super) const GLOSSARY_PATH: &str = "docs/glossary.md";

/// Characters of a name.
const NAME_MAX: usize = 60;

/// Names that are too long to be read at once.
pub(super) fn long_names(source: &Source<'_>) -> Vec<Finding> {
    let long = names_of(source).into_iter().filter(|name| name.to_string().len() > NAME_MAX);
    let finding = |name: Ident| {
        let text = format!("`{name}` has over {NAME_MAX} characters; state the behaviour in fewer words");
        Finding::new(source.path, name.span().start().line, text)
    };
    long.map(finding).collect()
}

fn names_of(source: &Source<'_>) -> Vec<Ident> {
    let mut names = Names(Vec::new());
    names.visit_file(&source.file);
    names.0
}

/// Words that the glossary gave up.
pub(super) struct Glossary(Vec<GivenUp>);

struct GivenUp {
    /// Words with a blank are found in `lame_duck` and `LameDuck`.
    word: String,
    instead: String,
}

impl Glossary {
    /// Reads the rows of `page`: the first column has our word, the last its former words.
    pub(super) fn parse(page: &str) -> Glossary {
        let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
        let words = rows.filter_map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
            let (instead, given_up) = (cells.first()?, cells.get(3)?);
            let words = given_up.split(',').map(str::trim).filter(|word| !word.is_empty() && *word != "not");
            Some(
                words
                    .map(|word| GivenUp { word: word.into(), instead: (*instead).into() })
                    .collect::<Vec<_>>(),
            )
        });
        Glossary(words.flatten().collect())
    }

    /// Names that use a word which was given up.
    pub(super) fn check(&self, source: &Source<'_>) -> Vec<Suspicion> {
        names_of(source).iter().filter_map(|name| self.judge(source, name)).collect()
    }

    fn judge(&self, source: &Source<'_>, name: &Ident) -> Option<Suspicion> {
        let GivenUp { word, instead } = self.given_up(&name.to_string())?;
        let text = format!("`{name}`: `{word}` is not a word of the glossary, say {instead}");
        let finding = Finding::new(source.path, name.span().start().line, text);
        Some(Suspicion { finding, permission: Some(word.clone()) })
    }

    /// The first word given up that `name` uses, in the singular or plural.
    fn given_up(&self, name: &str) -> Option<&GivenUp> {
        let name = format!(" {} ", words_of(name));
        let uses = |word: &str| name.contains(&format!(" {word} ")) || name.contains(&format!(" {word}s "));
        self.0.iter().find(|given_up| uses(&given_up.word))
    }
}

/// `lame_duck`, `LameDuck` and `LAME_DUCK` as `lame duck`.
fn words_of(name: &str) -> String {
    let mut words = String::new();
    let mut was_lower = false;
    for letter in name.chars() {
        if was_lower && letter.is_uppercase() {
            words.push(' ');
        }
        was_lower = letter.is_lowercase();
        words.extend(if letter == '_' { ' ' } else { letter }.to_lowercase());
    }
    words
}

/// Every name that the file gives to something.
struct Names(Vec<Ident>);

impl Names {
    fn note(&mut self, name: &Ident) {
        self.0.push(name.clone());
    }
}

impl<'ast> Visit<'ast> for Names {
    fn visit_signature(&mut self, item: &'ast syn::Signature) {
        self.note(&item.ident);
        visit::visit_signature(self, item);
    }

    fn visit_pat_ident(&mut self, item: &'ast syn::PatIdent) {
        self.note(&item.ident);
        visit::visit_pat_ident(self, item);
    }

    fn visit_field(&mut self, item: &'ast syn::Field) {
        item.ident.iter().for_each(|name| self.note(name));
        visit::visit_field(self, item);
    }

    fn visit_variant(&mut self, item: &'ast syn::Variant) {
        self.note(&item.ident);
        visit::visit_variant(self, item);
    }

    fn visit_type_param(&mut self, item: &'ast syn::TypeParam) {
        self.note(&item.ident);
        visit::visit_type_param(self, item);
    }

    fn visit_impl_item_const(&mut self, item: &'ast syn::ImplItemConst) {
        self.note(&item.ident);
        visit::visit_impl_item_const(self, item);
    }

    fn visit_trait_item_const(&mut self, item: &'ast syn::TraitItemConst) {
        self.note(&item.ident);
        visit::visit_trait_item_const(self, item);
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        match item {
            syn::Item::Const(item) => self.note(&item.ident),
            syn::Item::Enum(item) => self.note(&item.ident),
            syn::Item::Macro(item) => item.ident.iter().for_each(|name| self.note(name)),
            syn::Item::Mod(item) => self.note(&item.ident),
            syn::Item::Static(item) => self.note(&item.ident),
            syn::Item::Struct(item) => self.note(&item.ident),
            syn::Item::Trait(item) => self.note(&item.ident),
            syn::Item::Type(item) => self.note(&item.ident),
            syn::Item::Union(item) => self.note(&item.ident),
            _ => {}
        }
        visit::visit_item(self, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn glossary() -> Glossary {
        let page = "| word | meaning | elsewhere | not |\n| --- | --- | --- | --- |\n\
                    | turn | one round | | tick |\n| draining | ends | Envoy: draining | lame duck |\n\
                    | primary, replica | roles | | master, slave |\n| shard | part | |\n";
        Glossary::parse(page)
    }

    fn findings(text: &str) -> Vec<String> {
        let source = Source::parse("a.rs", text).expect("it is Rust");
        glossary().check(&source).iter().map(|suspicion| suspicion.finding.to_string()).collect()
    }

    #[test]
    fn names_are_taken_apart_into_words() {
        for name in ["lame_duck", "LameDuck", "LAME_DUCK"] {
            assert_eq!(words_of(name), "lame duck");
        }
        assert_eq!(words_of("CRC32Hasher"), "crc32hasher");
    }

    #[test]
    fn given_up_words_are_found_but_not_within_others() {
        for name in ["master_conn", "OldMaster", "SLAVES_MAX", "on_tick", "LameDuck", "lame_ducks"] {
            assert!(glossary().given_up(name).is_some(), "{name}");
        }
        for name in ["ticket", "tickets", "mastery", "slavery", "returns", "lame", "duck", "routing"] {
            assert!(glossary().given_up(name).is_none(), "{name}");
        }
    }

    #[test]
    fn every_kind_of_definition_is_looked_at() {
        let definitions = [
            "const TICK: u8 = 0;",
            "static TICK: u8 = 0;",
            "enum Tick {}",
            "enum E { Tick }",
            "struct Tick;",
            "struct S { tick: u8 }",
            "enum E { V { tick: u8 } }",
            "trait Tick {}",
            "trait T { const TICK: u8; }",
            "trait T { fn tick(); }",
            "type Tick = u8;",
            "union Tick { a: u8 }",
            "mod tick {}",
            "fn tick() {}",
            "fn f(tick: u8) {}",
            "fn f() { let (a, tick) = b; }",
            "fn f() { g(|tick| 0); }",
            "struct S<Tick>(Tick);",
            "impl S { fn tick() {} }",
            "impl S { const TICK: u8 = 0; }",
            "macro_rules! tick { () => {} }",
        ];
        for definition in definitions {
            assert_eq!(findings(definition).len(), 1, "{definition}");
        }
    }

    #[test]
    fn names_have_at_most_60_characters() {
        let lines = |name: String| {
            let text = format!("\nfn {name}() {{}}");
            let source = Source::parse("a.rs", &text).expect("it is Rust");
            long_names(&source).iter().map(|finding| finding.line).collect::<Vec<_>>()
        };
        assert_eq!((lines("a".repeat(NAME_MAX)), lines("a".repeat(NAME_MAX + 1))), (vec![], vec![2]));
    }

    #[test]
    fn the_words_of_others_are_free_to_use() {
        assert_eq!(findings("use mio::tick;\nfn f() { a.tick(); let b = Master::tick; }"), [""; 0]);
    }

    #[test]
    fn a_finding_names_the_correct_word() {
        let expected = "a.rs:1: `slave`: `slave` is not a word of the glossary, say primary, replica";
        assert_eq!(findings("fn slave() {}"), [expected]);
    }
}
