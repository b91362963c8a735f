//! Names of files. SQLite knows a file by one string, so that says image and path: `IMAGE//PATH`.

use std::path::{Component, Path, PathBuf};

/// What stands between the image and the path in it. Neither is written with two slashes otherwise.
const BETWEEN: &str = "//";

/// A file in an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    /// What is opened, as a volume's target.
    pub(crate) image: String,
    /// The path in it, from its root.
    pub(crate) path: String,
}

impl Name {
    /// Takes a whole name apart; `None` for one that names no image.
    pub(crate) fn whole(name: &str) -> Option<Self> {
        let (image, path) = name.split_once(BETWEEN)?;
        (!image.is_empty()).then(|| Self { image: image.into(), path: path.into() })
    }

    /// What a program has asked for: a whole name, or a path in the image that its URI or the environment names. Where
    /// the environment names one, `//` in a path is only taken for the end of an image if there is such a file.
    pub(crate) fn asked(name: &str, image: Option<&str>, environment: Option<&str>) -> Option<Self> {
        let whole = Self::whole(name).filter(|whole| {
            image.is_none() && (environment.is_none() || whole.image.starts_with("nvm:") || is_file(&whole.image))
        });
        if let Some(whole) = whole {
            return Some(Self { image: canonical(&whole.image), path: plain(&whole.path) });
        }
        let image = image.or(environment).filter(|image| !image.is_empty())?;
        Some(Self { image: canonical(image), path: plain(name) })
    }

    /// The one string.
    pub(crate) fn text(&self) -> String {
        format!("{}{BETWEEN}{}", self.image, self.path)
    }
}

fn is_file(name: &str) -> bool {
    std::fs::metadata(name).is_ok_and(|meta| !meta.is_dir())
}

/// One name for each image, wherever a program stands. A name that is no file's (a pool, a part of a disk) stays as it
/// is.
fn canonical(image: &str) -> String {
    let path = std::fs::canonicalize(image).ok().and_then(|path| path.into_os_string().into_string().ok());
    path.unwrap_or_else(|| image.replace(BETWEEN, "/"))
}

/// A path from the root without empty names, `.` and `..`: SQLite compares names as they are written.
fn plain(path: &str) -> String {
    let mut names = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => drop(names.pop()),
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(image: &str, path: &str) -> Option<Name> {
        Some(Name { image: image.into(), path: path.into() })
    }

    #[test]
    fn an_image_is_named_by_the_uri_the_name_or_the_environment() {
        assert_eq!(Name::asked("/a/./x.db", Some("/no/disk"), Some("/other")), name("/no/disk", "a/x.db"));
        assert_eq!(Name::asked("x/../y.db", None, Some("/other")), name("/other", "y.db"));
        assert_eq!(Name::asked("/no/disk//a/x.db", None, None), name("/no/disk", "a/x.db"));
        assert_eq!(Name::asked("nvm:/no/pool//x.db", None, Some("/other")), name("nvm:/no/pool", "x.db"));
        assert_eq!(Name::asked("a//x.db", None, Some("/other")), name("/other", "a/x.db"));
        assert_eq!(Name::asked("x.db", None, None), None);
        assert_eq!(Name::asked("//x.db", None, None), None);
    }

    #[test]
    fn whole_names_come_back() {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("disk.img");
        std::fs::write(&image, "").unwrap();
        let asked = Name::asked("/d/x.db", image.to_str(), None).unwrap();
        assert_eq!(Name::whole(&asked.text()), Some(asked.clone()));
        assert_eq!(Name::asked(&asked.text(), None, Some("/other")), Some(asked.clone()));
        assert!(Path::new(&asked.image).is_absolute());
        assert_eq!(Name::whole(&format!("{}-journal", asked.text())).unwrap().path, "d/x.db-journal");
    }
}
