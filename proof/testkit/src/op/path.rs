//! Names of files inside a volume.

use std::fmt;

/// An absolute path inside the volume, without `.` and `..`. `/` is the root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path(String);

impl Path {
    /// The root directory.
    pub fn root() -> Self {
        Self("/".into())
    }

    /// From text such as `/a/b`; empty components are dropped.
    ///
    /// # Errors
    /// Says why if the text does not begin with `/` or has a component `.` or `..`.
    pub fn new(text: &str) -> Result<Self, String> {
        if !text.starts_with('/') {
            return Err(format!("a path begins with '/': {text:?}"));
        }
        let parts: Vec<&str> = text.split('/').filter(|p| !p.is_empty()).collect();
        if parts.iter().any(|p| *p == "." || *p == "..") {
            return Err(format!("a path has no component '.' or '..': {text:?}"));
        }
        Ok(Self(format!("/{}", parts.join("/"))))
    }

    /// The entry `name` of this directory.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        if self.is_root() { Self(format!("/{name}")) } else { Self(format!("{}/{name}", self.0)) }
    }

    /// Whether this is the root.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The text, beginning with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The names from the root down.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|p| !p.is_empty())
    }

    /// The directory and the last name; `None` for the root.
    pub fn split(&self) -> Option<(Path, &str)> {
        let (dir, name) = self.0.rsplit_once('/')?;
        match (dir, name) {
            (_, "") => None,
            ("", _) => Some((Self::root(), name)),
            _ => Some((Self(dir.to_owned()), name)),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::text::escape(self.0.as_bytes()))
    }
}

/// What a call acts on: a name, or a handle that an `open` left behind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum File {
    /// By name.
    Path(Path),
    /// By handle.
    Handle(u8),
}

impl File {
    /// Whether it is named.
    pub fn is_path(&self) -> bool {
        self.path().is_some()
    }

    /// Its handle, if it is one.
    pub(crate) fn handle_mut(&mut self) -> Option<&mut u8> {
        match self {
            Self::Path(_) => None,
            Self::Handle(handle) => Some(handle),
        }
    }

    /// Its name, if it is named.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Path(path) => Some(path),
            Self::Handle(_) => None,
        }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Path(path) => path.fmt(f),
            Self::Handle(handle) => write!(f, "@{handle}"),
        }
    }
}

impl From<Path> for File {
    fn from(path: Path) -> Self {
        Self::Path(path)
    }
}
