//! Size ratchets: files of at most 500 lines, functions of at most 70.

use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

const FILE_LINES: usize = 500;
const FUNCTION_LINES: usize = 70;

/// Fails when a Rust file of the workspace, or a function in it, is longer than it may be.
pub(crate) fn check() -> Result<(), String> {
    let root = crate::metadata()?.workspace_root.into_std_path_buf();
    let mut faults = Vec::new();
    for file in files(&root, "rs")? {
        let text = std::fs::read_to_string(&file).map_err(|e| format!("{}: {e}", file.display()))?;
        let name = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
        let lines = text.lines().count();
        if lines > FILE_LINES {
            faults.push(format!("{name}: {lines} lines"));
        }
        let syntax = syn::parse_file(&text).map_err(|e| format!("{name}: {e}"))?;
        let mut functions = Functions { name, faults: Vec::new() };
        functions.visit_file(&syntax);
        faults.append(&mut functions.faults);
    }
    if faults.is_empty() { Ok(()) } else { Err(faults.join("\n  ")) }
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

struct Functions {
    name: String,
    faults: Vec<String>,
}

impl Functions {
    fn measure(&mut self, function: &syn::Ident, item: proc_macro2::Span, signature: proc_macro2::Span) {
        let lines = item.end().line - signature.start().line + 1;
        if lines > FUNCTION_LINES {
            self.faults.push(format!("{}: `{function}` has {lines} lines", self.name));
        }
    }
}

impl<'a> Visit<'a> for Functions {
    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        self.measure(&item.sig.ident, item.span(), item.sig.span());
        visit::visit_item_fn(self, item);
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        self.measure(&item.sig.ident, item.span(), item.sig.span());
        visit::visit_impl_item_fn(self, item);
    }
}
