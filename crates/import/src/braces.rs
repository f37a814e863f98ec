//! nginx's syntax as a tree: `name arguments;` and `name arguments { … }`, with included files in their places.

use crate::Files;
use crate::draft::Draft;
use crate::fault::{Place, Word};
use std::sync::Arc;

/// The deepest nesting. nginx itself has six levels of contexts.
const DEPTH_MAX: usize = 16;

/// A directive, and the directives of its block if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Directive {
    pub(crate) name: Word,
    pub(crate) arguments: Vec<Word>,
    pub(crate) block: Option<Vec<Directive>>,
}

impl Directive {
    /// The argument `number`, or an empty text.
    pub(crate) fn argument(&self, number: usize) -> &str {
        self.arguments.get(number).map_or("", |word| &word.text)
    }

    /// All arguments, as a comment shows them.
    pub(crate) fn shown(&self) -> String {
        let words: Vec<&str> = self.arguments.iter().map(|word| word.text.as_str()).collect();
        words.join(" ")
    }
}

/// Reads the file `name`, which has `text`, and all that it includes.
pub(crate) fn read(name: &str, text: &str, files: &mut dyn Files, draft: &mut Draft) -> Vec<Directive> {
    let mut reader = Reader { files, draft, open: vec![name.to_owned()] };
    reader.file(name, text)
}

#[derive(Debug, PartialEq, Eq)]
enum Token {
    Word(Word),
    End,
    Open,
    Close,
}

struct Reader<'a> {
    files: &'a mut dyn Files,
    draft: &'a mut Draft,
    /// The names of the files that are being read, from the outermost on.
    open: Vec<String>,
}

impl Reader<'_> {
    fn file(&mut self, name: &str, text: &str) -> Vec<Directive> {
        let tokens = tokens(name, text, self.draft);
        // Blocks that have begun, each with the directives so far.
        let mut blocks: Vec<(Directive, Vec<Directive>)> = Vec::new();
        let mut directives: Vec<Directive> = Vec::new();
        let mut words: Vec<Word> = Vec::new();
        for (token, place) in tokens {
            match token {
                Token::Word(word) => words.push(word),
                Token::End => {
                    let Some(directive) = self.directive(&mut words, &place, ";") else { continue };
                    match directive.name.text.as_str() {
                        "include" => directives.extend(self.include(name, &directive)),
                        _ => directives.push(directive),
                    }
                }
                Token::Open => {
                    let Some(directive) = self.directive(&mut words, &place, "{") else { continue };
                    if blocks.len() == DEPTH_MAX {
                        self.draft.fault(&place, format!("more than {DEPTH_MAX} blocks lie in each other"));
                        return directives;
                    }
                    blocks.push((directive, std::mem::take(&mut directives)));
                }
                Token::Close => {
                    self.unfinished(&mut words);
                    match blocks.pop() {
                        Some((directive, outer)) => {
                            let block = std::mem::replace(&mut directives, outer);
                            directives.push(Directive { block: Some(block), ..directive });
                        }
                        None => self.draft.fault(&place, "no block begins that this } could end"),
                    }
                }
            }
        }
        self.unfinished(&mut words);
        for (directive, mut outer) in blocks.into_iter().rev() {
            let text = format!("{}: the block has no end; write }}", directive.name.text);
            self.draft.fault(&directive.name.place, text);
            outer.push(Directive { block: Some(directives), ..directive });
            directives = outer;
        }
        directives
    }

    fn directive(&mut self, words: &mut Vec<Word>, place: &Place, end: &str) -> Option<Directive> {
        let mut words = std::mem::take(words).into_iter();
        let name = words.next();
        if name.is_none() {
            self.draft.fault(place, format!("there is nothing before the {end}"));
        }
        Some(Directive { name: name?, arguments: words.collect(), block: None })
    }

    fn unfinished(&mut self, words: &mut Vec<Word>) {
        if let Some(word) = words.first() {
            self.draft
                .fault(&word.place, format!("{}: the directive does not end; write ; behind it", word.text));
        }
        words.clear();
    }

    fn include(&mut self, from: &str, directive: &Directive) -> Vec<Directive> {
        let (place, path) = (&directive.name.place, directive.argument(0));
        if !self.draft.include(place) {
            return Vec::new();
        }
        let files = match self.files.open(from, path) {
            Ok(files) => files,
            Err(why) => {
                self.draft.fault(place, format!("include {path}: {why}"));
                return Vec::new();
            }
        };
        let mut all = Vec::new();
        for (name, text) in files {
            if self.open.contains(&name) {
                self.draft.fault(place, format!("include {path}: the file includes itself"));
                continue;
            }
            self.open.push(name.clone());
            all.extend(self.file(&name, &text));
            self.open.pop();
        }
        all
    }
}

/// The tokens of `text`, with their places.
fn tokens(name: &str, text: &str, draft: &mut Draft) -> Vec<(Token, Place)> {
    let mut lexer = Lexer { file: name.into(), rest: text, line: 1, column: 1 };
    let mut tokens = Vec::new();
    while let Some(letter) = lexer.peek() {
        let place = lexer.place();
        let token = match letter {
            '#' => {
                lexer.skip_line();
                continue;
            }
            ';' => Token::End,
            '{' => Token::Open,
            '}' => Token::Close,
            _ if letter.is_whitespace() => {
                lexer.next();
                continue;
            }
            _ => {
                let word = lexer.word(draft);
                tokens.push((Token::Word(Word::new(word, place.clone())), place));
                continue;
            }
        };
        lexer.next();
        tokens.push((token, place));
    }
    tokens
}

struct Lexer<'a> {
    file: Arc<str>,
    rest: &'a str,
    line: usize,
    column: usize,
}

impl Lexer<'_> {
    fn place(&self) -> Place {
        Place { file: self.file.clone(), line: self.line, column: self.column }
    }

    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let letter = self.peek()?;
        self.rest = &self.rest[letter.len_utf8()..];
        (self.line, self.column) =
            if letter == '\n' { (self.line + 1, 1) } else { (self.line, self.column + 1) };
        Some(letter)
    }

    fn skip_line(&mut self) {
        while self.peek().is_some_and(|letter| letter != '\n') {
            self.next();
        }
    }

    /// A word, with or without quotes. `${` in it is no block.
    fn word(&mut self, draft: &mut Draft) -> String {
        if let Some(quote) = self.peek().filter(|letter| ['"', '\''].contains(letter)) {
            return self.quoted(quote, draft);
        }
        let (mut word, mut is_variable) = (String::new(), false);
        while let Some(letter) = self.peek() {
            let is_end = letter.is_whitespace() || letter == ';' || (letter == '{' && !word.ends_with('$'));
            if (is_end && !is_variable) || letter == '\n' || (letter == '}' && !is_variable) {
                break;
            }
            is_variable = (is_variable || letter == '{') && letter != '}';
            self.next();
            word.push(letter);
            if letter == '\\' {
                word.extend(self.next());
            }
        }
        word
    }

    fn quoted(&mut self, quote: char, draft: &mut Draft) -> String {
        let (start, mut word) = (self.place(), String::new());
        self.next();
        while let Some(letter) = self.next() {
            match letter {
                '\\' => match self.next() {
                    Some(escaped) if escaped == quote || escaped == '\\' => word.push(escaped),
                    Some('n') => word.push('\n'),
                    Some('r') => word.push('\r'),
                    Some('t') => word.push('\t'),
                    Some(other) => word.extend(['\\', other]),
                    None => word.push('\\'),
                },
                _ if letter == quote => return word,
                _ => word.push(letter),
            }
        }
        draft.fault(&start, format!("the text does not end; write {quote} behind it"));
        word
    }
}
