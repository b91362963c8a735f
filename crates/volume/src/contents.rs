//! What a file or device holds: before something is made on it, so that nothing is overwritten unawares, and where an
//! ext4 file system was looked for and is not.
//!
//! Looked at are the first and the last 16 MiB, 4 KiB in each of 256 equal parts of what lies between, and the places
//! where ext4 usually has copies of its superblock: all of a small image, and not more than 34 MiB of the largest. What
//! is all zeros there holds nothing. Anything else is named by the numbers that the common formats begin (or end) with.

use crate::Result;
use ondol_block::BlockStore;
use ondol_format::superblock::{MAGIC, usual_backups};

/// Bytes at the beginning and at the end.
const EDGE: u64 = 16 << 20;
/// Pieces between.
const PIECES: u64 = 256;
const PIECE: u64 = 4096;
/// Bytes read at once.
const READ: u64 = 1 << 20;

/// Where the magic number of a format is.
#[derive(Clone, Copy)]
enum At {
    /// Bytes from the beginning.
    Start(u64),
    /// Bytes before the end.
    End(u64),
    /// Bytes before the end, rounded down to a multiple.
    EndAligned(u64, u64),
}

use At::{End, EndAligned, Start};

/// Formats by their magic numbers, as their own documents have them: the more particular ones first.
const FORMATS: &[(&str, At, &[u8])] = &[
    ("an ext2, ext3 or ext4 file system", Start(1024 + 56), &MAGIC.to_le_bytes()),
    ("an XFS file system", Start(0), b"XFSB"),
    ("a Btrfs file system", Start(0x1_0040), b"_BHRfS_M"),
    ("a bcache device", Start(0x1018), b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("a bcachefs file system", Start(0x1018), b"\xc6\x85\x73\xf6\x66\xce\x90\xa9"),
    ("an F2FS file system", Start(1024), b"\x10\x20\xf5\xf2"),
    ("a NILFS2 file system", Start(1024 + 6), b"\x34\x34"),
    ("a ReiserFS file system", Start(0x1_0034), b"ReIsEr"),
    ("a Reiser4 file system", Start(0x1_0000), b"ReIsEr4"),
    ("a JFS file system", Start(0x8000), b"JFS1"),
    ("a GFS2 file system", Start(0x1_0000), b"\x01\x16\x19\x70"),
    ("an OCFS2 file system", Start(0x2000), b"OCFSV2"),
    ("an ISO 9660 file system", Start(0x8001), b"CD001"),
    ("a UDF file system", Start(0x8001), b"BEA01"),
    ("an APFS container", Start(32), b"NXSB"),
    ("an HFS+ file system", Start(1024), b"H+"),
    ("an HFSX file system", Start(1024), b"HX"),
    ("an HFS file system", Start(1024), b"BD"),
    ("a UFS file system", Start(0x2000 + 1372), b"\x54\x19\x01\x00"),
    ("a UFS2 file system", Start(0x1_0000 + 1372), b"\x19\x01\x54\x19"),
    ("a VMFS volume", Start(0x10_0000), b"\x0d\xd0\x01\xc0"),
    ("a squashfs file system", Start(0), b"hsqs"),
    ("an EROFS file system", Start(1024), b"\xe2\xe1\xf5\xe0"),
    ("a cramfs file system", Start(0), b"\x45\x3d\xcd\x28"),
    ("a romfs file system", Start(0), b"-rom1fs-"),
    ("an NTFS file system", Start(3), b"NTFS    "),
    ("an exFAT file system", Start(3), b"EXFAT   "),
    ("a BitLocker volume", Start(3), b"-FVE-FS-"),
    ("a FAT file system", Start(54), b"FAT1"),
    ("a FAT file system", Start(82), b"FAT32   "),
    ("swap space", Start(4096 - 10), b"SWAPSPACE2"),
    ("swap space", Start(4096 - 10), b"SWAP-SPACE"),
    ("swap space", Start(8192 - 10), b"SWAPSPACE2"),
    ("swap space", Start(16384 - 10), b"SWAPSPACE2"),
    ("swap space", Start(65536 - 10), b"SWAPSPACE2"),
    ("a suspended system in swap space", Start(4096 - 10), b"S1SUSPEND"),
    ("a LUKS volume", Start(0), b"LUKS\xba\xbe"),
    ("a LUKS volume (its second header)", Start(0x4000), b"SKUL\xba\xbe"),
    ("an LVM physical volume", Start(512), b"LABELONE"),
    ("an LVM physical volume", Start(0), b"LABELONE"),
    ("an LVM physical volume", Start(1024), b"LABELONE"),
    ("an LVM physical volume", Start(1536), b"LABELONE"),
    ("a Linux RAID member", Start(0x1000), b"\xfc\x4e\x2b\xa9"),
    ("a Linux RAID member", Start(0), b"\xfc\x4e\x2b\xa9"),
    ("a Linux RAID member", EndAligned(8192, 4096), b"\xfc\x4e\x2b\xa9"),
    ("a Linux RAID member", EndAligned(65536, 65536), b"\xfc\x4e\x2b\xa9"),
    ("an Intel RAID member", End(1024), b"Intel Raid ISM Cfg Sig. "),
    ("a DDF RAID member", End(512), b"\xde\x11\xde\x11"),
    ("an NVM pool", Start(0), b"ONDOLPL\0"),
    ("a GPT partition table", Start(512), b"EFI PART"),
    ("a GPT partition table", Start(4096), b"EFI PART"),
    ("an Apple partition table", Start(512), b"PM\0\0"),
    ("a BSD partition table", Start(512), b"\x57\x45\x56\x82"),
    ("a partition table or a boot sector", Start(510), b"\x55\xaa"),
    ("what is left of a GPT partition table", End(512), b"EFI PART"),
    ("a SQLite database", Start(0), b"SQLite format 3\0"),
    ("an LMDB database", Start(16), b"\xde\xc0\xef\xbe"),
    ("a Berkeley DB database", Start(12), b"\x62\x31\x05\x00"),
    ("a Berkeley DB database", Start(12), b"\x61\x15\x06\x00"),
    ("a QCOW disk image", Start(0), b"QFI\xfb"),
    ("a VMDK disk image", Start(0), b"KDMV"),
    ("a VHDX disk image", Start(0), b"vhdxfile"),
    ("a VHD disk image", Start(0), b"conectix"),
    ("a VHD disk image", End(512), b"conectix"),
    ("a VDI disk image", Start(0x40), b"\x7f\x10\xda\xbe"),
    ("a tar archive", Start(257), b"ustar"),
    ("a gzip file", Start(0), b"\x1f\x8b"),
    ("a bzip2 file", Start(0), b"BZh"),
    ("an xz file", Start(0), b"\xfd7zXZ\0"),
    ("a Zstandard file", Start(0), b"\x28\xb5\x2f\xfd"),
    ("an LZ4 file", Start(0), b"\x04\x22\x4d\x18"),
    ("a zip archive", Start(0), b"PK\x03\x04"),
    ("a 7z archive", Start(0), b"7z\xbc\xaf\x27\x1c"),
    ("a rar archive", Start(0), b"Rar!\x1a\x07"),
    ("a cpio archive", Start(0), b"07070"),
    ("an ar archive", Start(0), b"!<arch>\n"),
    ("an RPM package", Start(0), b"\xed\xab\xee\xdb"),
    ("a program", Start(0), b"\x7fELF"),
    ("a script", Start(0), b"#!"),
    ("a PDF document", Start(0), b"%PDF-"),
    ("a PNG picture", Start(0), b"\x89PNG\r\n"),
    ("a JPEG picture", Start(0), b"\xff\xd8\xff"),
];

/// What `store` holds, in words; None if it is all zeros where it is looked at.
///
/// # Errors
/// The store's failure.
pub fn of(store: &dyn BlockStore) -> Result<Option<String>> {
    let (first, copy) = (first_byte(store)?, has_copy(store)?);
    if first.is_none() && !copy {
        return Ok(None);
    }
    if let Some(name) = format(store)? {
        return Ok(Some(name.into()));
    }
    Ok(Some(match first {
        _ if copy => "what is left of an ext2, ext3 or ext4 file system".into(),
        _ if is_text(store)? => "text".into(),
        first => format!("something: byte {} is not zero", first.unwrap_or_default()),
    }))
}

/// The format of what `store` holds, if it is one of those that have a name here.
///
/// # Errors
/// The store's failure.
pub(crate) fn format(store: &dyn BlockStore) -> Result<Option<&'static str>> {
    for &(name, at, magic) in FORMATS {
        if has(store, at, magic)? {
            return Ok(Some(name));
        }
    }
    Ok(is_zfs(store)?.then_some("a ZFS pool member"))
}

/// The first byte that is not zero, of those that are looked at.
fn first_byte(store: &dyn BlockStore) -> Result<Option<u64>> {
    let size = store.size();
    let tail = size.saturating_sub(EDGE).max(EDGE.min(size));
    let part = tail.saturating_sub(EDGE) / PIECES;
    let pieces = (0..PIECES).map(|i| (EDGE + i * part, PIECE.min(part)));
    let ranges = [(0, EDGE.min(size))].into_iter().chain(pieces).chain([(tail, size - tail)]);
    for (start, len) in ranges.filter(|(_, len)| *len > 0) {
        if let Some(at) = first_in(store, start, len)? {
            return Ok(Some(at));
        }
    }
    Ok(None)
}

fn has_copy(store: &dyn BlockStore) -> Result<bool> {
    for (_, at) in usual_backups() {
        if has(store, Start(at + 56), &MAGIC.to_le_bytes())? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn first_in(store: &dyn BlockStore, start: u64, len: u64) -> Result<Option<u64>> {
    let mut bytes = vec![0; READ.min(len) as usize];
    let mut at = start;
    while at < start + len {
        let part = &mut bytes[..READ.min(start + len - at) as usize];
        store.read(at, part)?;
        if let Some(i) = part.iter().position(|&byte| byte != 0) {
            return Ok(Some(at + i as u64));
        }
        at += part.len() as u64;
    }
    Ok(None)
}

fn has(store: &dyn BlockStore, at: At, magic: &[u8]) -> Result<bool> {
    let size = store.size();
    let offset = match at {
        Start(offset) => Some(offset),
        End(back) => size.checked_sub(back),
        EndAligned(back, unit) => (size / unit * unit).checked_sub(back),
    };
    let Some(offset) = offset.filter(|offset| offset + magic.len() as u64 <= size) else { return Ok(false) };
    let mut found = vec![0; magic.len()];
    store.read(offset, &mut found)?;
    Ok(found == magic)
}

/// ZFS numbers its states in a ring of blocks of 1 KiB or more, behind 128 KiB.
fn is_zfs(store: &dyn BlockStore) -> Result<bool> {
    const UBERBLOCK: u64 = 0x00ba_b10c;
    for at in (128 << 10..256 << 10).step_by(1024) {
        if has(store, Start(at), &UBERBLOCK.to_le_bytes())? || has(store, Start(at), &UBERBLOCK.to_be_bytes())? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether it begins with a text: printable characters, blanks and ends of lines.
fn is_text(store: &dyn BlockStore) -> Result<bool> {
    let mut bytes = vec![0; store.size().min(512) as usize];
    store.read(0, &mut bytes)?;
    let text = match std::str::from_utf8(&bytes) {
        Ok(text) => text,
        // The last character may be cut off.
        Err(e) if e.valid_up_to() + 4 > bytes.len() => {
            std::str::from_utf8(&bytes[..e.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Ok(false),
    };
    let text = text.trim_end_matches('\0');
    Ok(!text.is_empty() && text.chars().all(|c| !c.is_control() || matches!(c, '\n' | '\r' | '\t')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_block::RamStore;

    fn holds(size: usize, at: usize, bytes: &[u8]) -> Option<String> {
        let store = RamStore::new(size);
        store.write(at as u64, bytes).unwrap();
        of(&store).unwrap()
    }

    #[test]
    fn every_format_is_named_and_its_place_is_right_at_any_size() {
        for size in [2 << 20, (40 << 20) + 12_288] {
            for &(name, at, magic) in FORMATS {
                let at = match at {
                    Start(at) => at as usize,
                    End(back) => size - back as usize,
                    EndAligned(back, unit) => size / unit as usize * unit as usize - back as usize,
                };
                assert_eq!(holds(size, at, magic).as_deref(), Some(name), "{magic:x?} at {at} of {size}");
            }
        }
    }

    #[test]
    fn zeros_are_nothing_and_a_single_byte_is_something() {
        for size in [0, 1, 511, 4096, EDGE as usize + 1, 3 * EDGE as usize] {
            assert_eq!(of(&RamStore::new(size)).unwrap(), None, "{size} bytes");
            for at in [0, size / 3, size - size.min(1)].into_iter().filter(|&at| at < size.min(EDGE as usize)) {
                assert_eq!(holds(size, at, &[200]), Some(format!("something: byte {at} is not zero")), "{size} bytes");
            }
        }
        let size = 3 * EDGE as usize;
        assert!(holds(size, size - 1, &[1]).is_some());
        // Between the edges, something that is long enough to be worth keeping.
        assert!(holds(size, EDGE as usize + 100_000, &[1; 128 << 10]).is_some());
    }

    #[test]
    fn text_and_what_is_left_of_ext4_are_named() {
        assert_eq!(holds(4096, 0, "root:x:0:0\n온돌\n".as_bytes()).as_deref(), Some("text"));
        assert_eq!(holds(11, 0, b"just words\n").as_deref(), Some("text"));
        let mut copy = [0; 1024];
        copy[56..58].copy_from_slice(&MAGIC.to_le_bytes());
        let left = Some("what is left of an ext2, ext3 or ext4 file system".to_owned());
        assert_eq!(holds(200 << 20, 32768 * 4096, &copy), left);
        assert_eq!(holds(200 << 20, 8193 * 1024, &copy), left);
    }

    #[test]
    fn a_large_medium_is_read_in_bounds() {
        let store = RamStore::new(256 << 20);
        assert_eq!(of(&store).unwrap(), None);
        assert!(store.stats().read_bytes < 34 << 20, "{}", store.stats().read_bytes);
    }
}
