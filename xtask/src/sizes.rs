//! Limits that mean something: of lines, parameters, traits, types and circles of files.
//!
//! A file is as long as its one subject.

use crate::circles;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// Characters of a line, comments too.
const LINE: usize = 120;
/// Parameters of a function beside `self`.
const PARAMETERS: usize = 5;
/// Methods of a trait: as wide as a block store that lends pages.
const TRAIT: usize = 16;
/// Methods of a type, in all files of its crate.
const TYPE: usize = 50;
/// Files of a crate that import each other.
const CIRCLE: usize = 8;

/// What may not be.
const FAULTS: [&str; 6] = [
    "lines that are too long",
    "functions with too many parameters",
    "parameters that are tuples",
    "traits with too many methods",
    "types with too many methods",
    "circles of too many files",
];

/// Fails when something breaks a limit.
pub(crate) fn check() -> Result<(), String> {
    let root = crate::metadata()?.workspace_root.into_std_path_buf();
    let mut found = Found::default();
    for file in files(&root, "rs")? {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        found.file = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        for (n, line) in (1..).zip(text.lines()) {
            if line.chars().count() > LINE {
                found.broken[0].push(format!("{}:{n}", found.file));
            }
        }
        let syntax = syn::parse_file(&text).map_err(|e| format!("{}: {e}", found.file))?;
        found.visit_file(&syntax);
        if ["src/lib.rs", "src/main.rs"].iter().any(|root| file.ends_with(root)) {
            let circles = circles::larger_than(CIRCLE, &file)?;
            found.broken[5].extend(circles.iter().map(|of| format!("{}: {}", found.file, of.join(", "))));
        }
    }
    let types = found.methods.iter().filter(|(_, methods)| **methods > TYPE);
    found.broken[4] = types.map(|((of, name), methods)| format!("{of}: `{name}` has {methods}")).collect();
    let of = FAULTS.iter().zip(&found.broken).filter(|(_, broken)| !broken.is_empty());
    let faults: Vec<String> =
        of.map(|(what, broken)| format!("{} {what}:\n    {}", broken.len(), broken.join("\n    "))).collect();
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
}

/// What breaks a limit.
#[derive(Default)]
struct Found {
    file: String,
    broken: [Vec<String>; FAULTS.len()],
    /// By folder of a crate and name of a type.
    methods: BTreeMap<(String, String), usize>,
}

impl Found {
    fn signature(&mut self, signature: &syn::Signature) {
        let of = format!("{}: `{}`", self.file, signature.ident);
        let types: Vec<&syn::Type> = signature.inputs.iter().filter_map(typed).collect();
        // What C calls has the parameters that C gives it.
        if types.len() > PARAMETERS && signature.abi.is_none() {
            self.broken[1].push(of.clone());
        }
        let tuples = types.iter().filter(|of| matches!(of, syn::Type::Tuple(tuple) if !tuple.elems.is_empty()));
        self.broken[2].extend(tuples.map(|_| of.clone()));
    }

    fn in_crate(&self) -> String {
        self.file.split("/src/").next().unwrap_or_default().to_owned()
    }
}

fn typed(input: &syn::FnArg) -> Option<&syn::Type> {
    match input {
        syn::FnArg::Typed(input) => Some(&input.ty),
        syn::FnArg::Receiver(_) => None,
    }
}

impl<'a> Visit<'a> for Found {
    fn visit_signature(&mut self, signature: &'a syn::Signature) {
        self.signature(signature);
        visit::visit_signature(self, signature);
    }

    fn visit_item_trait(&mut self, item: &'a syn::ItemTrait) {
        let methods = item.items.iter().filter(|item| matches!(item, syn::TraitItem::Fn(_))).count();
        if methods > TRAIT {
            self.broken[3].push(format!("{}: `{}` has {methods}", self.file, item.ident));
        }
        visit::visit_item_trait(self, item);
    }

    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let (None, syn::Type::Path(path)) = (&item.trait_, &*item.self_ty)
            && let Some(last) = path.path.segments.last()
        {
            let methods = item.items.iter().filter(|item| matches!(item, syn::ImplItem::Fn(_))).count();
            *self.methods.entry((self.in_crate(), last.ident.to_string())).or_default() += methods;
        }
        visit::visit_item_impl(self, item);
    }
}

/// The project's own files with an extension.
pub(crate) fn files(root: &Path, extension: &str) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    collect(root, extension, &mut files)?;
    Ok(files)
}

fn collect(dir: &Path, extension: &str, files: &mut Vec<PathBuf>) -> Result<(), String> {
    for entry in std::fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir() && !name.starts_with('.') && !is_built(&path) {
            collect(&path, extension, files)?;
        } else if path.extension().is_some_and(|e| e == extension) {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether this is a folder for build results, and not a module of that name.
pub(crate) fn is_built(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name == "target") && !path.parent().is_some_and(|dir| dir.ends_with("src"))
}
