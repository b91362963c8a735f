//! `ondol find`.

use super::args;
use super::glob::Glob;
use super::open::{For, Opened, Troubles, inside};
use super::out::Out;
use super::walk::{Event, Found, Walk, list};
use crate::called::command_at;
use crate::failure::{FAILED, Outcome};
use ondol::FileType;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Prints what fits.
pub(crate) fn find(args: &args::Find) -> Outcome {
    let opened = Opened::new(&args.image, For::Reading)?;
    let tests = Tests::of(args);
    let (mut out, mut troubles) = (Out::new(), Troubles::default());
    let root = [PathBuf::from("/")];
    let paths = if args.paths.is_empty() { &root[..] } else { &args.paths[..] };
    for given in paths {
        let path = inside(given);
        let mut walk = match opened.find(&path) {
            Ok(found) => Walk::new(&opened, &path, found),
            Err(what) => {
                out.flush();
                troubles.tell(FAILED, what);
                continue;
            }
        };
        while let Some(event) = walk.next() {
            if out.is_over() {
                break;
            }
            match event {
                Event::Enter(found) => {
                    if args.maxdepth.is_some_and(|most| found.depth >= most) {
                        walk.pass_by();
                    }
                    if found.depth >= args.mindepth && tests.fit(&opened, &found) {
                        print(&mut out, &found.path, args.print0);
                    }
                }
                Event::Leave(_) => {}
                Event::Failed(what) => {
                    out.flush();
                    troubles.tell(FAILED, what);
                }
            }
        }
    }
    out.end()?;
    opened.close()?;
    Ok(troubles.code())
}

fn print(out: &mut Out, path: &Path, raw: bool) {
    if raw {
        out.bytes(&[path.as_os_str().as_bytes(), b"\0"].concat());
    } else {
        out.line(path.as_os_str().as_bytes());
    }
}

/// What is asked of a file.
struct Tests<'a> {
    args: &'a args::Find,
    names: Vec<Glob>,
    paths: Vec<Glob>,
}

impl<'a> Tests<'a> {
    fn of(args: &'a args::Find) -> Self {
        let globs =
            |patterns: &'a [String], folded| patterns.iter().map(move |text| Glob::new(text.as_bytes(), folded));
        let names = globs(&args.name, false).chain(globs(&args.iname, true)).collect();
        Self { args, names, paths: globs(&args.path, false).collect() }
    }

    fn fit(&self, opened: &Opened, found: &Found) -> bool {
        let name = found.path.file_name().map_or(b"/".as_slice(), OsStrExt::as_bytes);
        let path = found.path.as_os_str().as_bytes();
        self.names.iter().all(|glob| glob.fits(name))
            && self.paths.iter().all(|glob| glob.fits(path))
            && self.args.kinds.as_ref().is_none_or(|Kinds(kinds)| kinds.contains(&found.attr.file_type))
            && self.args.size.iter().all(|test| test.fits(found.attr.size))
            && (!self.args.empty || is_empty(opened, found))
    }
}

fn is_empty(opened: &Opened, found: &Found) -> bool {
    match found.attr.file_type {
        FileType::Regular => found.attr.size == 0,
        FileType::Directory => matches!(list(opened.inodes(), found.attr.ino), (names, None) if names.is_empty()),
        _ => false,
    }
}

/// Types of files, as in `f,d`.
#[derive(Clone, Debug)]
pub(crate) struct Kinds(Vec<FileType>);

impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let kind = |letter: &str| {
            Ok(match letter {
                "f" => FileType::Regular,
                "d" => FileType::Directory,
                "l" => FileType::Symlink,
                "b" => FileType::BlockDevice,
                "c" => FileType::CharDevice,
                "p" => FileType::Fifo,
                "s" => FileType::Socket,
                other => return Err(format!("`{other}` is no type: choose f, d, l, b, c, p or s")),
            })
        };
        text.split(',').map(kind).collect::<Result<_, _>>().map(Kinds)
    }
}

/// How large a file is to be, as in `+10M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SizeTest {
    order: std::cmp::Ordering,
    units: u64,
    unit: u64,
}

impl SizeTest {
    fn fits(&self, bytes: u64) -> bool {
        bytes.div_ceil(self.unit).cmp(&self.units) == self.order
    }
}

impl FromStr for SizeTest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        use std::cmp::Ordering;
        let wrong =
            || format!("`{text}` is no size: write +, - or nothing, a number, and c, w, b, k, M or G, as in +10M");
        let (order, rest) = match text.as_bytes().first() {
            Some(b'+') => (Ordering::Greater, &text[1..]),
            Some(b'-') => (Ordering::Less, &text[1..]),
            _ => (Ordering::Equal, text),
        };
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = match &rest[digits..] {
            "c" => 1,
            "w" => 2,
            "b" | "" => 512,
            "k" => 1 << 10,
            "M" => 1 << 20,
            "G" => 1 << 30,
            _ => return Err(wrong()),
        };
        let units = rest[..digits].parse().map_err(|_| wrong())?;
        Ok(Self { order, units, unit })
    }
}

/// The tests of find(1), whose names have one dash there.
const TESTS: [&str; 10] =
    ["-name", "-iname", "-path", "-type", "-size", "-empty", "-maxdepth", "-mindepth", "-print0", "-print"];

/// The words of a command line in which `ondol find` has the names of its tests with two dashes. `-print` and `-a`,
/// which is what happens anyway, are left out.
///
/// # Errors
/// It has what find(1) joins tests with and this command does not know.
pub(crate) fn with_two_dashes(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let words: Vec<OsString> = words.collect();
    if words.get(command_at(&words)).is_none_or(|command| command != "find") {
        return Ok(words);
    }
    let (mut out, mut is_value) = (Vec::new(), false);
    let mut rest = words.into_iter().peekable();
    while let Some(mut word) = rest.next() {
        let bare = word.to_str().unwrap_or_default().to_owned();
        if !std::mem::take(&mut is_value) {
            if joins(&bare, rest.peek()) {
                return Err(format!("`{bare}` is not known: all tests must fit; each call has one set of tests"));
            }
            if matches!(bare.as_str(), "-print" | "-a" | "-and") {
                continue;
            }
            let name = if bare.starts_with("--") { &bare[1..] } else { &bare };
            is_value = TESTS.contains(&name) && !matches!(name, "-empty" | "-print0" | "-print");
            if TESTS.contains(&bare.as_str()) {
                word = format!("-{bare}").into();
            }
        }
        out.push(word);
    }
    Ok(out)
}

/// Whether a word joins the tests of find(1) otherwise than that all must fit. Behind `-o` there may be mount options.
fn joins(word: &str, next: Option<&OsString>) -> bool {
    let is_test = |next: &OsString| next.as_bytes().starts_with(b"-") || next == "(" || next == "!";
    matches!(word, "-or" | "-not" | "!" | "(" | ")") || (word == "-o" && next.is_none_or(is_test))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_written_as_for_find() {
        let words = |line: &str| -> Vec<String> {
            let words = with_two_dashes(line.split(' ').map(OsString::from)).unwrap();
            words.into_iter().map(|word| word.into_string().unwrap()).collect()
        };
        assert_eq!(
            words("ondol find x.img / -name -name -type f -print").join(" "),
            "ondol find x.img / --name -name --type f"
        );
        assert_eq!(words("ondol find x.img -name -o -iname !").join(" "), "ondol find x.img --name -o --iname !");
        assert_eq!(words("ondol find x.img --name -empty -empty").join(" "), "ondol find x.img --name -empty --empty");
        assert_eq!(words("ondol ls x.img -name").join(" "), "ondol ls x.img -name");
        assert_eq!(
            words("ondol find -o ro x.img -name a -a -empty").join(" "),
            "ondol find -o ro x.img --name a --empty"
        );
        for joins in ["-o", "-or", "-not", "!", "("] {
            let line = format!("ondol find x.img -name a {joins} -name b");
            let said = with_two_dashes(line.split(' ').map(OsString::from)).unwrap_err();
            assert!(said.starts_with(&format!("`{joins}` is not known")), "{said}");
        }
    }

    #[test]
    fn sizes_are_counted_in_whole_units() {
        let fits = |test: &str, bytes| test.parse::<SizeTest>().unwrap().fits(bytes);
        assert!(fits("1", 1) && fits("1", 512) && !fits("1", 513) && fits("0", 0));
        assert!(fits("+1M", (1 << 20) + 1) && !fits("+1M", 1 << 20));
        assert!(fits("-2k", 1024) && !fits("-2k", 1025) && fits("100c", 100) && !fits("100c", 99));
        for wrong in ["", "+", "k", "1K", "1kk", "--1", "１"] {
            assert!(wrong.parse::<SizeTest>().is_err(), "{wrong}");
        }
    }
}
