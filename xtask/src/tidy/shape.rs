//! The large scale of the product: fields and bools of structs, methods of types over all files, circles of modules.
//!
//! Short functions and files alone allow one object in many slices. Tests and the simulator are not measured.

use std::collections::BTreeMap;

use syn::visit::{self, Visit};

use super::measure::{Measure, Unit};
use super::source::Source;

/// Structs and types of the product.
pub(super) fn measure(sources: &[Source<'_>]) -> Vec<Measure> {
    let mut shapes = Shapes::default();
    for source in sources {
        if let Some(package) = package(source.path) {
            shapes.source = Some((package.to_owned(), source.path.to_owned()));
            shapes.visit_file(&source.file);
        }
    }
    shapes.measures.into_iter().chain(shapes.methods.into_values()).collect()
}

/// The package of the product that the file at `path` belongs to, if it does.
pub(super) fn package(path: &str) -> Option<&str> {
    let (package, module) = path.strip_prefix("crates/")?.split_once("/src/")?;
    let is_for_tests =
        |part: &str| matches!(part.trim_end_matches(".rs"), "tests" | "testing" | "transcripts");
    (package != "sim" && !module.split('/').any(is_for_tests)).then_some(package)
}

/// Whether an item is compiled for tests only.
pub(super) fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|path| path.is_ident("test"))
    })
}

#[derive(Default)]
struct Shapes {
    /// The package and the path of the file that is visited.
    source: Option<(String, String)>,
    measures: Vec<Measure>,
    /// By the name of the type.
    methods: BTreeMap<String, Measure>,
}

impl Shapes {
    /// A struct is named with its file, a type with methods in many files with its package.
    fn of(&self, ident: &syn::Ident, unit: Unit, amount: usize) -> Option<Measure> {
        let (package, path) = self.source.as_ref()?;
        let home = if unit == Unit::Methods { package } else { path };
        let line = ident.span().start().line;
        Some(Measure { name: format!("{home}::{ident}"), path: path.clone(), line, unit, amount })
    }
}

impl<'ast> Visit<'ast> for Shapes {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
        let is_bool =
            |field: &&syn::Field| matches!(&field.ty, syn::Type::Path(path) if path.path.is_ident("bool"));
        let bools = item.fields.iter().filter(is_bool).count();
        self.measures.extend(self.of(&item.ident, Unit::Fields, item.fields.len()));
        self.measures.extend(self.of(&item.ident, Unit::Bools, bools));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let syn::Type::Path(path) = &*item.self_ty else { return };
        let Some(segment) = path.path.segments.last() else { return };
        if is_for_tests(&item.attrs) {
            return;
        }
        let is_method =
            |item: &&syn::ImplItem| matches!(item, syn::ImplItem::Fn(method) if !is_for_tests(&method.attrs));
        let count = item.items.iter().filter(is_method).count();
        if let Some(found) = self.of(&segment.ident, Unit::Methods, 0) {
            self.methods.entry(found.name.clone()).or_insert(found).amount += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amounts(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::parse(path, text).expect("it is Rust")).collect();
        let measures = measure(&sources);
        measures.iter().map(|one| format!("{} {} {}", one.name, one.unit, one.amount)).collect()
    }

    #[test]
    fn fields_bools_and_methods_are_counted_over_files() {
        let files = [
            (
                "crates/a/src/lib.rs",
                "struct S { x: u8, y: bool, z: Option<bool> }\nimpl S { fn one() {} const N: u8 = 1; }",
            ),
            (
                "crates/a/src/other.rs",
                "impl Drop for S { fn drop(&mut self) {} }\nimpl super::S { fn two() {} }",
            ),
            ("crates/b/src/lib.rs", "struct S(u8);\nimpl S { fn one() {} }"),
        ];
        let expected = [
            "crates/a/src/lib.rs::S fields 3",
            "crates/a/src/lib.rs::S bools 1",
            "crates/b/src/lib.rs::S fields 1",
            "crates/b/src/lib.rs::S bools 0",
            "a::S methods 3",
            "b::S methods 1",
        ];
        assert_eq!(amounts(&files), expected);
    }

    #[test]
    fn tests_and_the_simulator_are_not_measured() {
        let text = "struct S { x: u8 }";
        for path in
            ["crates/a/src/tests/b.rs", "crates/a/src/testing.rs", "crates/sim/src/a.rs", "xtask/src/a.rs"]
        {
            assert_eq!(amounts(&[(path, text)]), [""; 0], "{path}");
        }
        let within = "#[cfg(test)] mod tests { struct S { x: u8 } }\nimpl S { #[cfg(test)] fn rig() {} }";
        assert_eq!(amounts(&[("crates/a/src/lib.rs", within)]), ["a::S methods 0"]);
    }
}
