//! Patterns of the shell, as fnmatch(3) has them without flags: `*`, `?`, `[a-z]`, `[!a-z]`, `[[:digit:]]`, and a backslash before what is meant as it is.

/// A pattern that names are held against.
#[derive(Clone, Debug)]
pub(super) struct Glob {
    parts: Vec<Part>,
    /// Small and capital letters are alike.
    folded: bool,
}

#[derive(Clone, Debug)]
enum Part {
    /// Any number of characters.
    Many,
    /// One character.
    One,
    /// This one.
    Just(u32),
    /// One of these; or, negated, none of them.
    Set { items: Vec<Item>, negated: bool },
}

#[derive(Clone, Debug)]
enum Item {
    Range(u32, u32),
    Class(Class),
}

/// Whether a character belongs to a class.
type Class = fn(char) -> bool;

/// Bytes that are no text count as characters behind all others.
const BYTES: u32 = 0x11_0000;

fn characters(bytes: &[u8]) -> Vec<u32> {
    let mut all = Vec::new();
    for chunk in bytes.utf8_chunks() {
        all.extend(chunk.valid().chars().map(u32::from));
        all.extend(chunk.invalid().iter().map(|b| BYTES + u32::from(*b)));
    }
    all
}

fn fold(c: u32) -> u32 {
    // The first character of what may be several: the same on both sides.
    char::from_u32(c).and_then(|c| c.to_lowercase().next()).map_or(c, u32::from)
}

impl Glob {
    pub(super) fn new(pattern: &[u8], folded: bool) -> Self {
        let text = characters(pattern);
        let (mut parts, mut at) = (Vec::new(), 0);
        while let Some(&c) = text.get(at) {
            at += 1;
            parts.push(match char::from_u32(c) {
                Some('*') => Part::Many,
                Some('?') => Part::One,
                Some('[') => match set(&text[at..]) {
                    Some((part, len)) => {
                        at += len;
                        part
                    }
                    None => Part::Just(c),
                },
                Some('\\') if at < text.len() => {
                    at += 1;
                    Part::Just(text[at - 1])
                }
                _ => Part::Just(c),
            });
        }
        Self { parts, folded }
    }

    /// Whether all of `name` fits.
    pub(super) fn fits(&self, name: &[u8]) -> bool {
        let name = characters(name);
        let (mut part, mut at) = (0, 0);
        // Where the last star began, and how far it reaches: another one makes it final.
        let mut star: Option<(usize, usize)> = None;
        while at < name.len() {
            match self.parts.get(part) {
                Some(Part::Many) => {
                    star = Some((part, at));
                    part += 1;
                }
                Some(one) if self.is(one, name[at]) => {
                    part += 1;
                    at += 1;
                }
                _ => match star {
                    Some((begun, reached)) => {
                        star = Some((begun, reached + 1));
                        (part, at) = (begun + 1, reached + 1);
                    }
                    None => return false,
                },
            }
        }
        self.parts[part..].iter().all(|rest| matches!(rest, Part::Many))
    }

    fn is(&self, part: &Part, c: u32) -> bool {
        let alike = |wanted: u32| wanted == c || (self.folded && fold(wanted) == fold(c));
        match part {
            Part::Many => false,
            Part::One => true,
            Part::Just(wanted) => alike(*wanted),
            Part::Set { items, negated } => {
                let is_in = |c: u32| items.iter().any(|item| item.has(c));
                let upper = || char::from_u32(c).and_then(|c| c.to_uppercase().next()).map_or(c, u32::from);
                let found = is_in(c) || (self.folded && (is_in(fold(c)) || is_in(upper())));
                found != *negated
            }
        }
    }
}

impl Item {
    fn has(&self, c: u32) -> bool {
        match self {
            Self::Range(from, to) => (*from..=*to).contains(&c),
            Self::Class(is_in) => char::from_u32(c).is_some_and(is_in),
        }
    }
}

/// What follows a `[`, and how long it is with its `]`; `None` where that does not come.
fn set(text: &[u32]) -> Option<(Part, usize)> {
    let is = |at: usize, c: char| text.get(at) == Some(&u32::from(c));
    let negated = is(0, '!') || is(0, '^');
    let begin = usize::from(negated);
    let (mut items, mut at) = (Vec::new(), begin);
    loop {
        if is(at, ']') && at > begin {
            return Some((Part::Set { items, negated }, at + 1));
        }
        if is(at, '[')
            && is(at + 1, ':')
            && let Some((class, len)) = class(&text[at + 2..])
        {
            items.push(Item::Class(class));
            at += 2 + len;
            continue;
        }
        let (from, len) = character(&text[at..])?;
        at += len;
        if is(at, '-') && !is(at + 1, ']') {
            let (to, len) = character(text.get(at + 1..)?)?;
            items.push(Item::Range(from, to));
            at += 1 + len;
        } else {
            items.push(Item::Range(from, from));
        }
    }
}

/// One character of a set, which a backslash may come before.
fn character(text: &[u32]) -> Option<(u32, usize)> {
    match text {
        [b, c, ..] if *b == u32::from('\\') => Some((*c, 2)),
        [c, ..] => Some((*c, 1)),
        [] => None,
    }
}

/// The class that `text` names up to `:]`, and how long that is.
fn class(text: &[u32]) -> Option<(Class, usize)> {
    let end = text.windows(2).position(|two| two == [u32::from(':'), u32::from(']')])?;
    let name: String = text[..end].iter().filter_map(|c| char::from_u32(*c)).collect();
    let class: Class = match name.as_str() {
        "alpha" => char::is_alphabetic,
        "digit" => |c| c.is_ascii_digit(),
        "alnum" => char::is_alphanumeric,
        "upper" => char::is_uppercase,
        "lower" => char::is_lowercase,
        "space" => char::is_whitespace,
        "blank" => |c| c == ' ' || c == '\t',
        "punct" => |c| c.is_ascii_punctuation(),
        "cntrl" => char::is_control,
        "xdigit" => |c| c.is_ascii_hexdigit(),
        _ => return None,
    };
    Some((class, end + 2))
}

#[cfg(test)]
mod tests {
    use super::Glob;

    #[test]
    fn patterns_fit_as_the_shell_has_it() {
        for (pattern, fit, unfit) in [
            ("*.log", &["a.log", ".log", "a.log.log"][..], &["a.log.", "log", ""][..]),
            ("a?c", &["abc", "a?c", "aéc"], &["ac", "abbc"]),
            ("[a-cx]*", &["b", "xyz"], &["d", "", "-"]),
            ("[!a-c]", &["d", "-"], &["a", ""]),
            ("[^a-c]", &["d"], &["b"]),
            ("[]a]", &["]", "a"], &["b"]),
            ("[a-]", &["a", "-"], &["b"]),
            ("[[:digit:]_]x", &["0x", "_x"], &["ax", ":x"]),
            ("[abc", &["[abc"], &["a"]),
            (r"\*", &["*"], &["a", r"\*"]),
            (r"a\", &[r"a\"], &["a"]),
            ("*a*b*", &["ab", "xaxbx", "aab"], &["ba", "a"]),
            ("", &[""], &["a"]),
            ("/a/*", &["/a/b", "/a/b/c"], &["/b/c"]),
        ] {
            let glob = Glob::new(pattern.as_bytes(), false);
            fit.iter().for_each(|name| assert!(glob.fits(name.as_bytes()), "{pattern} and {name}"));
            unfit.iter().for_each(|name| assert!(!glob.fits(name.as_bytes()), "{pattern} and {name}"));
        }
    }

    #[test]
    fn letters_may_be_alike_and_bytes_need_not_be_text() {
        let glob = Glob::new("Straße[a-c]*".as_bytes(), true);
        assert!(glob.fits("sTRAßeB".as_bytes()) && !glob.fits("straßex".as_bytes()));
        assert!(Glob::new(b"a?b", false).fits(b"a\xffb"));
        assert!(Glob::new(b"a\xffb", false).fits(b"a\xffb") && !Glob::new(b"a\xffb", false).fits(b"a\xfeb"));
    }

    /// Nested stars would cost an exponential time if all were tried again.
    #[test]
    fn many_stars_come_to_an_end() {
        let glob = Glob::new("*a".repeat(40).as_bytes(), false);
        assert!(!glob.fits("a".repeat(39).as_bytes()) && !glob.fits(&[b"a".repeat(200).as_slice(), b"b"].concat()));
    }
}
