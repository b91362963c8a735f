//! Calls on both sides of each number at which the code begins to do something else.

use super::{Mount, Workload, parse};
use crate::image::Kind;
use ondol_testkit::thresholds::{Counts, Geometry, NAME, Threshold, all};

/// The longest change, bytes, and the most things that are made before a workload.
const LONGEST: u64 = 400_000;
const MOST: u64 = 700;

/// On volumes of small blocks and of large ones.
pub fn around() -> impl Iterator<Item = Workload> + Send {
    let rows = |kind: Kind| {
        let rows = all(&Geometry::of_blocks(kind.block_size() as u32));
        rows.into_iter().flat_map(move |row| row.around().filter_map(move |n| one(row, n, kind)))
    };
    let each = [Kind::Small, Kind::Pages].into_iter().flat_map(rows).enumerate();
    each.map(|(i, workload)| Workload { mount: Mount::in_turn(i as u64), ..workload })
}

/// What comes to such a number; nothing where that takes too long.
fn one(row: Threshold, n: u64, image: Kind) -> Option<Workload> {
    let most = match row.counts {
        Counts::Length | Counts::Transaction | Counts::Offset => LONGEST,
        Counts::Value => u64::MAX,
        // Longer ones are refused where blocks are small.
        Counts::Target => Kind::Small.block_size() - 1,
        Counts::Extents | Counts::Entries | Counts::Links | Counts::Inodes => MOST,
    };
    let lines = |numbers: std::ops::Range<u64>, line: &dyn Fn(u64) -> String| numbers.map(line).collect::<String>();
    let name = |at: u64| format!("link /t /d/{at:0NAME$}\n");
    let inode = |at: u64| format!(" ; chmod /{at} 0600");
    let piece = |at: u64| format!("write /a {}K 500 #{at}\n", 8 * at);
    let (before, calls) = match row.counts {
        Counts::Length => {
            (String::new(), format!("write /a 0 {n} #1\nfsync /a\nwrite /a 100 {n} #2\nfsync /a\npunch /a 0 {n}\n"))
        }
        Counts::Offset => (String::new(), format!("write /a {n} 5 #1\nsync\ntruncate /a {n}\nsync\nappend /a 9 #2\n")),
        Counts::Transaction => {
            let (half, rest) = (n / 2, n - n / 2);
            (String::new(), format!("transaction {{ write /a 0 {half} #1 ; write /b 0 {rest} #2 }}\n"))
        }
        Counts::Extents => (lines(1..n, &piece), lines(n..n + 2, &piece) + "sync\ntruncate /a 9K\n"),
        Counts::Entries => {
            let before = "create /t 0644\nmkdir /d 0755\n".to_owned() + &lines(1..n, &name);
            (before, lines(n..n + 2, &name) + "sync\n" + &name(n).replace("link /t", "unlink"))
        }
        Counts::Links => return None,
        Counts::Value => (String::new(), format!("setxattr /a user.a {n} #1\nsync\nsetxattr /a user.a {n} #2\n")),
        Counts::Target => (String::new(), format!("symlink /s {}\nsync\nunlink /s\n", "t".repeat(n as usize))),
        Counts::Inodes => {
            let before = lines(0..n, &|at| format!("create /{at} 0644\n"));
            let all = lines(0..n, &inode);
            (before, format!("transaction {{ chmod /a 0600{all} ; rmdir /a }}\ntransaction {{ chmod /a 0640{all} }}\n"))
        }
    };
    (n > 0 && n <= most).then(|| Workload {
        name: format!("around {}: {n}", row.name),
        image,
        mount: Mount::Tight,
        before: parse(&format!("create /a 0644\ncreate /b 0644\n{before}")),
        remount: false,
        calls: parse(&(calls + "sync")),
        others: None,
    })
}
