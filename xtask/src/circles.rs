//! Circles of files of one crate that import each other.
//!
//! A file imports another when its code, tests aside, names an item that is defined there, by a path from `crate`,
//! `super` or `self` or by what such a path has brought in. What a module takes from its children, which are its parts,
//! begins with a child's name and does not count. A name that a module only passes on leads to where the item is; else
//! a parent that re-exports its children would look like a circle.

use petgraph::algo::tarjan_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// So many names may lead on to other names, before a name counts as unknown.
const STEPS: usize = 16;

/// Names every circle of more than `most` files of the crate with this root file, each by its files.
pub(crate) fn larger_than(most: usize, root: &Path) -> Result<Vec<Vec<String>>, String> {
    let src = root.parent().unwrap_or(root);
    let mut names = Names::default();
    names.read(root, src, None)?;
    let mut graph = DiGraph::<(), ()>::new();
    let nodes: Vec<NodeIndex> = names.files.iter().map(|_| graph.add_node(())).collect();
    for (from, to) in names.imports() {
        graph.add_edge(nodes[from], nodes[to], ());
    }
    let name = |of: &NodeIndex| {
        let file = &names.files[of.index()];
        file.strip_prefix(src).unwrap_or(file).display().to_string()
    };
    let mut circles: Vec<Vec<String>> = tarjan_scc(&graph)
        .iter()
        .filter(|circle| circle.len() > most)
        .map(|circle| circle.iter().map(name).collect())
        .collect();
    circles.iter_mut().for_each(|circle| circle.sort());
    Ok(circles)
}

type Route = Vec<String>;

/// What one module says, without its tests.
#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imported: BTreeMap<String, Route>,
    everything_of: Vec<Route>,
    /// Imports that nothing passes on, and what the code names.
    named: BTreeSet<Route>,
}

/// The modules of a crate.
#[derive(Default)]
struct Names {
    files: Vec<PathBuf>,
    modules: Vec<Module>,
}

impl Names {
    /// Reads a file, and the modules below it from a folder, and returns its module.
    fn read(&mut self, path: &Path, below: &Path, parent: Option<usize>) -> Result<usize, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let syntax = syn::parse_file(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        self.files.push(path.to_owned());
        self.module(&syntax.items, below, parent)
    }

    fn module(&mut self, items: &[syn::Item], below: &Path, parent: Option<usize>) -> Result<usize, String> {
        let at = self.modules.len();
        let mut module = Module { file: self.files.len() - 1, parent, ..Module::default() };
        items.iter().for_each(|item| module.visit_item(item));
        self.modules.push(module);
        for item in items {
            let syn::Item::Mod(of) = item else { continue };
            let name = of.ident.to_string();
            if is_for_tests(&of.attrs) {
                continue;
            }
            let (file, inner) = (self.modules[at].file, below.join(&name));
            let child = if let Some((_, items)) = &of.content {
                let child = self.module(items, &inner, Some(at))?;
                self.modules[child].file = file;
                child
            } else if let Some(elsewhere) = of.attrs.iter().find_map(path_in) {
                let dir = self.files[file].parent().unwrap_or(below).to_owned();
                let path = dir.join(elsewhere);
                self.read(&path, path.parent().unwrap_or(&dir), Some(at))?
            } else if inner.join("mod.rs").is_file() {
                self.read(&inner.join("mod.rs"), &inner, Some(at))?
            } else {
                self.read(&inner.with_extension("rs"), &inner, Some(at))?
            };
            self.modules[at].children.insert(name, child);
        }
        Ok(at)
    }

    fn imports(&self) -> BTreeSet<(usize, usize)> {
        let mut imports = BTreeSet::new();
        for (at, module) in self.modules.iter().enumerate() {
            let files = module.named.iter().filter_map(|route| self.imported(at, route));
            imports.extend(files.filter(|file| *file != module.file).map(|file| (module.file, file)));
        }
        imports
    }

    /// The file that a module imports by a route.
    fn imported(&self, at: usize, route: &[String]) -> Option<usize> {
        let (first, rest) = route.split_first()?;
        if matches!(first.as_str(), "crate" | "self" | "super") {
            return self.defined(at, route, STEPS);
        }
        let known = self.modules[at].imported.get(first).filter(|known| known.first() != Some(first))?;
        self.imported(at, &[known, rest].concat())
    }

    /// The file that defines what a module means by a route; none for other crates and for whole modules.
    fn defined(&self, at: usize, route: &[String], steps: usize) -> Option<usize> {
        let (first, rest) = route.split_first()?;
        match first.as_str() {
            "crate" => self.within(0, rest, steps),
            "self" => self.within(at, rest, steps),
            "super" => self.within(self.modules[at].parent?, rest, steps),
            _ if rest.is_empty() => self.within(at, route, steps),
            name => match self.modules[at].children.get(name) {
                Some(child) => self.within(*child, rest, steps),
                None => self.passed_on(at, route, steps),
            },
        }
    }

    fn within(&self, at: usize, route: &[String], steps: usize) -> Option<usize> {
        let module = &self.modules[at];
        let (first, rest) = route.split_first()?;
        match first.as_str() {
            "self" => self.within(at, rest, steps),
            "super" => self.within(module.parent?, rest, steps),
            name => match module.children.get(name) {
                Some(child) if !rest.is_empty() || !module.items.contains(name) => self.within(*child, rest, steps),
                _ => self.passed_on(at, route, steps),
            },
        }
    }

    fn passed_on(&self, at: usize, route: &[String], steps: usize) -> Option<usize> {
        let module = &self.modules[at];
        let (steps, (first, rest)) = (steps.checked_sub(1)?, route.split_first()?);
        if module.items.contains(first) {
            return Some(module.file);
        }
        if let Some(known) = module.imported.get(first) {
            return self.defined(at, &[known, rest].concat(), steps);
        }
        module.everything_of.iter().find_map(|of| self.defined(at, &[of.as_slice(), route].concat(), steps))
    }
}

impl Module {
    fn import(&mut self, before: &[String], tree: &syn::UseTree, is_passed_on: bool) {
        let with = |name: &syn::Ident| [before, &[name.to_string()]].concat();
        let (route, known) = match tree {
            syn::UseTree::Path(path) => return self.import(&with(&path.ident), &path.tree, is_passed_on),
            syn::UseTree::Group(group) => {
                return group.items.iter().for_each(|tree| self.import(before, tree, is_passed_on));
            }
            syn::UseTree::Glob(_) => return self.everything_of.push(before.to_vec()),
            syn::UseTree::Name(name) if name.ident == "self" => (before.to_vec(), before.last().cloned()),
            syn::UseTree::Name(name) => (with(&name.ident), Some(name.ident.to_string())),
            syn::UseTree::Rename(rename) if rename.ident == "self" => (before.to_vec(), None),
            syn::UseTree::Rename(rename) => (with(&rename.ident), Some(rename.rename.to_string())),
        };
        if !is_passed_on {
            self.named.insert(route.clone());
        }
        self.imported.extend(known.map(|known| (known, route)));
    }

    /// Collects what looks like a path in the arguments of a macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut route = Route::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.named.insert(std::mem::take(&mut route));
                    }
                    route.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                other => {
                    self.named.insert(std::mem::take(&mut route));
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        self.named.insert(route);
    }
}

impl<'a> Visit<'a> for Module {
    fn visit_item(&mut self, item: &'a syn::Item) {
        let (attributes, name) = match item {
            syn::Item::Const(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            syn::Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            syn::Item::Static(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Type(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Union(item) => (&item.attrs, Some(&item.ident)),
            syn::Item::Impl(item) => (&item.attrs, None),
            syn::Item::Use(item) => (&item.attrs, None),
            syn::Item::ForeignMod(item) => (&item.attrs, None),
            _ => return,
        };
        if !is_for_tests(attributes) {
            self.items.extend(name.map(ToString::to_string));
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.import(&[], &item.tree, !matches!(item.vis, syn::Visibility::Inherited));
    }

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.leading_colon.is_none() {
            self.named.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, of: &'a syn::Macro) {
        self.tokens(of.tokens.clone());
        visit::visit_macro(self, of);
    }
}

fn path_in(attribute: &syn::Attribute) -> Option<String> {
    let said = attribute.meta.require_name_value().ok().filter(|said| said.path.is_ident("path"))?;
    match &said.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(path), .. }) => Some(path.value()),
        _ => None,
    }
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let Ok(list) = attribute.meta.require_list() else { return false };
        let said = list.tokens.to_string();
        list.path.is_ident("cfg") && (said == "test" || said.starts_with("all (test"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn circles(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let dir = tempfile::tempdir().expect("directory");
        for (name, text) in files {
            let file = dir.path().join(name);
            std::fs::create_dir_all(file.parent().expect("parent")).expect("directory");
            std::fs::write(file, text).expect("file");
        }
        larger_than(1, &dir.path().join("lib.rs")).expect("sources")
    }

    #[test]
    fn files_that_import_each_other_are_a_circle_however_they_say_it() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::b::{B, other::Unknown}; pub struct A;"),
            ("b.rs", "pub struct B; fn f() -> super::c::C { super::c::C }"),
            ("c.rs", "pub struct C; fn f() { assert!(crate::a::A.is()); }"),
            ("d.rs", "use crate::a::A; pub struct D;"),
        ]);
        assert_eq!(found, [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn what_only_passes_names_on_and_what_tests_import_is_no_part_of_a_circle() {
        let found = circles(&[
            ("lib.rs", "mod a; mod b; pub use a::A; pub use b::All;"),
            ("a.rs", "pub struct A; #[cfg(test)] mod tests { use crate::All; }"),
            ("b/mod.rs", "mod low; mod high; pub(crate) use low::Low; pub use high::*;"),
            ("b/low.rs", "use crate::A; pub struct Low;"),
            ("b/high.rs", "use super::Low; use crate::b; pub struct All(b::Low);"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }

    #[test]
    fn children_are_parts_of_their_parent_and_may_make_a_circle_among_themselves() {
        let found = circles(&[
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod child; mod other; use child::Child; pub struct Shared(Child); fn f() { other::g() }"),
            ("a/child.rs", "use super::other; pub struct Child; fn f() { other::g(); }"),
            ("a/other.rs", "use super::{Shared, child}; pub fn g() { child::Child.h() }"),
        ]);
        assert_eq!(found, [["a/child.rs", "a/other.rs"]]);
    }
}
