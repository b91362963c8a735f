//! What is agreed on with the kernel: flags of INIT and of the answers to OPEN and OPENDIR, and how long answers hold.
//!
//! Each of them has the kernel stop doing something itself. `docs/design/mount.md` has a table that says what, and which
//! test shows that it is done here instead; a test below holds the two together.

use crate::proto::numbers::{Fopen, Init};

/// For how many seconds the kernel may keep what it was told.
pub(crate) const TTL: u64 = 3600;

/// An opened file: pages stay valid between opens, and closing needs no request.
pub(crate) const FILE: Fopen = Fopen::KEEP_CACHE.union(Fopen::NOFLUSH);

/// An opened file whose writes may become a batch: what is not made yet must not come into pages that others see.
pub(crate) const BATCHED_FILE: Fopen = FILE.union(Fopen::DIRECT_IO);

/// An opened directory: the listing is kept.
pub(crate) const DIR: Fopen = Fopen::KEEP_CACHE.union(Fopen::CACHE_DIR);

/// What every mount asks for. `ASYNC_DIO` is not among it: a direct write that nobody waits for drops the cached pages before
/// it is served only, and a reader beside it brings the old bytes back for good.
const ALWAYS: Init = Init::ASYNC_READ
    .union(Init::EXPORT_SUPPORT)
    .union(Init::BIG_WRITES)
    .union(Init::DONT_MASK)
    .union(Init::DO_READDIRPLUS)
    .union(Init::READDIRPLUS_AUTO)
    .union(Init::PARALLEL_DIROPS)
    .union(Init::MAX_PAGES)
    .union(Init::CACHE_SYMLINKS)
    .union(Init::EXPLICIT_INVAL_DATA)
    .union(Init::HANDLE_KILLPRIV_V2)
    .union(Init::SETXATTR_EXT)
    .union(Init::INIT_EXT);

/// What a mount asks for where the kernel checks permissions, and so access control lists, where it collects writes, where
/// requests are to come through io_uring, and where writes may become batches.
pub(crate) fn of_mount(kernel_checks: bool, writeback_cache: bool, rings: bool, batches: bool) -> Init {
    let mut wanted = ALWAYS;
    wanted.set(Init::POSIX_ACL, kernel_checks);
    wanted.set(Init::WRITEBACK_CACHE, writeback_cache);
    wanted.set(Init::OVER_IO_URING, rings);
    wanted.set(Init::DIRECT_IO_ALLOW_MMAP, batches);
    wanted
}

/// What a file system without a volume asks for (`floor`): what a mount does, without what leaves it something to do. But for setuid: without
/// that flag the kernel asks for `security.capability` before every write instead of the first.
pub(crate) fn of_floor(rings: bool) -> Init {
    const LEFT_TO_THE_KERNEL: Init = Init::EXPORT_SUPPORT.union(Init::DONT_MASK).union(Init::SETXATTR_EXT);
    of_mount(false, false, rings, false) - LEFT_TO_THE_KERNEL
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    const PAGE: &str = include_str!("../../../docs/design/mount.md");

    /// Rows `| `FLAG` | what the kernel leaves to us | `module::test`... |` below a heading: flags and tests.
    fn rows(heading: &str) -> Vec<(&'static str, Vec<&'static str>)> {
        let section = PAGE.split("\n## ").find_map(|section| section.strip_prefix(heading)).unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once('`'));
        rows.map(|(flag, rest)| {
            let tests = rest.rsplit('|').nth(1).unwrap().split('`').filter(|word| word.contains("::")).collect();
            (flag, tests)
        })
        .collect()
    }

    #[test]
    fn every_flag_has_a_row_that_says_which_test_shows_what_it_leaves_to_us() {
        let rows = rows("What the kernel leaves to us");
        let init = of_mount(true, true, true, true).iter_names().map(|(name, _)| name.to_owned());
        let open = (BATCHED_FILE | DIR).iter_names().map(|(name, _)| format!("FOPEN_{name}"));
        let asked: BTreeSet<String> = init.chain(open).collect();
        let told: BTreeSet<String> = rows.iter().map(|(flag, _)| (*flag).to_owned()).collect();
        assert_eq!(asked, told);
        assert_eq!(rows.len(), told.len(), "a flag has two rows");
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (flag, tests) in rows {
            assert!(!tests.is_empty(), "{flag} has no test");
            for test in tests {
                let (module, name) = test.split_once("::").unwrap();
                let places = ["front/cli/tests/program", "tests", "front/fuse/src"];
                let files = places.map(|place| top.join(place).join(module).with_extension("rs"));
                let text: String = files.iter().filter_map(|file| std::fs::read_to_string(file).ok()).collect();
                assert!(
                    text.contains(&format!("#[test]\nfn {name}()"))
                        || text.contains(&format!("#[test]\n    fn {name}()")),
                    "{flag}: no test {test}"
                );
            }
        }
    }
}
