//! Wrong calls: what is said, and which exit code says so.

use crate::place::{fails, ondol, output, succeeds};
use std::fs;

/// The whole of what is said, and the exit code: docs/commands.md says by which rule.
#[test]
fn wrong_calls_are_answered_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    for command in ["mkfs --size 16M there.img", "mkfs --size 16M --journal classic other.img"] {
        succeeds(ondol().args(command.split(' ')).current_dir(dir.path()));
    }
    fs::write(dir.path().join("text"), "no file system").unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    for (call, code, said) in WRONG {
        let got = fails(ondol().args(call.split_whitespace()).current_dir(dir.path()), *code);
        assert_eq!(got, format!("ondol: {said}\n"), "ondol {call}");
    }
}

/// All that open an image name the format of what is none, as mkfs does.
#[test]
fn foreign_formats_are_named() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("dir")).unwrap();
    let qcow = "a QCOW disk image: `qemu-img convert -O raw` makes a raw image of it";
    for (magic, named) in [(&b"QFI\xfb"[..], qcow), (b"XFSB", "an XFS file system"), (b"LUKS\xba\xbe", "a LUKS volume")]
    {
        let mut bytes = vec![0; 1 << 20];
        bytes[..magic.len()].copy_from_slice(magic);
        fs::write(dir.path().join("x"), bytes).unwrap();
        let calls = [
            ("mount x dir", 32),
            ("check x", 8),
            ("info x", 1),
            ("recover x", 1),
            ("tune --data ordered x", 1),
            ("resize x 2M", 1),
            ("ls x", 2),
            ("cat x /a", 1),
            ("cp x :/a b", 1),
            ("export x y", 1),
        ];
        for (call, code) in calls {
            let said = fails(ondol().args(call.split(' ')).current_dir(dir.path()), code);
            assert!(said.contains(&format!("x holds no ext4 file system, but {named}")), "{call}: {said}");
        }
    }
    // Small ones, too.
    fs::write(dir.path().join("x"), b"\x1f\x8bsmall").unwrap();
    let said = fails(ondol().args(["ls", "x"]).current_dir(dir.path()), 2);
    assert!(said.contains("too small to hold an ext4 image, but a gzip file"), "{said}");
}

#[test]
fn no_command_is_a_wrong_call() {
    assert_eq!(output(&mut ondol()).status.code(), Some(2));
}

/// Call, exit code, and what is said.
#[rustfmt::skip]
const WRONG: &[(&str, i32, &str)] = &[
    ("frobnicate", 2, "unrecognized subcommand 'frobnicate' (`ondol --help` says more)"),
    ("mkfs", 2, "the following required arguments were not provided: <TARGET> (`ondol mkfs --help` says more)"),
    ("mkfs --size many new.img", 2, "invalid value 'many' for '--size <SIZE>': `many` is not a size: write a number \
                                     with K, M, G or T, as in 512M or 4G (`ondol mkfs --help` says more)"),
    ("mkfs --size 0 new.img", 2, "invalid value '0' for '--size <SIZE>': `0` is not a size: write a number with K, M, \
                                  G or T, as in 512M or 4G (`ondol mkfs --help` says more)"),
    ("mkfs --sparkle new.img", 2, "unexpected argument '--sparkle' found; tip: to pass '--sparkle' as a value, use \
                                   '-- --sparkle' (`ondol mkfs --help` says more)"),
    ("mkfs -F --size 16M -U time other.img", 2, "invalid value 'time' for '--uuid <UUID>': `time` is no UUID: write \
                                                 one with hyphens, random, or clear for zeros (`ondol mkfs --help` \
                                                 says more)"),
    ("mkfs -F --size 16M -m 51 other.img", 2, "invalid value '51' for '--reserved <PERCENT>': `51` is no share that \
                                               can be reserved: write a number from 0 to 50, with up to two decimals \
                                               (`ondol mkfs --help` says more)"),
    ("mkfs -F --size 16M -T mail other.img", 2, "invalid value 'mail' for '--usage <USAGE>': `mail` is no usage: \
                                                 choose floppy, small, default, news, big, huge, largefile or \
                                                 largefile4 (`ondol mkfs --help` says more)"),
    ("mkfs -F --size 16M -i 100 other.img", 2, "cannot make a file system on other.img: 100 bytes for each inode: \
                                                1024 to 67108864 are possible"),
    ("mkfs -F --size 16M -d absent other.img", 1, "cannot read the directory absent: No such file or directory"),
    ("mkfs -F there.img?partition=1", 1, "there.img?partition=1: it has no partition table, neither GPT nor MBR"),
    ("mkfs new.img", 2, "there is no new.img: --size SIZE makes a file of that size"),
    ("mkfs nvm:new", 2, "there is no nvm:new: --size SIZE makes a pool for a file system of that size"),
    ("export nvm:new", 2, "the following required arguments were not provided: <IMAGE> (`ondol export --help` says \
                           more)"),
    ("export nvm:new x.img", 1, "cannot open new: No such file or directory; `ondol pool create new` makes one"),
    ("import there.img nvm:new", 1, "there.img: its blocks have 1024 bytes, a page table's 4096: copy its files \
                                     instead"),
    ("info nvm:text", 1, "text cannot be used as NVM: it has less than 4096 bytes"),
    ("import there.img pool", 1, "pool: it names no pool: nvm:pool is the image in a pool"),
    ("mkfs -F --size 16M -b 3000 other.img", 2, "cannot make a file system on other.img: block size 3000: 1024, 2048 \
                                                 and 4096 are possible"),
    ("mkfs -F --size 16M --chunk 16K other.img", 2, "cannot make a file system on other.img: only volumes in object \
                                                     storage are made of chunks"),
    ("mkfs -F --size 16M -b x other.img", 2, "invalid value 'x' for '--block-size <BYTES>': it must be a whole number \
                                              (`ondol mkfs --help` says more)"),
    ("mkfs -F --size 16M -L a-label-that-is-too-long other.img", 2, "cannot make a file system on other.img: the \
        label has 24 bytes, at most 16 are possible"),
    ("mkfs -F --size 16M -O sparkle other.img", 2, "cannot make a file system on other.img: unknown feature 'sparkle'"),
    ("mkfs -F --size 16M -O ondol_journal other.img", 2, "cannot make a file system on other.img: unsupported \
                                                          features: ondol_journal"),
    ("mkfs -F --size 1K other.img", 2, "cannot make a file system on other.img: too small: a volume with a journal \
                                        and blocks of 1024 bytes needs 2048 KiB"),
    ("mkfs -F --size 16M --journal remap other.img", 2, "cannot make a file system on other.img: engine remap needs \
                                                         an image in an NVM pool, and its journal in the image; \
                                                         `ondol mkfs nvm:POOL` makes one"),
    ("mkfs -F --size 16M --journal fast other.img", 2, "invalid value 'fast' for '--journal <ENGINE>': `fast` is no \
                                                        journal engine: choose classic, compressed, swap, scalable, \
                                                        remap or batch (`ondol mkfs --help` says more)"),
    ("mkfs -F --size 16M --data fast other.img", 2, "invalid value 'fast' for '--data <MODE>': `fast` is no data \
                                                     mode: choose journal, ordered or writeback (`ondol mkfs --help` \
                                                     says more)"),
    ("mkfs -F --size 16M --journal-size 1G other.img", 2, "cannot make a file system on other.img: a journal of \
                                                           1048576 blocks takes more than half of the volume"),
    ("mkfs -F --size 16M --journal-size 4K other.img", 2, "cannot make a file system on other.img: a journal needs at \
                                                           least 1024 blocks, not 4"),
    ("mkfs --size 16M absent/new.img", 1, "cannot create absent/new.img: No such file or directory"),
    ("mount there.img", 1, "the following required arguments were not provided: <DIR> (`ondol mount --help` says \
                            more)"),
    ("mount --sparkle there.img dir", 1, "unexpected argument '--sparkle' found; tip: to pass '--sparkle' as a value, \
                                          use '-- --sparkle' (`ondol mount --help` says more)"),
    ("mount -o sparkle there.img dir", 1, "unknown mount option `sparkle`: `ondol mount --help` lists them"),
    ("mount -o nodelaloc there.img dir", 1, "unknown mount option `nodelaloc`; did you mean `nodelalloc`?"),
    ("mount -o acl,noacl there.img dir", 1, "mount option `noacl` is not taken: access control lists and attributes \
                                             count wherever files have some; leave it out"),
    ("mount -o delalloc,fmask=22 there.img dir", 1, "mount option `fmask=22` is not taken: `umask=` says it of all \
                                                     files"),
    ("mount -o umask=8 there.img dir", 1, "mount option `umask=8`: the value must be an octal number up to 777"),
    ("ls -o barrier=0 there.img", 2, "mount option `barrier=0` is not taken: an fsync is worth nothing before the \
                                      disk has emptied its cache; leave it out"),
    ("/no/disk.img /no/dir -o remount,ro", 1, "mount(8) has not found its helpers: link `/sbin/mount.ondol` and \
                                               `/sbin/mount.fuse.ondol` to this program"),
    ("mount -o alow_other there.img dir", 1, "unknown mount option `alow_other`; did you mean `allow_other`?"),
    ("mount -o commit=abc there.img dir", 1, "mount option `commit=abc`: the value must be a number of seconds"),
    ("mount -o data=fast there.img dir", 1, "mount option `data=fast`: the value must be writeback, ordered or \
                                             journal"),
    ("mount -o journal=fast there.img dir", 1, "mount option `journal=fast`: the value must be classic, compressed, \
                                                swap, scalable, remap or batch"),
    ("mount -o journal=remap there.img dir", 32, "there.img: `journal=remap` needs an image in an NVM pool, and its \
                                                  journal in the image: choose another journal, or such an image; \
                                                  `ondol mkfs nvm:POOL` makes one"),
    ("mount -o fsync=none there.img dir", 1, "mount option `fsync=none`: the value must be prefix or file"),
    ("mount -o nvm=missing.pool there.img dir", 32, "cannot open missing.pool: No such file or directory; `ondol pool \
                                                     create missing.pool` makes one"),
    ("mount -o cache=much there.img dir", 1, "mount option `cache=much`: the value must be a size such as 64M"),
    ("mount -o errors=panic there.img dir", 1, "mount option `errors=panic`: the value must be remount-ro or \
                                                continue; a server cannot make the machine panic"),
    ("mount -o max_read=x there.img dir", 1, "mount option `max_read=x`: the value must be a number above 0"),
    ("mount -o max_threads=0 there.img dir", 1, "mount option `max_threads=0`: the value must be a number above 0"),
    ("mount -o sb=x there.img dir", 1, "mount option `sb=x`: the value must be the place of a copy of the superblock, \
                                        in units of 1 KiB"),
    ("mount -o remount,ro there.img dir", 1, "remount is for mount(8) to ask: `mount -o remount,… dir`"),
    ("mount -o partition=0 there.img dir", 1, "`0` is no number of a partition: they count from 1"),
    ("mount -o ofset=1M there.img dir", 1, "unknown mount option `ofset=1M`; did you mean `offset=`?"),
    ("mount --partition x there.img dir", 1, "invalid value 'x' for '--partition <N>': `x` is no number of a \
                                              partition: they count from 1 (`ondol mount --help` says more)"),
    ("mount --partition 1 there.img dir", 32, "there.img?partition=1: it has no partition table, neither GPT nor MBR"),
    ("mount absent.img dir", 32, "cannot open absent.img: No such file or directory; `ondol mount --create SIZE` \
                                  makes a volume there"),
    ("mount nvm:pool dir", 32, "cannot open nvm:pool: No such file or directory; `ondol mount --create SIZE` makes a \
                                volume there"),
    ("mount there.img absent", 32, "cannot use absent as a mount point: No such file or directory; `mkdir` makes it"),
    ("mount there.img other.img", 32, "cannot use other.img as a mount point: not a directory"),
    ("mount --create many new.img dir", 1, "invalid value 'many' for '--create <SIZE>': `many` is not a size: write a \
                                            number with K, M, G or T, as in 512M or 4G (`ondol mount --help` says \
                                            more)"),
    ("umount", 1, "the following required arguments were not provided: <DIR> (`ondol umount --help` says more)"),
    ("umount dir", 32, "dir is not on a volume mounted by ondol"),
    ("umount --lazy --force dir", 1, "the argument '--lazy' cannot be used with '--force' (`ondol umount --help` says \
                                      more)"),
    ("umount --lazy dir", 32, "dir is not on a volume mounted by ondol"),
    ("umount absent", 32, "cannot open absent: No such file or directory"),
    ("sync", 2, "the following required arguments were not provided: <DIR> (`ondol sync --help` says more)"),
    ("sync dir", 1, "dir is not on a volume mounted by ondol"),
    ("check", 16, "the following required arguments were not provided: <TARGET> (`ondol check --help` says more)"),
    ("check --sparkle there.img", 16, "unexpected argument '--sparkle' found; tip: to pass '--sparkle' as a value, \
                                       use '-- --sparkle' (`ondol check --help` says more)"),
    ("check -b x there.img", 16, "invalid value 'x' for '--superblock <BLOCK>': it must be a whole number (`ondol \
                                  check --help` says more)"),
    ("check absent.img", 8, "cannot open absent.img: No such file or directory"),
    ("check -b 77 there.img", 8, "there.img: no superblock begins in block 77"),
    ("ls", 2, "the following required arguments were not provided: <IMAGE> (`ondol ls --help` says more)"),
    ("ls there.img /absent", 2, "there.img:/absent: no such file or directory"),
    ("ls text", 2, "not supported: text is too small to hold an ext4 image"),
    ("cat there.img", 1, "the following required arguments were not provided: <PATHS>... (`ondol cat --help` says \
                          more)"),
    ("cat there.img /", 1, "there.img:/: it is a directory"),
    ("cp there.img", 1, "the following required arguments were not provided: <PATHS>... (`ondol cp --help` says more)"),
    ("cp -fn there.img text :/", 1, "the argument '--force' cannot be used with '--no-clobber' (`ondol cp --help` \
                                     says more)"),
    ("cp there.img text other", 1, "a path in the image begins with a colon, as in :/etc/fstab, and of a source and a \
                                    target one must be there"),
    ("ls there.img --partition 1", 2, "there.img?partition=1: it has no partition table, neither GPT nor MBR"),
    ("recover", 2, "the following required arguments were not provided: <TARGET> (`ondol recover --help` says more)"),
    ("recover absent.img", 1, "cannot open absent.img: No such file or directory"),
    ("recover --discard-nvm --force there.img", 2, "the argument '--discard-nvm' cannot be used with '--force' \
                                                    (`ondol recover --help` says more)"),
    ("info", 2, "the following required arguments were not provided: <TARGET> (`ondol info --help` says more)"),
    ("info absent.img", 1, "cannot open absent.img: No such file or directory"),
    ("info dir", 1, "dir is not on a volume mounted by ondol"),
    ("top", 2, "the following required arguments were not provided: <TARGET> (`ondol top --help` says more)"),
    ("top dir", 1, "dir is not on a volume mounted by ondol"),
    ("top there.img", 1, "there.img is not mounted: there is nothing to watch"),
    ("top absent.img", 1, "cannot open absent.img: No such file or directory"),
    ("top 1", 1, "process 1 serves no mount, or none that this user may see"),
    ("top --interval 0 dir", 2, "invalid value '0' for '--interval <SECONDS>': `0` is no interval: write a number of \
                                 seconds from 0.1 to 3600 (`ondol top --help` says more)"),
    ("top --sort size dir", 2, "invalid value 'size' for '--sort <COLUMN>' [possible values: rate, p50, p99, errors, \
                                total, name] (`ondol top --help` says more)"),
    ("top --once -n 3 dir", 2, "the argument '--once' cannot be used with '--reports <N>' (`ondol top --help` says \
                                more)"),
    ("--log-level loud info there.img", 2, "invalid value 'loud' for '--log-level <LEVEL>': `loud` is no log level: \
                                            choose error, warn, info, debug or trace, or levels of parts, as in \
                                            warn,ondol_fuse=debug (`ondol info --help` says more)"),
    ("-v mount -o metrics=x there.img dir", 1, "mount option `metrics=x`: there is no port; write PORT or HOST:PORT, \
                                                unix:PATH for a socket, or an absolute path that ends in .prom for a \
                                                file"),
    ("mount -o metrics=/run/x there.img dir", 1, "mount option `metrics=/run/x`: node_exporter reads files that end \
                                                  in .prom alone; write PORT or HOST:PORT, unix:PATH for a socket, or \
                                                  an absolute path that ends in .prom for a file"),
    ("mount -o log_level=loud there.img dir", 1, "`loud` is no log level: choose error, warn, info, debug or trace, \
                                                  or levels of parts, as in warn,ondol_fuse=debug"),
    ("mount -o metrics=/absent/x.prom there.img dir", 32, "no metrics: cannot write /absent/x.prom: No such file or \
                                                           directory"),
    ("resize", 2, "the following required arguments were not provided: <TARGET> (`ondol resize --help` says more)"),
    ("resize there.img many", 2, "invalid value 'many' for '[SIZE]': `many` is not a size: write a number with K, M, \
                                  G or T, as in 512M or 4G (`ondol resize --help` says more)"),
    ("resize absent.img 64M", 1, "cannot open absent.img: No such file or directory"),
    ("resize text 64M", 1, "not supported: text is too small to hold an ext4 image"),
    ("resize nvm:text 64M", 1, "text cannot be used as NVM: it has less than 4096 bytes"),
    ("tune there.img", 2, "nothing to change: say --journal ENGINE, --data MODE or --journal-size SIZE"),
    ("tune --data fast there.img", 2, "invalid value 'fast' for '--data <MODE>': `fast` is no data mode: choose \
                                       journal, ordered or writeback (`ondol tune --help` says more)"),
    ("tune --journal scalable there.img", 1, "there.img: an image cannot ask for engine scalable: the pool that it \
                                              needs is named when it is opened (mount option `nvm=POOL`)"),
    ("tune --journal-size 1K there.img", 1, "there.img: a journal of 1 block: the least is 1024"),
    ("tune --journal classic absent.img", 1, "cannot open absent.img: No such file or directory"),
    ("pool create pool", 2, "there is no pool; --size SIZE makes a pool of that size"),
    ("pool create --size 4K pool", 1, "pool cannot hold a pool of 4096 bytes: a pool has at least 12288, and not more \
                                       than its medium"),
    ("pool create --domain optane --size 1M pool", 2, "invalid value 'optane' for '--domain <DOMAIN>': `optane` is no \
                                                       persistence domain: choose auto, adr, eadr, gpf, msync or \
                                                       volatile (`ondol pool create --help` says more)"),
    ("pool info absent", 1, "cannot open absent: No such file or directory; `ondol pool create absent` makes one"),
    ("pool info there.img", 1, "there.img is no pool: there is no signature at byte 0 or 4096; `ondol pool create \
                                there.img` makes one"),
    ("pool measure --nvm-model speed=3ns there.img", 2, "invalid value 'speed=3ns' for '--nvm-model <MODEL>': \
                                                         `speed=3ns` is no part of an NVM model: write read=300ns, \
                                                         write=100ns or bandwidth=2G (`ondol pool measure --help` \
                                                         says more)"),
    ("completions", 2, "the following required arguments were not provided: <SHELL> (`ondol completions --help` says \
                        more)"),
    ("completions abacus", 2, "invalid value 'abacus' for '<SHELL>' [possible values: bash, elvish, fish, powershell, \
                               zsh] (`ondol completions --help` says more)"),
    ("manual", 2, "the following required arguments were not provided: <DIR> (`ondol manual --help` says more)"),
    ("manual text", 1, "cannot write into text: Not a directory"),
];
