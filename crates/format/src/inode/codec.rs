//! Between the bytes of an inode and [`Inode`].

use super::raw::{EXTRA_ISIZE, GOOD_OLD_SIZE, RawInode, fits};
use super::{FileType, Inode, InodeFlags, InodeFormat};
use crate::error::{FormatError, Place, Result};
use crate::time::Time;
use crate::xattr::{parse_inode, write_inode};
use std::mem::{offset_of, size_of};
use zerocopy::little_endian::U32;
use zerocopy::{FromZeros, IntoBytes};

/// Largest count of 512-byte units that i_blocks can hold in 48 bits.
const MAX_SECTORS: u64 = (1 << 48) - 1;

/// End of a field of [`RawInode`], to be compared with i_extra_isize.
macro_rules! end {
    ($field:ident) => {
        offset_of!(RawInode, $field) + size_of::<U32>()
    };
}

impl Inode {
    /// An inode of zeros whose extra fields reach to `extra_isize` (0 on volumes with 128-byte inodes).
    pub fn new(extra_isize: u16, format: &InodeFormat) -> Inode {
        let room = usize::from(format.inode_size).saturating_sub(GOOD_OLD_SIZE);
        Inode {
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            links: 0,
            blocks: 0,
            flags: InodeFlags::empty(),
            generation: 0,
            atime: Time::default(),
            ctime: Time::default(),
            mtime: Time::default(),
            crtime: Time::default(),
            dtime: 0,
            file_acl: 0,
            i_block: [0; 60],
            extra_isize: extra_isize.min(room as u16),
            project: 0,
            version: 0,
            tail: vec![0; room.saturating_sub(usize::from(extra_isize))].into(),
        }
    }

    /// Reads an inode from all of its bytes. The checksum is a matter of [`super::verify`]. Where the extra fields have
    /// no size though there is room (`tune2fs -I` leaves it so), nothing else is there, and they are used, as the
    /// kernel does.
    ///
    /// # Errors
    /// Too few bytes, or an i_extra_isize that is not a multiple of 4 within the inode.
    pub fn parse(bytes: &[u8], ino: u32, format: &InodeFormat) -> Result<Inode> {
        let place = Place::inode(ino);
        let bytes = bytes
            .get(..usize::from(format.inode_size).max(GOOD_OLD_SIZE))
            .ok_or_else(|| place.corrupt("inode", format!("only {} bytes", bytes.len())))?;
        let raw = load(bytes);
        let stored = if bytes.len() > GOOD_OLD_SIZE { raw.i_extra_isize.get() } else { 0 };
        let extra_isize = if stored == 0 { EXTRA_ISIZE.min((bytes.len() - GOOD_OLD_SIZE) as u16) } else { stored };
        let tail = bytes.get(GOOD_OLD_SIZE + usize::from(extra_isize)..);
        let Some(tail) = tail.filter(|_| extra_isize.is_multiple_of(4)) else {
            return Err(place.corrupt("inode", format!("i_extra_isize of {extra_isize} bytes")));
        };
        let has = |end: usize| bytes.len() > GOOD_OLD_SIZE && fits(extra_isize, end);
        let time = |seconds: U32, extra: U32, end: usize| Time::decode(seconds.get(), has(end).then(|| extra.get()));
        let flags = InodeFlags::from_bits_retain(raw.i_flags.get());
        let wide_size = format.large_dir || FileType::from_mode(raw.i_mode.get()) == Some(FileType::Regular);
        Ok(Inode {
            mode: raw.i_mode.get(),
            uid: u32::from(raw.i_uid.get()) | u32::from(raw.i_uid_high.get()) << 16,
            gid: u32::from(raw.i_gid.get()) | u32::from(raw.i_gid_high.get()) << 16,
            size: u64::from(raw.i_size_lo.get()) | if wide_size { u64::from(raw.i_size_high.get()) << 32 } else { 0 },
            links: raw.i_links_count.get(),
            blocks: read_blocks(&raw, flags, format),
            flags,
            generation: raw.i_generation.get(),
            atime: time(raw.i_atime, raw.i_atime_extra, end!(i_atime_extra)),
            ctime: time(raw.i_ctime, raw.i_ctime_extra, end!(i_ctime_extra)),
            mtime: time(raw.i_mtime, raw.i_mtime_extra, end!(i_mtime_extra)),
            crtime: if has(end!(i_crtime)) {
                time(raw.i_crtime, raw.i_crtime_extra, end!(i_crtime_extra))
            } else {
                Time::default()
            },
            dtime: raw.i_dtime.get(),
            file_acl: u64::from(raw.i_file_acl_lo.get())
                | if format.bit64 { u64::from(raw.i_file_acl_high.get()) << 32 } else { 0 },
            i_block: raw.i_block,
            extra_isize,
            project: if has(end!(i_projid)) && stored != 0 { raw.i_projid.get() } else { 0 },
            version: u64::from(raw.i_version_lo.get())
                | if has(end!(i_version_hi)) { u64::from(raw.i_version_hi.get()) << 32 } else { 0 },
            tail: tail.into(),
        })
    }

    /// Writes every field the inode has room for, and the tail, over the bytes of an inode; bytes this crate does not
    /// know stay as they are, also the checksum: see [`super::seal`]. A fresh inode must be written over zeros.
    ///
    /// # Errors
    /// Too few bytes for the inode size or for the tail; a space count that the volume cannot hold.
    pub fn write(&self, bytes: &mut [u8], format: &InodeFormat) -> Result<()> {
        let size = usize::from(format.inode_size).max(GOOD_OLD_SIZE);
        let extra_end = GOOD_OLD_SIZE + usize::from(self.extra_isize);
        let bytes = match bytes.get_mut(..size) {
            Some(bytes) if extra_end + self.tail.len() <= size => bytes,
            _ => return Err(FormatError::TooLarge("the inode and its xattrs do not fit into its bytes".into())),
        };
        let mut raw = load(bytes);
        let (blocks_lo, blocks_high, flags) = self.write_blocks(format)?;
        raw.i_mode.set(self.mode);
        raw.i_uid.set(self.uid as u16);
        raw.i_uid_high.set((self.uid >> 16) as u16);
        raw.i_gid.set(self.gid as u16);
        raw.i_gid_high.set((self.gid >> 16) as u16);
        raw.i_size_lo.set(self.size as u32);
        raw.i_size_high.set((self.size >> 32) as u32);
        raw.i_dtime.set(self.dtime);
        raw.i_links_count.set(self.links);
        raw.i_blocks_lo.set(blocks_lo);
        raw.i_blocks_high.set(blocks_high);
        raw.i_flags.set(flags.bits());
        raw.i_version_lo.set(self.version as u32);
        raw.i_block = self.i_block;
        raw.i_generation.set(self.generation);
        raw.i_file_acl_lo.set(self.file_acl as u32);
        raw.i_file_acl_high.set((self.file_acl >> 32) as u16);
        self.write_extra(&mut raw, size > GOOD_OLD_SIZE);
        let known = extra_end.min(size_of::<RawInode>());
        bytes[..known].copy_from_slice(&raw.as_bytes()[..known]);
        bytes[extra_end..extra_end + self.tail.len()].copy_from_slice(&self.tail);
        Ok(())
    }

    /// The timestamps and the extra fields, as far as i_extra_isize covers them.
    fn write_extra(&self, raw: &mut RawInode, large: bool) {
        let has = |end: usize| large && fits(self.extra_isize, end);
        if large {
            raw.i_extra_isize.set(self.extra_isize);
        }
        let put = |time: Time, seconds: &mut U32, extra: &mut U32, end: usize| {
            let (low, high) = time.encode(has(end));
            seconds.set(low);
            if has(end) {
                extra.set(high);
            }
        };
        put(self.atime, &mut raw.i_atime, &mut raw.i_atime_extra, end!(i_atime_extra));
        put(self.ctime, &mut raw.i_ctime, &mut raw.i_ctime_extra, end!(i_ctime_extra));
        put(self.mtime, &mut raw.i_mtime, &mut raw.i_mtime_extra, end!(i_mtime_extra));
        put(self.crtime, &mut raw.i_crtime, &mut raw.i_crtime_extra, end!(i_crtime_extra));
        raw.i_version_hi.set((self.version >> 32) as u32);
        if has(end!(i_projid)) {
            raw.i_projid.set(self.project);
        }
    }

    /// i_blocks_lo, i_blocks_high and the flags that say how to read them.
    fn write_blocks(&self, format: &InodeFormat) -> Result<(u32, u16, InodeFlags)> {
        let per_block = u64::from(format.block_size / 512).max(1);
        let mut flags = self.flags;
        if self.blocks > u64::from(u32::MAX) && !format.huge_file {
            return Err(FormatError::TooLarge(format!("{} sectors need huge_file", self.blocks)));
        }
        let in_blocks = format.huge_file
            && self.blocks.is_multiple_of(per_block)
            && (self.flags.contains(InodeFlags::HUGE_FILE) || self.blocks > MAX_SECTORS);
        flags.set(InodeFlags::HUGE_FILE, in_blocks || (!format.huge_file && flags.contains(InodeFlags::HUGE_FILE)));
        let count = if in_blocks { self.blocks / per_block } else { self.blocks };
        if count > MAX_SECTORS {
            return Err(FormatError::TooLarge(format!("{} sectors are more than an inode can have", self.blocks)));
        }
        Ok((count as u32, (count >> 32) as u16, flags))
    }

    /// Widens the extra fields to `want` bytes; the attributes in the inode move. False, and no change, if these leave
    /// no such room.
    pub fn grow_extra(&mut self, want: u16) -> bool {
        let grow = usize::from(want.saturating_sub(self.extra_isize));
        if grow == 0 {
            return true;
        }
        let Some(kept) = self.tail.len().checked_sub(grow) else { return false };
        let mut tail = vec![0; kept];
        let moved = parse_inode(&self.tail, Place::NONE).and_then(|list| write_inode(&list, &mut tail));
        if moved.is_ok() {
            (self.extra_isize, self.tail) = (want, tail.into());
        }
        moved.is_ok()
    }
}

/// The known bytes of an inode, missing ones zero.
fn load(bytes: &[u8]) -> RawInode {
    let mut raw = RawInode::new_zeroed();
    let len = bytes.len().min(size_of::<RawInode>());
    raw.as_mut_bytes()[..len].copy_from_slice(&bytes[..len]);
    raw
}

/// Space used, in 512-byte units, whatever unit the inode counts in.
fn read_blocks(raw: &RawInode, flags: InodeFlags, format: &InodeFormat) -> u64 {
    let low = u64::from(raw.i_blocks_lo.get());
    if !format.huge_file {
        return low;
    }
    let count = low | u64::from(raw.i_blocks_high.get()) << 32;
    let unit = if flags.contains(InodeFlags::HUGE_FILE) { u64::from(format.block_size / 512) } else { 1 };
    count.saturating_mul(unit)
}
