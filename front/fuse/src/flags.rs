//! What is agreed on with the kernel: flags of INIT and of the answers to OPEN and OPENDIR, and how long answers hold.
//!
//! Each flag has the kernel stop doing something itself. This list says what the server does in its place, and which
//! test shows it; a test below compares it with the flags.
//!
//! - `ASYNC_READ`: the kernel sends reads of one file at once. They are answered in any order, each by what is stored
//!   then. `flags::reads_of_one_file_are_served_side_by_side_and_in_large_pieces`
//! - `EXPORT_SUPPORT`: it forgets all of an inode but number and generation, and finds it again by LOOKUP of `.`: none
//!   of the file system's own, and none whose generation is another by now.
//!   `flags::file_handles_outlive_the_mount_and_not_the_file`,
//!   `dispatch/tests::only_what_a_name_may_lead_to_is_found_by_its_number`
//! - `BIG_WRITES`: it does not cut writes into pages. One request is one operation. `flags::a_large_write_comes_whole`
//! - `MAX_PAGES`: nor into 128 KiB. Requests have up to 1 MiB. `flags::a_large_write_comes_whole`,
//!   `flags::reads_of_one_file_are_served_side_by_side_and_in_large_pieces`
//! - `DONT_MASK`: it does not apply the umask, which a default access control list takes the place of.
//!   `calls::the_umask_is_applied_once`, `kinds::a_default_list_takes_the_place_of_the_umask`
//! - `DO_READDIRPLUS`: it does not look up what was listed. Each entry with attributes counts as told.
//!   `flags::listings_tell_of_inodes`, `damaged::a_name_is_listed_whatever_is_behind_it`
//! - `READDIRPLUS_AUTO`: it changes between the two kinds of listing in the midst of one. Cookies are the same for
//!   both. `files::large_directories_are_listed_whole`
//! - `PARALLEL_DIROPS`: it does not lock a directory for look-ups and listings.
//!   `flags::one_directory_is_listed_and_searched_side_by_side`
//! - `CACHE_SYMLINKS`: it does not ask again where a link points. No link ever changes, and a number used again has
//!   another generation. `flags::a_symbolic_link_says_what_the_last_one_of_its_name_says`
//! - `EXPLICIT_INVAL_DATA`: it does not drop pages because of a new time or size. Contents change by its own requests
//!   alone, which drop what they change. `flags::what_changes_without_a_write_is_seen_by_who_has_read_it`,
//!   `programs::nobody_sees_old_bytes_after_asynchronous_direct_writes`
//! - `HANDLE_KILLPRIV_V2`: it does not clear setuid and setgid. WRITE and SETATTR say when, FALLOCATE and
//!   COPY_FILE_RANGE do not. No reply carries the new mode, so the server has the kernel forget the attributes before
//!   it replies. `security.capability` the kernel removes itself. `users::changes_by_users_take_setuid_away_at_once`,
//!   `users::what_a_program_could_do_ends_with_its_change`,
//!   `dispatch/tests::the_kernel_forgets_a_mode_that_a_failed_write_has_changed`
//! - `SETXATTR_EXT`: it does not clear setgid with a new access control list. SETXATTR says when.
//!   `users::a_list_by_who_is_not_in_the_group_takes_setgid_away`
//! - `INIT_EXT`: flags beyond the 32nd count, nothing else. `session::nothing_is_agreed_on_that_is_not_offered`
//! - `POSIX_ACL`: it checks lists, but inherits none and changes none by chmod(2). Asked for where the kernel checks
//!   permissions. `kinds::a_default_list_takes_the_place_of_the_umask`, `flags::a_new_mode_is_a_new_list`
//! - `ALLOW_IDMAP`: it maps users of further mounts, and tells them mapped, and only with requests that make inodes.
//!   Asked for where the kernel checks permissions, but for `allow_root`, which needs each sender's user.
//!   `idmapped::users_that_a_mount_maps_may_do_what_they_may_on_the_kernels_ext4`,
//!   `ops/sender::a_mapped_sender_is_who_its_thread_is`
//! - `WRITEBACK_CACHE`: it does not send a write before it returns, and keeps size and times itself.
//!   `calls::the_writeback_cache_collects_writes`
//! - `OVER_IO_URING`: it does not put requests through `/dev/fuse`, once every processor's queue has a place.
//!   `flags::both_transports_carry_every_kind_of_request`
//! - `FOPEN_KEEP_CACHE`: it does not drop pages and listings at open.
//!   `calls::each_call_costs_the_requests_that_are_written_down`,
//!   `flags::what_changes_without_a_write_is_seen_by_who_has_read_it`
//! - `FOPEN_CACHE_DIR`: it does not ask for a listing again until its own requests change the directory.
//!   `flags::a_kept_listing_follows_changes`
//! - `FOPEN_NOFLUSH`: it sends nothing at close(2), not even pages changed through a mapping: they come when the
//!   mapping goes. `flags::stores_through_a_mapping_that_nobody_flushes_arrive`
//!
//! Where OPEN and OPENDIR are answered with ENOSYS the kernel takes the first two of `FOPEN_` by itself, and writes
//! pages changed through a mapping at close(2).

use crate::proto::numbers::{Fopen, Init};

/// For how many seconds the kernel may keep what it was told.
pub(crate) const TTL: u64 = 3600;

/// An opened file: pages stay valid between opens, and closing needs no request.
pub(crate) const FILE: Fopen = Fopen::KEEP_CACHE.union(Fopen::NOFLUSH);

/// An opened directory: the listing is kept.
pub(crate) const DIR: Fopen = Fopen::KEEP_CACHE.union(Fopen::CACHE_DIR);

/// What every mount asks for. `ASYNC_DIO` is not among it: a direct write that nobody waits for drops the cached pages
/// before it is served only, and a reader beside it brings the old bytes back for good.
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

/// What a mount asks for where the kernel checks permissions, and so access control lists and for users that a mount
/// maps, where it collects writes, and where requests are to come through io_uring.
pub(crate) fn of_mount(kernel_checks: bool, writeback_cache: bool, rings: bool) -> Init {
    let mut wanted = ALWAYS;
    wanted.set(Init::POSIX_ACL | Init::ALLOW_IDMAP, kernel_checks);
    wanted.set(Init::WRITEBACK_CACHE, writeback_cache);
    wanted.set(Init::OVER_IO_URING, rings);
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    const OWN: &str = include_str!("flags.rs");

    /// Items "- `FLAG`: what the server does, `module::test`..." of this file's own comment: flags and tests.
    fn rows() -> Vec<(&'static str, Vec<&'static str>)> {
        let (comment, _) = OWN.split_once("\n\n").unwrap();
        let items = comment.split("\n//! - `").skip(1).filter_map(|item| item.split_once('`'));
        items.map(|(flag, rest)| (flag, rest.split('`').filter(|word| word.contains("::")).collect())).collect()
    }

    #[test]
    fn every_flag_has_a_row_that_says_which_test_shows_what_it_leaves_to_us() {
        let rows = rows();
        let init = of_mount(true, true, true).iter_names().map(|(name, _)| name.to_owned());
        let open = (FILE | DIR).iter_names().map(|(name, _)| format!("FOPEN_{name}"));
        let asked: BTreeSet<String> = init.chain(open).collect();
        let told: BTreeSet<String> = rows.iter().map(|(flag, _)| (*flag).to_owned()).collect();
        assert_eq!(asked, told);
        assert_eq!(rows.len(), told.len(), "a flag is listed twice");
        let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for (flag, tests) in rows {
            assert!(!tests.is_empty(), "{flag} has no test");
            for test in tests {
                let (module, name) = test.split_once("::").unwrap();
                let places = ["front/cli/tests/program", "proof/tests", "front/fuse/src"];
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
