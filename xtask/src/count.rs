//! Lines of code, without comments, blank lines and tests, by package.

use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// What is counted apart from what a user installs.
const PROOF: [&str; 3] = ["proof", "xtask", "crates/skips"];

/// Prints the lines of code of each package, of what a user installs, and of what proves it.
pub(crate) fn print() -> Result<(), String> {
    let root = crate::metadata()?.workspace_root.into_std_path_buf();
    let mut packages: BTreeMap<String, usize> = BTreeMap::new();
    for file in crate::sizes::files(&root, "rs")? {
        let name = file.strip_prefix(&root).unwrap_or(&file);
        if is_test(name) {
            continue;
        }
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", name.display()))?;
        let lines = count(&text).map_err(|e| format!("{}: {e}", name.display()))?;
        *packages.entry(package(name)).or_default() += lines;
    }
    let is_proof = |name: &str| PROOF.iter().any(|dir| Path::new(name).starts_with(dir));
    let sum = |proof: bool| packages.iter().filter(|(name, _)| is_proof(name) == proof).map(|(_, lines)| lines).sum();
    let (product, proof): (usize, usize) = (sum(false), sum(true));
    packages.iter().for_each(|(name, lines)| println!("{lines:>7}  {name}"));
    println!("{product:>7}  what a user installs\n{proof:>7}  {}", PROOF.join(", "));
    Ok(())
}

/// A file that is compiled for tests or examples alone.
fn is_test(file: &Path) -> bool {
    let is_apart = |part: &str| ["tests", "examples", "benches", "fuzz_targets", "tests.rs"].contains(&part);
    let mut parts = file.iter().filter_map(|part| part.to_str());
    // A package of nothing but tests has no `src`.
    let is_source = file.ends_with("build.rs") || parts.clone().any(|part| part == "src");
    !is_source || parts.any(is_apart)
}

/// The folder of the package that a file belongs to: the parent of its `src`.
fn package(file: &Path) -> String {
    let parts = file.iter().take_while(|part| *part != "src").filter_map(|part| part.to_str());
    parts.filter(|part| !part.ends_with(".rs")).collect::<Vec<_>>().join("/")
}

fn count(text: &str) -> syn::Result<usize> {
    let mut apart = Apart::default();
    apart.visit_file(&syn::parse_file(text)?);
    let mut lines = BTreeSet::new();
    of_tokens(text.parse::<TokenStream>()?, &mut lines);
    Ok(lines.iter().filter(|line| !apart.0.iter().any(|(from, to)| (from..=to).contains(line))).count())
}

/// The lines on which tokens stand. A doc comment is the tokens `#[doc = …]`, which do not count.
fn of_tokens(tokens: TokenStream, lines: &mut BTreeSet<usize>) {
    let tokens: Vec<_> = tokens.into_iter().collect();
    for (n, token) in tokens.iter().enumerate() {
        let span = token.span();
        match token {
            TokenTree::Group(group) if is_doc(group) => {}
            TokenTree::Group(group) => {
                lines.extend([group.span_open().start().line, group.span_close().end().line]);
                of_tokens(group.stream(), lines);
            }
            TokenTree::Punct(mark) if matches!(mark.as_char(), '#' | '!') && is_before_doc(&tokens[n + 1..]) => {}
            _ => lines.extend(span.start().line..=span.end().line),
        }
    }
}

fn is_before_doc(tokens: &[TokenTree]) -> bool {
    match tokens {
        [TokenTree::Group(group), ..] => is_doc(group),
        [TokenTree::Punct(mark), TokenTree::Group(group), ..] => mark.as_char() == '!' && is_doc(group),
        _ => false,
    }
}

fn is_doc(group: &proc_macro2::Group) -> bool {
    let first = group.stream().into_iter().next();
    matches!(first, Some(TokenTree::Ident(name)) if name == "doc")
        && group.delimiter() == proc_macro2::Delimiter::Bracket
}

/// The first and last lines of items that only tests have.
#[derive(Default)]
struct Apart(Vec<(usize, usize)>);

impl Apart {
    fn look(&mut self, attributes: &[syn::Attribute], item: proc_macro2::Span) {
        let is_for_tests = |attribute: &syn::Attribute| match &attribute.meta {
            syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
            syn::Meta::Path(path) => path.is_ident("test"),
            syn::Meta::NameValue(_) => false,
        };
        if attributes.iter().any(is_for_tests) {
            let from = attributes.first().map_or(item, Spanned::span);
            self.0.push((from.start().line, item.end().line));
        }
    }
}

impl<'a> Visit<'a> for Apart {
    fn visit_item_mod(&mut self, item: &'a syn::ItemMod) {
        self.look(&item.attrs, item.span());
        visit::visit_item_mod(self, item);
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.look(&item.attrs, item.span());
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.look(&item.attrs, item.span());
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        self.look(&item.attrs, item.span());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_are_no_code() {
        let text = "//! What.\n\n/// One.\n#[derive(Debug)]\nstruct A {\n    // Why.\n    a: u8, // here\n}\n\n/*\n\
                    */\n#[cfg(test)]\nmod tests {\n    fn b() {}\n}\n";
        assert_eq!(count(text).unwrap(), 4);
        assert_eq!(count("const A: &str = \"\na\nb\";\n").unwrap(), 3);
    }

    #[test]
    fn a_package_is_where_its_sources_are() {
        assert_eq!(package(Path::new("crates/env/src/lib.rs")), "crates/env");
        assert_eq!(package(Path::new("proof/bench/src/a/b.rs")), "proof/bench");
        assert_eq!(package(Path::new("crates/env/build.rs")), "crates/env");
        assert!(is_test(Path::new("crates/env/tests/a.rs")) && !is_test(Path::new("crates/env/src/a.rs")));
    }
}
