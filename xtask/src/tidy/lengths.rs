//! Lengths of files and functions. They prevent a central file that everything ends up in.

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::measure::{Measure, Unit};
use super::source::Source;

/// Lines below which half of the functions should stay.
const HALF_BELOW: usize = 8;
/// Lines below which nine of ten functions should stay.
const MOST_BELOW: usize = 40;

/// The length of the file, and of each function in it. Of functions with one name, as two `From::from` of one type, the
/// longest counts.
pub(super) fn measure(source: &Source<'_>) -> Vec<Measure> {
    let path = source.path.to_string();
    let file = Measure {
        name: path.clone(),
        path,
        line: 1,
        unit: Unit::FileLines,
        amount: source.text.lines().count(),
    };
    let mut visitor = Functions { source, scope: vec![source.path.into()], measures: vec![file] };
    visitor.visit_file(&source.file);
    visitor.measures
}

/// Lengths of all functions as a distribution: not a rule, a direction.
pub(super) fn distribution(measures: &[Measure]) -> String {
    let functions: Vec<&Measure> =
        measures.iter().filter(|measure| measure.unit == Unit::FunctionLines).collect();
    let Some(longest) = functions.iter().max_by_key(|measure| measure.amount) else {
        return "no functions".into();
    };
    let share = |bound: usize| {
        100 * functions.iter().filter(|measure| measure.amount < bound).count() / functions.len()
    };
    format!(
        "{} functions; {} % below {HALF_BELOW} lines (aim: 50), {} % below {MOST_BELOW} (aim: 90); the longest has {}: {}",
        functions.len(),
        share(HALF_BELOW),
        share(MOST_BELOW),
        longest.amount,
        longest.name
    )
}

struct Functions<'a> {
    source: &'a Source<'a>,
    /// The path of the file, then the enclosing modules, types and functions.
    scope: Vec<String>,
    measures: Vec<Measure>,
}

impl Functions<'_> {
    /// Records the function, if it has a body, and returns the name for the code inside.
    fn note(&mut self, signature: &syn::Signature, body: Option<&syn::Block>) -> String {
        let name = signature.ident.to_string();
        if let Some(body) = body {
            let line = signature.fn_token.span.start().line;
            let lines = body.brace_token.span.close().end().line - line + 1;
            let name = format!("{}::{name}", self.scope.join("::"));
            self.add(Measure {
                name,
                path: self.source.path.into(),
                line,
                unit: Unit::FunctionLines,
                amount: lines,
            });
        }
        name
    }

    fn add(&mut self, measure: Measure) {
        match self.measures.iter_mut().find(|known| known.name == measure.name) {
            Some(known) if known.amount >= measure.amount => {}
            Some(known) => *known = measure,
            None => self.measures.push(measure),
        }
    }

    fn inside(&mut self, name: String, visit: impl FnOnce(&mut Self)) {
        self.scope.push(name);
        visit(self);
        self.scope.pop();
    }
}

impl<'ast> Visit<'ast> for Functions<'_> {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        let name = self.note(&function.sig, Some(&function.block));
        self.inside(name, |visitor| visit::visit_item_fn(visitor, function));
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        let name = self.note(&function.sig, Some(&function.block));
        self.inside(name, |visitor| visit::visit_impl_item_fn(visitor, function));
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        let name = self.note(&function.sig, function.default.as_ref());
        self.inside(name, |visitor| visit::visit_trait_item_fn(visitor, function));
    }

    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        self.inside(module.ident.to_string(), |visitor| visit::visit_item_mod(visitor, module));
    }

    fn visit_item_trait(&mut self, item: &'ast syn::ItemTrait) {
        self.inside(item.ident.to_string(), |visitor| visit::visit_item_trait(visitor, item));
    }

    fn visit_item_impl(&mut self, item: &'ast syn::ItemImpl) {
        let name = match &*item.self_ty {
            syn::Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()),
            other => other.span().source_text(),
        };
        self.inside(name.unwrap_or_default(), |visitor| visit::visit_item_impl(visitor, item));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(text: &str) -> Vec<(String, usize, usize)> {
        let source = Source::parse("a.rs", text).expect("it is Rust");
        measure(&source).into_iter().map(|measure| (measure.name, measure.line, measure.amount)).collect()
    }

    #[test]
    fn functions_are_measured_from_fn_to_brace_wherever_they_stand() {
        let text = "\
//! File.
/// Docs do not count.
fn free() {
}
impl Display for Thing<'_> {
    fn fmt(
        &self,
    ) {
        fn nested() {}
    }
}
trait Duty {
    fn abstract_one(&self);
    fn default_one(&self) { }
}
mod tests {
    fn case() { }
}
";
        let expected = [
            ("a.rs", 1, 18),
            ("a.rs::free", 3, 2),
            ("a.rs::Thing::fmt", 6, 5),
            ("a.rs::Thing::fmt::nested", 9, 1),
            ("a.rs::Duty::default_one", 14, 1),
            ("a.rs::tests::case", 17, 1),
        ];
        assert_eq!(lengths(text), expected.map(|(name, line, lines)| (name.to_string(), line, lines)));
    }

    #[test]
    fn of_two_functions_with_one_name_the_longest_counts() {
        let text = "impl From<A> for T { fn from() {} }\nimpl From<B> for T { fn from() {\n} }\nimpl From<C> for T { fn from() {} }";
        assert_eq!(lengths(text)[1..], [("a.rs::T::from".to_string(), 2, 2)]);
    }

    #[test]
    fn the_distribution_counts_functions_only() {
        let text = format!("fn short() {{}}\nfn long() {{{}}}", "\n".repeat(49));
        let source = Source::parse("a.rs", &text).expect("it is Rust");
        let expected = "2 functions; 50 % below 8 lines (aim: 50), 50 % below 40 (aim: 90); the longest has 50: a.rs::long";
        assert_eq!(distribution(&measure(&source)), expected);
        assert_eq!(distribution(&[]), "no functions");
    }
}
