//! Bitmaps and the counts in the descriptors against what is in use.

use super::report::Where;
use super::{Checker, Pass};
use crate::Result;
use ondol_format::bitmap;
use ondol_format::group::{BLOCK_UNINIT, GroupDesc, INODE_UNINIT};
use ondol_format::inode::FileType;
use std::fmt::Write;

/// Runs of a difference that are told.
const TOLD: usize = 8;

/// The pass over the bitmaps, when everything in use is known.
pub(super) struct BitmapPass<'c, 'a> {
    pub(super) checker: &'c mut Checker<'a>,
}

impl BitmapPass<'_, '_> {
    pub(super) fn check_bitmaps(&mut self) -> Result<()> {
        let groups = self.checker.sb.groups();
        for g in 0..groups {
            self.checker.tell(Pass::Bitmaps, g.into(), groups.into());
            let clusters = self.checker.space.used_in(g, self.checker.sb.clusters_in_group(g));
            self.checker.report.blocks += u64::from(clusters) * u64::from(self.checker.sb.cluster_ratio());
            let Some(desc) = self.checker.descs.get(g as usize).copied().flatten() else { continue };
            self.check_block_bitmap(g, &desc)?;
            self.check_inode_bitmap(g, &desc)?;
        }
        Ok(())
    }

    fn check_block_bitmap(&mut self, g: u32, desc: &GroupDesc) -> Result<()> {
        let bits = self.checker.sb.clusters_in_group(g);
        let bytes = self.checker.block_size();
        let mut used = vec![0; bytes];
        if let Some(map) = self.checker.space.group(g) {
            let len = map.len().min(bytes);
            used[..len].copy_from_slice(&map[..len]);
        }
        let free = bits - bitmap::count_ones(&used, bits as usize) as u32;
        let uninit = self.has_uninit() && desc.flags & BLOCK_UNINIT != 0;
        if uninit {
            self.check_only_metadata(g, &used);
        } else {
            let place = Where::block(desc.block_bitmap);
            let first = self.checker.sb.group_first_block(g);
            let (step, covered) = (self.checker.sb.cluster_ratio(), self.checker.sb.clusters_per_group());
            let wanted = Wanted { used: &used, bits, first, step, covered };
            self.check_map(format!("block bitmap of group {g}"), place, &wanted, desc.block_bitmap_csum)?;
        }
        self.check_count(g, "free blocks", desc.free_blocks, free);
        Ok(())
    }

    fn check_inode_bitmap(&mut self, g: u32, desc: &GroupDesc) -> Result<()> {
        let bits = self.checker.sb.inodes_per_group();
        let mut used = vec![0; self.checker.block_size()];
        let mut dirs = 0;
        for (i, entry) in
            self.checker.found.group(g).unwrap_or_default().iter().enumerate().filter(|(_, entry)| entry.used)
        {
            bitmap::set(&mut used, i);
            dirs += u32::from(entry.file_type == Some(FileType::Directory));
        }
        let free = bits - bitmap::count_ones(&used, bits as usize) as u32;
        let uninit = self.has_uninit() && desc.flags & INODE_UNINIT != 0;
        if !uninit {
            let place = Where::block(desc.inode_bitmap);
            let first = u64::from(g) * u64::from(bits) + 1;
            let wanted = Wanted { used: &used, bits, first, step: 1, covered: bits };
            self.check_map(format!("inode bitmap of group {g}"), place, &wanted, desc.inode_bitmap_csum)?;
        } else if free != bits {
            self.checker.problem(
                format!("group descriptor {g}"),
                Where::NONE,
                "inodes are in use, but it says none ever was",
            );
        }
        self.check_count(g, "free inodes", desc.free_inodes, free);
        self.check_count(g, "directories", desc.used_dirs, dirs);
        Ok(())
    }

    fn has_uninit(&self) -> bool {
        self.checker.sb.features().has_group_desc_csum()
    }

    fn check_count(&mut self, g: u32, what: &str, said: u32, found: u32) {
        if said != found {
            self.checker.problem(
                format!("group descriptor {g}"),
                Where::NONE,
                format!("{said} {what}, counted {found}"),
            );
        }
    }

    /// A group whose bitmap was never written holds nothing but metadata.
    fn check_only_metadata(&mut self, g: u32, used: &[u8]) {
        let first = self.checker.sb.group_first_block(g);
        let mut at = 0;
        while let Some(bit) = bitmap::find_next_one(used, at, used.len() * 8) {
            let block = first + bit as u64 * u64::from(self.checker.sb.cluster_ratio());
            if !self.checker.space.is_metadata(block) {
                let text = "the group is said to be unused, but a file has this block";
                self.checker.problem(format!("group descriptor {g}"), Where::block(block), text);
                return;
            }
            at = bit + 1;
        }
    }

    /// A bitmap on the image: its `stored` checksum, padding, and bit for bit.
    fn check_map(&mut self, structure: String, place: Where, wanted: &Wanted<'_>, stored: u32) -> Result<()> {
        let Wanted { used, bits, first, step, covered } = *wanted;
        let Some(block) = place.block else { return Ok(()) };
        let map = self.checker.read(block)?;
        if let Some(seed) = self.checker.sb.csum_seed() {
            let computed = bitmap::checksum(seed, &map, covered);
            if !GroupDesc::bitmap_csum_matches(stored, computed, self.checker.sb.gdt().desc_size()) {
                let text = format!("checksum {stored:#010x}, computed {computed:#010x}");
                self.checker.problem(structure.clone(), place, text);
            }
        }
        if !bitmap::is_padded(&map, bits as usize) {
            self.checker.problem(structure.clone(), place, "the bits behind its end are not set");
        }
        for (what, a, b) in [("marked used, but free", &map[..], used), ("in use, but marked free", used, &map[..])] {
            let runs = only_in(a, b, bits as usize);
            if !runs.is_empty() {
                self.checker.problem(structure.clone(), place, format!("{what}: {}", list(&runs, first, step.into())));
            }
        }
        Ok(())
    }
}

/// What a bitmap is to say.
struct Wanted<'u> {
    used: &'u [u8],
    /// Those of its bits that mean something, the number of the first, and how many numbers a bit stands for.
    bits: u32,
    first: u64,
    step: u32,
    /// Bits under the checksum.
    covered: u32,
}

/// Runs of bits that are set in `a` and not in `b`.
fn only_in(a: &[u8], b: &[u8], bits: usize) -> Vec<(usize, usize)> {
    let only: Vec<u8> = a.iter().zip(b).map(|(a, b)| a & !b).collect();
    let mut runs = Vec::new();
    let mut at = 0;
    while let Some(start) = bitmap::find_next_one(&only, at, bits) {
        let end = bitmap::find_next_zero(&only, start, bits).unwrap_or(bits);
        runs.push((start, end));
        at = end;
    }
    runs
}

fn list(runs: &[(usize, usize)], first: u64, step: u64) -> String {
    let mut text = String::new();
    for &(start, end) in runs.iter().take(TOLD) {
        let separator = if text.is_empty() { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = match end - start {
            1 if step == 1 => write!(text, "{separator}{}", first + start as u64),
            _ => {
                write!(text, "{separator}{}-{}", first + start as u64 * step, first + end as u64 * step - 1)
            }
        };
    }
    if runs.len() > TOLD {
        let _ = write!(text, " and {} runs more", runs.len() - TOLD);
    }
    text
}
