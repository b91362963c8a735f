//! Whether anybody has a file open for writing, as the kernel tells it: it grants a lease (fcntl(2)) for reading only
//! where nobody has.
#![expect(unsafe_code, reason = "a system call that takes numbers")]

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;

/// `F_SETSIG` of `linux/fcntl.h`, which libc does not have for all C libraries.
const F_SETSIG: libc::c_int = 10;

/// Whether nobody at all has the file open for writing that `file` has open for reading only: no process in any
/// namespace, by no descriptor and no mapping, and no device. False also where nobody can tell: who asks is neither
/// root nor the owner, the file system has no leases, or the file has no name.
pub fn nobody_writes(file: &File) -> bool {
    let set = |command, value: libc::c_int| {
        // SAFETY: these commands take a number, and touch no memory of this process.
        unsafe { libc::fcntl(file.as_raw_fd(), command, value) == 0 }
    };
    // Who opens it for writing in between lets the kernel send a signal; SIGIO would end the process, this one nobody
    // heeds.
    let granted = set(F_SETSIG, libc::SIGURG) && set(libc::F_SETLEASE, libc::F_RDLCK);
    // The answer stands, also if the kernel has taken the lease back.
    let _ = set(libc::F_SETLEASE, libc::F_UNLCK);
    // The kernel does not count the descriptor with which a file in memory was made (memfd_create(2)). Such a file has
    // no name.
    granted && file.metadata().is_ok_and(|meta| meta.nlink() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::OpenOptions;

    #[test]
    fn a_writer_is_seen_and_a_reader_is_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        std::fs::write(&path, [0; 4096]).unwrap();
        let (file, reader) = (File::open(&path).unwrap(), File::open(&path).unwrap());
        reader.lock().unwrap();
        if !nobody_writes(&file) {
            return ondol_skips::skip("the file system of temporary files has no leases");
        }
        let writer = OpenOptions::new().write(true).open(&path).unwrap();
        assert!(!nobody_writes(&file) && !nobody_writes(&writer));
        drop(writer);
        // The lease is given back: nobody waits for it.
        assert!(nobody_writes(&file));
        OpenOptions::new().write(true).open(&path).unwrap();
        drop(reader);
        // A mapping is a writer without a descriptor.
        let mapped = crate::Nvm::open(&path, &crate::NvmOptions { access: crate::Access::Joint, ..Default::default() });
        assert!(mapped.is_ok() && !nobody_writes(&file));
        drop(mapped);
        assert!(nobody_writes(&file));
        let memory = File::from(rustix::fs::memfd_create("memory", rustix::fs::MemfdFlags::CLOEXEC).unwrap());
        assert!(!nobody_writes(&memory));
    }
}
