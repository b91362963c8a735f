//! One line of `ls`.

use crate::size::short;
use crate::tools::args;
use ondol::{Attr, FileType};

/// The parts of a line.
pub(super) struct Row {
    ino: String,
    mode: String,
    nlink: String,
    uid: String,
    gid: String,
    size: String,
    time: String,
    name: Vec<u8>,
}

/// How wide the columns are that are as wide as their widest text.
pub(super) struct Widths {
    ino: usize,
    nlink: usize,
    uid: usize,
    gid: usize,
    size: usize,
}

impl Row {
    pub(super) fn new(name: Vec<u8>, attr: &Attr, human: bool) -> Self {
        let size = match attr.file_type {
            FileType::CharDevice | FileType::BlockDevice => format!("{}, {}", attr.rdev.major, attr.rdev.minor),
            _ if human => short(attr.size),
            _ => attr.size.to_string(),
        };
        Self {
            ino: attr.ino.to_string(),
            mode: mode(attr.file_type, attr.perm),
            nlink: attr.nlink.to_string(),
            uid: attr.uid.to_string(),
            gid: attr.gid.to_string(),
            size,
            time: minute(attr.mtime.sec),
            name,
        }
    }

    pub(super) fn text(&self, widths: &Widths, args: &args::Ls) -> Vec<u8> {
        let Self { ino, mode, nlink, uid, gid, size, time, name } = self;
        let mut text = String::new();
        if args.inode {
            text += &format!("{ino:>0$} ", widths.ino);
        }
        if args.long {
            let (a, b, c, d) = (widths.nlink, widths.uid, widths.gid, widths.size);
            text += &format!("{mode} {nlink:>a$} {uid:>b$} {gid:>c$} {size:>d$} {time} ");
        }
        [text.as_bytes(), name].concat()
    }
}

impl Widths {
    pub(super) fn of(rows: &[Row]) -> Self {
        let widest = |part: fn(&Row) -> &String| rows.iter().map(|row| part(row).len()).max().unwrap_or(0);
        Self {
            ino: widest(|row| &row.ino),
            nlink: widest(|row| &row.nlink),
            uid: widest(|row| &row.uid),
            gid: widest(|row| &row.gid),
            size: widest(|row| &row.size),
        }
    }
}

/// As in `drwxr-sr-x`.
fn mode(kind: FileType, perm: u16) -> String {
    let kind = match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Fifo => 'p',
        FileType::Socket => 's',
    };
    let mut text = String::from(kind);
    for (shift, special, sign) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = perm >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, perm & special != 0) {
            (true, true) => sign,
            (false, true) => sign.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// Date and minute in UTC of a time in seconds since 1970.
pub(crate) fn minute(seconds: i64) -> String {
    const DAY: i64 = 24 * 60 * 60;
    let (year, month, day) = date(seconds.div_euclid(DAY));
    let minutes = seconds.rem_euclid(DAY) / 60;
    format!("{year:04}-{month:02}-{day:02} {:02}:{:02}", minutes / 60, minutes % 60)
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
fn date(days: i64) -> (i64, i64, i64) {
    // Years begin in March here, so that the leap day is the last of one; 400 of them have 146097 days.
    let since_march_0000 = days + 719_468;
    let (era, day) = (since_march_0000.div_euclid(146_097), since_march_0000.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on have 153 days in every five.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (year, month) = if month < 10 { (year, month + 3) } else { (year + 1, month - 9) };
    (year + era * 400, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_as_ls_has_them() {
        for (kind, perm, text) in [
            (FileType::Regular, 0o644, "-rw-r--r--"),
            (FileType::Directory, 0o1777, "drwxrwxrwt"),
            (FileType::Directory, 0o2750, "drwxr-s---"),
            (FileType::Regular, 0o4755, "-rwsr-xr-x"),
            (FileType::Regular, 0o7000, "---S--S--T"),
            (FileType::Symlink, 0o777, "lrwxrwxrwx"),
        ] {
            assert_eq!(mode(kind, perm), text);
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00"),
            (-1, "1969-12-31 23:59"),
            (951_782_399, "2000-02-28 23:59"),
            (951_782_400, "2000-02-29 00:00"),
            (951_868_800, "2000-03-01 00:00"),
            (4_107_542_400, "2100-03-01 00:00"),
            (1_700_000_000, "2023-11-14 22:13"),
            (-2_147_483_648, "1901-12-13 20:45"),
            (15_032_385_535, "2446-05-10 22:38"),
        ] {
            assert_eq!(minute(seconds), text);
        }
    }
}
