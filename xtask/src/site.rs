//! `cargo xtask site`: mdBook makes a book of the documents below `target/site`. Its links are followed.

mod links;
mod pages;

use std::fs;
use std::path::Path;
use std::process::Command;

const SETTINGS: &str = r#"[book]
title = "Ondol"
language = "en"

[output.html]
default-theme = "light"
preferred-dark-theme = "navy"
smart-punctuation = false
no-section-label = true
additional-css = ["site.css"]
fold = { enable = true }
print = { enable = false }
"#;

/// What mdBook's own style lacks.
const STYLE: &str = include_str!("site/site.css");

/// Makes the site anew, and fails when one of its links leads nowhere.
pub(crate) fn run() -> Result<(), String> {
    let metadata = crate::metadata()?;
    let target = metadata.target_directory.into_std_path_buf();
    let (book, site) = (target.join("book"), target.join("site"));
    for old in [&book, &site] {
        if old.exists() {
            fs::remove_dir_all(old).map_err(|e| format!("{}: {e}", old.display()))?;
        }
    }
    write(&book.join("book.toml"), SETTINGS)?;
    write(&book.join("site.css"), STYLE)?;
    let pages = pages::gather(metadata.workspace_root.as_std_path())?;
    for (path, content) in &pages {
        write(&book.join("src").join(path), content)?;
    }
    let made = Command::new("mdbook").arg("build").arg(&book).arg("--dest-dir").arg(&site).status();
    match made {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Err("it takes mdBook: `cargo install --locked mdbook --version 0.5.4`".into());
        }
        Err(e) => return Err(format!("mdbook: {e}")),
        Ok(status) if !status.success() => return Err(format!("mdbook ended with {status}")),
        Ok(_) => {}
    }
    let links = links::check(&site)?;
    println!("xtask: {links} links lead somewhere; the site begins at {}", site.join("index.html").display());
    Ok(())
}

fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    let dir = path.parent().unwrap_or(path);
    fs::create_dir_all(dir).and_then(|()| fs::write(path, content)).map_err(|e| format!("{}: {e}", path.display()))
}
