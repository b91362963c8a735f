//! What the kernel says of a device: size, persistence domain, bad blocks (its
//! `Documentation/ABI/testing/sysfs-bus-nvdimm` and `sysfs-bus-dax`).

use crate::Domain;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A device as sysfs has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Device {
    /// It belongs to the `dax` subsystem.
    pub(crate) dax: bool,
    /// Bytes.
    pub(crate) size: Option<u64>,
    /// The persistence domain, if the kernel names one.
    pub(crate) domain: Option<Domain>,
    /// Bytes of the device that are lost.
    pub(crate) bad: Vec<Range<u64>>,
}

/// Reads what `sysfs` (elsewhere than at `/sys` in tests) knows of a `char` or `block` device.
pub(crate) fn device(sysfs: &Path, class: &str, number: u64) -> Device {
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let Ok(dir) = sysfs.join(format!("dev/{class}/{major}:{minor}")).canonicalize() else {
        return Device::default();
    };
    let subsystem = dir.join("subsystem").canonicalize().ok();
    let start = text(&dir.join("resource")).and_then(|t| number_of(&t));
    let mut found = Device {
        dax: subsystem.is_some_and(|s| s.ends_with("dax")),
        size: text(&dir.join("size")).and_then(|t| t.parse().ok()),
        domain: None,
        bad: Vec::new(),
    };
    for above in dir.ancestors().take_while(|a| *a != sysfs) {
        if let Some(word) = text(&above.join("persistence_domain")) {
            found.domain = domain(&word, above);
            if class == "char" {
                found.bad = bad_blocks(above, start, found.size);
            }
            break;
        }
    }
    found
}

/// `cpu_cache` of a region behind CXL is a promise of CXL's global persistent flush.
fn domain(word: &str, region: &Path) -> Option<Domain> {
    let cxl = || {
        let driver: Vec<PathBuf> = region.ancestors().filter_map(|a| a.join("subsystem").canonicalize().ok()).collect();
        driver.iter().any(|s| s.ends_with("cxl"))
    };
    match word {
        "cpu_cache" if cxl() => Some(Domain::Gpf),
        "cpu_cache" => Some(Domain::Eadr),
        "memory_controller" => Some(Domain::Adr),
        _ => None,
    }
}

/// A region's list: `sector count` a line, sectors of 512 bytes from the region's start; shifted to the device's.
fn bad_blocks(region: &Path, device: Option<u64>, size: Option<u64>) -> Vec<Range<u64>> {
    let start = text(&region.join("resource")).and_then(|t| number_of(&t));
    let (Some(list), Some(start), Some(device), Some(size)) = (text(&region.join("badblocks")), start, device, size)
    else {
        return Vec::new();
    };
    let entry = |line: &str| {
        let (sector, count) = line.split_once(' ')?;
        let first = start.checked_add(sector.trim().parse::<u64>().ok()?.checked_mul(512)?)?;
        let end = first.checked_add(count.trim().parse::<u64>().ok()?.checked_mul(512)?)?;
        let (first, end) = (first.max(device) - device, end.max(device) - device);
        Some(first.min(size)..end.min(size)).filter(|r| !r.is_empty())
    };
    list.lines().filter_map(entry).collect()
}

fn text(path: &Path) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|t| t.trim().to_owned())
}

fn number_of(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    /// A sysfs with one DAX device below a region.
    fn sysfs(above: &str, domain: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let region = root.join("devices").join(above).join("region0");
        let device = region.join("dax0.0/dax/dax0.0");
        fs::create_dir_all(&device).unwrap();
        for bus in ["dax", "cxl", "nd"] {
            fs::create_dir_all(root.join("bus").join(bus)).unwrap();
        }
        fs::create_dir_all(root.join("dev/char")).unwrap();
        symlink(root.join("bus/dax"), device.join("subsystem")).unwrap();
        let bus = if above.contains("cxl") { "bus/cxl" } else { "bus/nd" };
        symlink(root.join(bus), root.join("devices").join(above).join("subsystem")).unwrap();
        fs::write(region.join("persistence_domain"), format!("{domain}\n")).unwrap();
        fs::write(region.join("resource"), "0x100000000\n").unwrap();
        fs::write(region.join("badblocks"), "0 8\n8192 1\n9000 x\n").unwrap();
        fs::write(device.join("size"), "1048576\n").unwrap();
        fs::write(device.join("resource"), "0x100200000\n").unwrap();
        symlink(&device, root.join("dev/char/252:3")).unwrap();
        dir
    }

    fn found(above: &str, domain: &str) -> Device {
        let sysfs = sysfs(above, domain);
        device(&sysfs.path().canonicalize().unwrap(), "char", rustix::fs::makedev(252, 3))
    }

    #[test]
    fn a_region_says_what_survives() {
        let nvdimm = found("LNXSYSTM/ndbus0", "memory_controller");
        assert!(nvdimm.dax);
        assert_eq!((nvdimm.size, nvdimm.domain), (Some(1 << 20), Some(Domain::Adr)));
        assert_eq!(found("LNXSYSTM/ndbus0", "cpu_cache").domain, Some(Domain::Eadr));
        assert_eq!(found("cxl/root0", "cpu_cache").domain, Some(Domain::Gpf));
        assert_eq!(found("LNXSYSTM/ndbus0", "unknown").domain, None);
    }

    #[test]
    fn bad_blocks_are_counted_from_the_device() {
        // Sector 8192 of the region is byte 0x400000: 2 MiB into the device, past its end. Sector 4096 is its first.
        let sysfs = sysfs("ndbus0", "memory_controller");
        let region = sysfs.path().join("devices/ndbus0/region0");
        fs::write(region.join("badblocks"), "4095 3\n8192 1\n").unwrap();
        let device = device(&sysfs.path().canonicalize().unwrap(), "char", rustix::fs::makedev(252, 3));
        assert_eq!((device.bad.len(), device.bad.first()), (1, Some(&(0..1024))));
    }

    #[test]
    fn what_sysfs_does_not_know_is_not_guessed() {
        let empty = tempfile::tempdir().unwrap();
        assert_eq!(device(empty.path(), "char", 1), Device::default());
    }
}
