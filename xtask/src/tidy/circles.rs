//! Modules of a crate that use each other in a circle: none of them can be read, or changed, without the others.
//!
//! A module uses the modules that its paths name from `crate`, `super` or `self`. A module and the modules within it count as
//! one: their use of each other is not counted.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};

use super::measure::{Measure, Unit};
use super::shape;
use super::source::Source;

/// The largest circle of each package of the product.
pub(super) fn measure(sources: &[Source<'_>]) -> Vec<Measure> {
    let mut packages: BTreeMap<&str, Vec<&Source<'_>>> = BTreeMap::new();
    for source in sources {
        if let Some(package) = shape::package(source.path) {
            packages.entry(package).or_default().push(source);
        }
    }
    let largest = |(package, sources): (&str, Vec<&Source<'_>>)| {
        let circle = Graph::of(&sources).largest_circle().len();
        let path = format!("crates/{package}/src/lib.rs");
        Measure { name: package.to_owned(), path, line: 1, unit: Unit::Circle, amount: circle }
    };
    packages.into_iter().map(largest).collect()
}

/// The parts of a module's path; none for the root.
type Module = Vec<String>;

/// The module of a file.
fn module(path: &str) -> Module {
    let (_, module) = path.split_once("/src/").unwrap_or(("", path));
    let mut parts: Module = module.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

/// Which modules use which.
struct Graph {
    uses: BTreeMap<Module, BTreeSet<Module>>,
}

impl Graph {
    fn of(sources: &[&Source<'_>]) -> Graph {
        let paths: BTreeMap<Module, Paths> = sources.iter().map(|source| Paths::of(source)).collect();
        let root = paths.get(&Module::new()).map_or(&[][..], |root| &root.given[..]);
        let given: BTreeMap<&str, Module> =
            root.iter().filter_map(|path| Some((path.last()?.as_str(), path.clone()))).collect();
        let uses = |(module, found): (&Module, &Paths)| {
            let owners = found.named.iter().filter_map(|path| {
                // A name that the root re-exports belongs to the module that it comes from.
                let path = match &path[..] {
                    [name] => given.get(name.as_str()).unwrap_or(path),
                    _ => path,
                };
                (0..=path.len()).rev().map(|end| &path[..end]).find(|part| paths.contains_key(*part))
            });
            let is_apart = |owner: &&[String]| !module.starts_with(owner) && !owner.starts_with(module);
            (module.clone(), owners.filter(is_apart).map(<[String]>::to_vec).collect())
        };
        Graph { uses: paths.iter().map(uses).collect() }
    }

    /// The modules that each of reaches all others.
    fn largest_circle(&self) -> BTreeSet<&Module> {
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.uses.keys().map(|module| (module, self.reached_from(module))).collect();
        let circle = |module: &&Module| -> BTreeSet<&Module> {
            let mutual = reached[*module].iter().filter(|other| reached[**other].contains(*module));
            mutual.copied().collect()
        };
        self.uses.keys().map(|module| circle(&module)).max_by_key(BTreeSet::len).unwrap_or_default()
    }

    fn reached_from<'a>(&'a self, module: &'a Module) -> BTreeSet<&'a Module> {
        let (mut reached, mut left) = (BTreeSet::new(), vec![module]);
        while let Some(next) = left.pop() {
            for used in self.uses.get(next).into_iter().flatten() {
                if reached.insert(used) {
                    left.push(used);
                }
            }
        }
        reached
    }
}

/// The paths in a file, from the root of its crate.
struct Paths {
    module: Module,
    named: BTreeSet<Module>,
    /// The modules that it re-exports by `pub use`.
    given: Vec<Module>,
}

impl Paths {
    fn of(source: &Source<'_>) -> (Module, Paths) {
        let module = module(source.path);
        let mut paths = Paths { module: module.clone(), named: BTreeSet::new(), given: Vec::new() };
        paths.visit_file(&source.file);
        (module, paths)
    }

    /// The path from the root, if it begins within the crate.
    fn absolute(&self, path: &[String]) -> Option<Module> {
        let mut place: Module = self.module.clone();
        let mut rest = path;
        match path.first().map(String::as_str)? {
            "crate" => place.clear(),
            "self" => {}
            "super" => {
                place.pop();
            }
            _ => return None,
        }
        rest = &rest[1..];
        while rest.first().is_some_and(|part| part == "super") {
            place.pop();
            rest = &rest[1..];
        }
        place.extend(rest.iter().cloned());
        Some(place)
    }

    fn note_tree(&mut self, before: &[String], tree: &syn::UseTree, gives: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.note_tree(&with(&path.ident), &path.tree, gives),
            syn::UseTree::Name(name) if name.ident == "self" => self.note(before, gives),
            syn::UseTree::Name(name) => self.note(&with(&name.ident), gives),
            syn::UseTree::Rename(rename) => self.note(&with(&rename.ident), gives),
            syn::UseTree::Glob(_) => self.note(before, gives),
            syn::UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.note_tree(before, tree, gives));
            }
        }
    }

    fn note(&mut self, path: &[String], gives: bool) {
        self.named.extend(self.absolute(path));
        if gives {
            let relative = [&["self".to_owned()], path].concat();
            self.given.extend(self.absolute(path).or_else(|| self.absolute(&relative)));
        }
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        if !shape::is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !shape::is_for_tests(&item.attrs) {
            self.note_tree(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<_> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        self.named.extend(self.absolute(&parts));
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circle(files: &[(&str, &str)]) -> usize {
        let sources: Vec<_> =
            files.iter().map(|(path, text)| Source::parse(path, text).expect("it is Rust")).collect();
        measure(&sources)[0].amount
    }

    #[test]
    fn modules_that_use_each_other_are_a_circle() {
        let one_way = [("crates/a/src/x.rs", "use crate::y::Y;"), ("crates/a/src/y.rs", "struct Y;")];
        assert_eq!(circle(&one_way), 0);
        let both = [("crates/a/src/x.rs", "use crate::y::Y;"), ("crates/a/src/y.rs", "use super::x;")];
        assert_eq!(circle(&both), 2);
        let by_a_third = [
            ("crates/a/src/x.rs", "use crate::{b, y::{self, Y}};"),
            ("crates/a/src/y.rs", "fn f() { crate::z::g() }"),
            ("crates/a/src/z.rs", "fn g(x: &super::x::X) {}"),
        ];
        assert_eq!(circle(&by_a_third), 3);
    }

    #[test]
    fn a_module_and_its_inner_modules_count_as_one() {
        let files = [("crates/a/src/x.rs", "use self::y::Y;"), ("crates/a/src/x/y.rs", "use super::X;")];
        assert_eq!(circle(&files), 0);
    }

    #[test]
    fn a_reexport_belongs_to_its_own_module() {
        let files = [
            ("crates/a/src/lib.rs", "mod x; mod y;\npub use x::X;"),
            ("crates/a/src/x.rs", "use crate::y::Y;"),
            ("crates/a/src/y.rs", "use crate::X;"),
        ];
        assert_eq!(circle(&files), 2);
    }

    #[test]
    fn tests_may_use_any_module() {
        let files = [
            ("crates/a/src/x.rs", "use crate::y::Y;"),
            ("crates/a/src/y.rs", "#[cfg(test)] mod tests { use crate::x::X; }"),
        ];
        assert_eq!(circle(&files), 0);
    }
}
