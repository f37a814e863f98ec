//! One Rust file: its text, its syntax tree, its tokens.

use proc_macro2::{TokenStream, TokenTree};

/// A Rust file that parses.
pub(super) struct Source<'a> {
    /// From the root of the repository.
    pub(super) path: &'a str,
    pub(super) text: &'a str,
    pub(super) file: syn::File,
    /// All tokens in order, those inside macros too; groups are taken apart.
    pub(super) tokens: Vec<Token>,
}

/// A word, a literal or one character of punctuation.
pub(super) struct Token {
    pub(super) text: String,
    pub(super) line: usize,
}

impl<'a> Source<'a> {
    /// Parses `text`.
    pub(super) fn parse(path: &'a str, text: &'a str) -> syn::Result<Source<'a>> {
        let file = syn::parse_file(text)?;
        let mut tokens = Vec::new();
        flatten(text.parse()?, &mut tokens);
        Ok(Source { path, text, file, tokens })
    }
}

fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    for tree in stream {
        let line = tree.span().start().line;
        match tree {
            TokenTree::Group(group) => {
                let [open, close] = match group.delimiter() {
                    proc_macro2::Delimiter::Parenthesis => ["(", ")"],
                    proc_macro2::Delimiter::Brace => ["{", "}"],
                    proc_macro2::Delimiter::Bracket => ["[", "]"],
                    proc_macro2::Delimiter::None => ["", ""],
                };
                tokens.push(Token { text: open.into(), line });
                flatten(group.stream(), tokens);
                tokens.push(Token { text: close.into(), line: group.span_close().start().line });
            }
            other => tokens.push(Token { text: other.to_string(), line }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_inside_macros_are_seen_with_their_lines() {
        let source = Source::parse("a.rs", "fn f() {\n    vec![\n        a::b(1)];\n}").expect("it is Rust");
        let tokens: Vec<_> = source.tokens.iter().map(|token| (token.text.as_str(), token.line)).collect();
        let expected = [
            ("fn", 1),
            ("f", 1),
            ("(", 1),
            (")", 1),
            ("{", 1),
            ("vec", 2),
            ("!", 2),
            ("[", 2),
            ("a", 3),
            (":", 3),
            (":", 3),
            ("b", 3),
            ("(", 3),
            ("1", 3),
            (")", 3),
            ("]", 3),
            (";", 3),
            ("}", 4),
        ];
        assert_eq!(tokens, expected);
    }
}
