//! Images that are a part of a file: partitions of a disk's image, and what begins at a byte. What lies outside stays
//! as it is.

use crate::place::{Place, fails, ondol, output, succeeds, unmounts};
use std::fs::{self, File};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const DISK: u64 = 100 << 20;

/// A disk's image full of noise, with the partitions of a script for sfdisk(8); and where those are, as sfdisk says.
struct Disk {
    dir: tempfile::TempDir,
    parts: Vec<(u32, Range<u64>)>,
}

impl Disk {
    fn new(label: &str, script: &str) -> Option<Self> {
        if ondol_skips::skips(ondol_skips::missing(&["sfdisk", "e2fsck"])) {
            return None;
        }
        let mut disk = Self { dir: tempfile::tempdir().unwrap(), parts: Vec::new() };
        let file = File::create(disk.image()).unwrap();
        let noise: Vec<u8> = (0..1u64 << 20).map(|n| (n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 37) as u8).collect();
        (0..DISK >> 20).for_each(|n| file.write_all_at(&noise, n << 20).unwrap());
        let sfdisk = ondol_skips::find("sfdisk").unwrap();
        let line = format!("printf '{script}' | \"$1\" -q --wipe always -X {label} \"$2\"");
        succeeds(Command::new("sh").args(["-ec", &line, "-"]).arg(&sfdisk).arg(disk.image()));
        let told = succeeds(Command::new(&sfdisk).arg("-J").arg(disk.image()));
        let told: serde_json::Value = serde_json::from_str(&told).unwrap();
        for part in told["partitiontable"]["partitions"].as_array().unwrap() {
            let node = part["node"].as_str().unwrap();
            let number = node.trim_start_matches(disk.image().to_str().unwrap()).parse().unwrap();
            let (start, size) = (part["start"].as_u64().unwrap() * 512, part["size"].as_u64().unwrap() * 512);
            let is_extended = matches!(part["type"].as_str(), Some("5" | "f" | "85"));
            disk.parts.extend((!is_extended).then_some((number, start..start + size)));
        }
        Some(disk)
    }

    fn image(&self) -> PathBuf {
        self.dir.path().join("disk.img")
    }

    /// The target that names a partition.
    fn part(&self, number: u32) -> String {
        format!("{}?partition={number}", self.image().display())
    }

    /// All that lies outside of a range.
    fn outside(&self, of: &Range<u64>) -> Vec<u8> {
        let mut bytes = fs::read(self.image()).unwrap();
        assert_eq!(bytes.len() as u64, DISK);
        bytes.drain(of.start as usize..of.end as usize);
        bytes
    }

    /// e2fsck finds nothing in what begins at a byte.
    fn is_clean(&self, start: u64) {
        let mut command = Command::new(ondol_skips::find("e2fsck").unwrap());
        let target = format!("{}?offset={start}", self.image().display());
        let out = output(command.arg("-fn").arg(target).stdin(Stdio::null()));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stdout));
    }
}

/// All that can be done to a partition, with what lies outside of it the same.
fn is_used(disk: &Disk, number: u32, range: &Range<u64>) {
    let outside = disk.outside(range);
    let target = disk.part(number);
    let partition = number.to_string();
    succeeds(ondol().args(["mkfs", "-F", "-L", &format!("part{number}"), &target]));
    disk.is_clean(range.start);
    let file = disk.dir.path().join("file");
    fs::write(&file, format!("in {number}")).unwrap();
    succeeds(ondol().args(["cp", "--partition", &partition]).arg(disk.image()).arg(&file).arg(":/"));
    let offset = format!("offset={},sizelimit={}", range.start, range.end - range.start);
    let read = succeeds(ondol().args(["cat", "-o", &offset]).arg(disk.image()).arg("/file"));
    assert_eq!(read, format!("in {number}"));
    let info: serde_json::Value = serde_json::from_str(&succeeds(ondol().args(["info", "--json", &target]))).unwrap();
    assert_eq!(info["label"], format!("part{number}"));
    let bytes = info["blocks"].as_u64().unwrap() * info["block_size"].as_u64().unwrap();
    assert!(bytes <= range.end - range.start && bytes > (range.end - range.start) / 10 * 9);
    // Until it is full, and freed again: what is copied there is short.
    let fill = disk.dir.path().join("fill");
    File::create(&fill).unwrap().write_all_at(&vec![number as u8; 64 << 20], 0).unwrap();
    fails(ondol().args(["cp", "--partition", &partition]).arg(disk.image()).arg(&fill).arg(":/"), 1);
    succeeds(ondol().args(["cp", "--partition", &partition]).arg(disk.image()).arg(&file).arg(":/fill"));
    succeeds(ondol().args(["tune", "--data", "ordered", &target]));
    succeeds(ondol().args(["recover", &target]));
    succeeds(ondol().args(["check", &target]));
    disk.is_clean(range.start);
    assert!(disk.outside(range) == outside, "partition {number}: something was written outside of it");
}

#[test]
fn partitions_of_a_gpt_are_images() {
    let Some(disk) = Disk::new("gpt", ", 20M\\n, 30M\\n, 16M\\n") else { return };
    assert_eq!(disk.parts.len(), 3);
    disk.parts.iter().for_each(|(number, range)| is_used(&disk, *number, range));
    // Each has its own still.
    for (number, _) in &disk.parts {
        let read = succeeds(ondol().args(["cat", "--partition", &number.to_string()]).arg(disk.image()).arg("/file"));
        assert_eq!(read, format!("in {number}"));
    }
    let said = fails(ondol().args(["ls", "--partition", "7"]).arg(disk.image()), 2);
    assert!(said.contains("it has no partition 7; there are 1, 2, 3"), "{said}");
    // Who names the disk alone is told of them.
    for (command, code) in [("ls", 2), ("info", 1), ("check", 8)] {
        let said = fails(ondol().arg(command).arg(disk.image()), code);
        let hint = format!("`{}` names an image in one of the partitions 1, 2, 3", disk.part(1));
        assert!(said.contains("holds no ext4 file system") && said.contains(&hint), "{said}");
    }
    // By the copy at the end, if the first table is damaged.
    let file = File::options().read(true).write(true).open(disk.image()).unwrap();
    // A byte of the disk's UUID.
    let damage = |at: u64| {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[!byte[0]], at).unwrap();
    };
    damage(512 + 60);
    assert!(succeeds(ondol().args(["ls", "--partition", "2"]).arg(disk.image())).contains("file\n"));
    damage(DISK - 512 + 60);
    let said = fails(ondol().args(["ls", "--partition", "2"]).arg(disk.image()), 2);
    assert!(said.contains("neither the GPT nor its copy at the end is whole"), "{said}");
}

#[test]
fn partitions_of_an_mbr_are_images_logical_ones_too() {
    let Some(disk) = Disk::new("dos", ", 20M\\n, 16M, L\\n, , E\\n, 16M\\n, 20M\\n") else { return };
    let numbers: Vec<u32> = disk.parts.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [1, 2, 5, 6]);
    disk.parts.iter().for_each(|(number, range)| is_used(&disk, *number, range));
    let library: Vec<(u32, Range<u64>)> = ondol::partitions(disk.image())
        .unwrap()
        .into_iter()
        .map(|part| (part.number, part.start..part.start + part.size))
        .collect();
    assert_eq!(library, disk.parts);
}

#[test]
fn a_partition_is_mounted() {
    let Some(place) = Place::new() else { return };
    let Some(disk) = Disk::new("gpt", ", 20M\\n, 40M\\n") else { return };
    let (number, range) = disk.parts[1].clone();
    let (outside, target) = (disk.outside(&range), disk.part(number));
    succeeds(ondol().args(["mkfs", "-F", &target]));
    let point = place.mount_point();
    for how in [&["--partition", "2"][..], &["-o", "partition=2"], &["-o", &format!("offset={}", range.start)]] {
        succeeds(ondol().arg("mount").args(how).arg(disk.image()).arg(&point));
        fs::write(place.on("file"), vec![7; 3 << 20]).unwrap();
        fs::create_dir(place.on("dir")).unwrap();
        File::open(place.on("file")).unwrap().sync_all().unwrap();
        if how[1].contains('2') && !how[1].contains("offset") {
            let told = succeeds(ondol().args(["info", "--json", &target]));
            assert!(told.contains("\"state\":\"mounted\""), "{told}");
            let said = fails(ondol().args(["ls", &target]), 2);
            assert!(said.contains("is mounted on"), "{said}");
        }
        // Whoever would write what is mounted is refused.
        let said = fails(ondol().args(["tune", "--data", "journal", &target]), 1);
        assert!(said.contains("in use"), "{said}");
        fs::remove_file(place.on("file")).unwrap();
        fs::remove_dir(place.on("dir")).unwrap();
        unmounts(ondol().args(["umount", "--wait"]).arg(&point));
        disk.is_clean(range.start);
    }
    assert!(disk.outside(&range) == outside, "something was written outside of the partition");
}

#[test]
fn a_line_of_fstab_names_a_partition() {
    if ondol_skips::skips(ondol_skips::missing(&["sfdisk", "e2fsck"])) {
        return;
    }
    let Some(place) = crate::namespace::place() else { return };
    crate::namespace::run(
        &place,
        r#"
truncate -s 100M "$D/disk"; printf ', 40M\n, 40M\n' | sfdisk -q -X gpt "$D/disk"
head -c 41M "$D/disk" | sha256sum > "$D/before"
"$D/ondol" mkfs "$D/disk?partition=2"
echo "$D/disk $M ondol noauto,partition=2,uhelper=ondol 0 2" > "$D/fstab"
mount "$M"; mounted
echo text > "$M/file"
"$D/ondol" info "$M" > "$D/said"; says 'state .*mounted'
mount -o remount,ro "$M"; fails 1 touch "$M/file"
umount.ondol "$M"; ! mounted
[ "$("$D/ondol" cat --partition 2 "$D/disk" /file)" = text ]
fsck.ondol -f "$D/disk?partition=2"
e2fsck -fn "$D/disk?offset=$((41 * 1024 * 1024))"
head -c 41M "$D/disk" | sha256sum | cmp - "$D/before"
# By the source and the directory.
mount -t ondol "$D/disk?partition=2" "$M"; mounted; umount.ondol -f "$M"; ! mounted
"#,
    );
}

#[test]
fn what_is_no_part_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("disk.img");
    succeeds(ondol().args(["mkfs", "--size", "16M"]).arg(&image));
    let before = fs::read(&image).unwrap();
    let refused = |suffix: &str| {
        let target = format!("{}?{suffix}", image.display());
        fails(ondol().args(["mkfs", "-F", &target]), 1)
    };
    assert!(refused("partition=1").contains("it has no partition table"));
    assert!(refused("offset=1000").contains("a multiple of 512"));
    assert!(refused("offset=16M").contains("not within its 16777216 bytes"));
    assert!(refused("offset=8M&size=9M").contains("not within its 16777216 bytes"));
    let said = fails(ondol().args(["ls", "-o", "partition=1", "--partition", "1"]).arg(&image), 2);
    assert!(said.contains("--partition goes with none of"), "{said}");
    assert!(fs::read(&image).unwrap() == before);
    // A file of such a name is the file.
    let odd = format!("{}?partition=1", image.display());
    fs::copy(&image, &odd).unwrap();
    assert_eq!(succeeds(ondol().args(["ls", &odd])), "lost+found\n");
    assert!(Path::new(&odd).exists());
}
