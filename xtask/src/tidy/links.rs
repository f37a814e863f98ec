//! Links in our pages into the repository must arrive: at a file, and at a heading where they name one.

use std::ops::Range;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::Finding;
use super::tree::Tree;

/// Links of all pages that do not arrive. Links to other sites are not checked: no check here needs the network.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    tree.with_extension("md").flat_map(|(path, text)| check_page(tree, path, text)).collect()
}

fn check_page(tree: &Tree, path: &str, text: &str) -> Vec<Finding> {
    let links = events(text).filter_map(|(event, range)| match event {
        Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => Some((dest_url, range)),
        _ => None,
    });
    let broken = links.filter_map(|(link, range)| {
        let problem = judge(tree, path, &link)?;
        let line = text[..range.start].lines().count().max(1);
        Some(Finding::new(path, line, format!("the link `{link}` {problem}")))
    });
    broken.collect()
}

/// The reason why `link` of the page `from` does not arrive.
fn judge(tree: &Tree, from: &str, link: &str) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, heading) = link.split_once('#').map_or((link, None), |(file, heading)| (file, Some(heading)));
    let target = if file.is_empty() { Some(from.to_string()) } else { resolve(from, file) };
    let Some(target) = target.filter(|target| tree.holds(target)) else {
        return Some("leads to no file; a link is relative to its page".into());
    };
    let (heading, page) = (heading?, tree.text(&target).filter(|_| target.ends_with(".md"))?);
    let arrives = headings(page).iter().any(|found| found == heading);
    (!arrives).then(|| format!("names no heading of {target}; they are: {}", headings(page).join(", ")))
}

/// The path from the root of `link` in the page `from`; `None` if it leaves the repository.
fn resolve(from: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = match link.starts_with('/') {
        true => Vec::new(),
        false => from.split('/').rev().skip(1).collect::<Vec<_>>().into_iter().rev().collect(),
    };
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

/// The headings of `page` as links name them: small letters, blanks as hyphens, no punctuation. The second of two that
/// are alike would be `name-1`, which no page of ours should need.
fn headings(page: &str) -> Vec<String> {
    let (mut found, mut heading) = (Vec::new(), None);
    for (event, _) in events(page) {
        match (event, &mut heading) {
            (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
            (Event::End(TagEnd::Heading(_)), _) => found.extend(heading.take().map(|text| slug(&text))),
            (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
            _ => {}
        }
    }
    found
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|letter| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).flat_map(char::to_lowercase).collect()
}

fn events(text: &str) -> impl Iterator<Item = (Event<'_>, Range<usize>)> {
    Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults of `text` as docs/page.md.
    fn findings(text: &str) -> Vec<String> {
        let tree = Tree::of(&[
            ("docs/page.md", text),
            ("docs/other.md", "# The `MSET` walk, in short"),
            ("README.md", "# Read me"),
            ("crates/resp/src/lib.rs", ""),
        ]);
        check(&tree).iter().map(Finding::to_string).collect()
    }

    #[test]
    fn links_that_arrive_are_fine() {
        for link in [
            "other.md",
            "./other.md",
            "../README.md",
            "../crates/resp",
            "/README.md",
            "other.md#the-mset-walk-in-short",
            "https://redis.io/nowhere",
            "mailto:a@b",
            "../crates/resp/src/lib.rs#L7",
        ] {
            assert_eq!(findings(&format!("See [this]({link}).")), [""; 0], "{link}");
        }
        assert_eq!(findings("# Top\n[up](#top)"), [""; 0]);
    }

    #[test]
    fn links_that_do_not_arrive_are_found() {
        let expected = "docs/page.md:3: the link `gone.md` leads to no file; a link is relative to its page";
        assert_eq!(findings("# Top\n\nSee [this](gone.md)."), [expected]);
        let expected = "docs/page.md:1: the link `other.md#gone` names no heading of docs/other.md; they are: the-mset-walk-in-short";
        assert_eq!(findings("[this](other.md#gone)"), [expected]);
        for text in [
            "![picture](gone.png)",
            "[a][b]\n\n[b]: gone.md",
            "| a |\n| - |\n| [x](gone.md) |",
            "[out](../../a.md)",
            "[up](#gone)",
        ] {
            assert_eq!(findings(text).len(), 1, "{text}");
        }
    }

    #[test]
    fn code_holds_no_links() {
        assert_eq!(findings("`[a](gone.md)`\n\n```\n[a](gone.md)\n```\n"), [""; 0]);
    }
}
