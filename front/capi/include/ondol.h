/*
 * libondol: ext4 images as volumes that keep their promises after a crash, for C; and NVM as a write buffer in front of ordinary
 * files (ondol_buffer_open).
 *
 * Calls that can fail return 0 (or what they count) when they succeed, and a negative error number (-ENOENT) when they do not;
 * ondol_error() then says in words what was wrong. No call ends the process: a defect of the library is -ENOTRECOVERABLE, after which
 * the volume or buffer should be closed.
 *
 * Paths are bytes that end with a zero byte. They are paths inside the volume, and relative ones begin at its root; those of a buffer's
 * files are relative to its directory. A pointer must be valid for the length of the call, and a handle must not be used after the call
 * that gives it up. NULL where an object is needed is -EINVAL.
 *
 * Volumes, buffers and files may be used by many threads at once; directories and transactions by one at a time. The call that gives up
 * a handle must be the last that uses it. Handles must not be used in the child of a fork(2).
 *
 * Made from the source of libondol by cbindgen; do not edit. MIT OR Apache-2.0.
 */

#ifndef ONDOL_H
#define ONDOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * A write buffer: NVM in front of the files of a directory.
 */
struct ondol_buffer;

/**
 * An open file behind a write buffer.
 */
struct ondol_buffer_file;

/**
 * A directory that is being listed.
 */
struct ondol_dir;

/**
 * An open file.
 */
struct ondol_file;

/**
 * Changes that are to be made as one.
 */
struct ondol_transaction;

/**
 * An opened image.
 */
struct ondol_volume;

/**
 * An entry of a directory.
 */
struct ondol_entry {
  /**
   * Its name: valid until the next call with this directory.
   */
  const char *name;
  /**
   * The inode that it names.
   */
  uint64_t ino;
  /**
   * The type of what it names, as the type bits of st_mode; of a symbolic link that, and not its target's.
   */
  uint32_t mode;
};

/**
 * A time: seconds and nanoseconds since 1970. Times before have negative seconds; nanoseconds always count forwards.
 */
struct ondol_time {
  /**
   * Seconds.
   */
  int64_t sec;
  /**
   * Nanoseconds, less than 1000000000.
   */
  uint32_t nsec;
};

/**
 * What stat(2) tells of a file.
 */
struct ondol_attr {
  /**
   * Inode number.
   */
  uint64_t ino;
  /**
   * Size in bytes.
   */
  uint64_t size;
  /**
   * Space held, in units of 512 bytes.
   */
  uint64_t blocks;
  /**
   * File type and permission bits, as st_mode.
   */
  uint32_t mode;
  /**
   * Number of names.
   */
  uint32_t nlink;
  /**
   * Owner.
   */
  uint32_t uid;
  /**
   * Group.
   */
  uint32_t gid;
  /**
   * Device number of a device file: major.
   */
  uint32_t rdev_major;
  /**
   * Device number of a device file: minor.
   */
  uint32_t rdev_minor;
  /**
   * Last access.
   */
  struct ondol_time accessed;
  /**
   * Last change of the contents.
   */
  struct ondol_time modified;
  /**
   * Last change of the inode.
   */
  struct ondol_time changed;
  /**
   * Creation; 0 where the image does not keep it.
   */
  struct ondol_time created;
};

/**
 * How a file system is made. Fields that are 0, false or NULL have their defaults.
 */
struct ondol_mkfs_options {
  /**
   * Size in bytes: needed of a file that does not exist; otherwise what the target has.
   */
  uint64_t size;
  /**
   * Make it over whatever the target holds.
   */
  bool force;
  /**
   * Block size: 1024, 2048 or 4096 bytes.
   */
  uint32_t block_size;
  /**
   * Number of inodes.
   */
  uint32_t inodes;
  /**
   * Label: up to 16 bytes.
   */
  const char * label;
  /**
   * What the image asks for as its journal: "classic", "compressed", "swap", "remap".
   */
  const char * journal;
  /**
   * What the image asks for as its data mode: "writeback", "ordered", "journal".
   */
  const char * data;
  /**
   * Features to add or leave out, as `mke2fs -O` takes them.
   */
  const char * features;
  /**
   * Bytes of the journal.
   */
  uint64_t journal_size;
};

/**
 * Space and inodes of a volume.
 */
struct ondol_space {
  /**
   * Bytes of a block.
   */
  uint32_t block_size;
  /**
   * Blocks for files.
   */
  uint64_t blocks;
  /**
   * Free blocks.
   */
  uint64_t free;
  /**
   * Free blocks that are not reserved.
   */
  uint64_t available;
  /**
   * Inodes.
   */
  uint64_t files;
  /**
   * Free inodes.
   */
  uint64_t files_free;
};

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * Opens the write buffer in the NVM pool `pool` for the files below the directory `dir`, on any file system. A pool of
 * `size` bytes is made if there is none, for the calling user alone. What an earlier use has left in the pool is
 * written to the files first, with the rights of the calling process. With `force`, damaged writes are given up;
 * without, they are -EUCLEAN. -EPERM for a pool that another user owns or can read.
 *
 * A pool belongs to one directory: name the same one each time. Nobody else may change its files until the buffer is
 * closed.
 */
int ondol_buffer_open(const char * pool, uint64_t size, const char * dir, bool force, struct ondol_buffer **buffer);

/**
 * Writes everything to the files, durably, and closes the buffer.
 *
 * -EBUSY, when files of it are open, changes nothing. After any other return the buffer is given up; after an error
 * the pool keeps what the files lack, and the next ondol_buffer_open() writes it to them. NULL is no error.
 */
int ondol_buffer_close(struct ondol_buffer *buffer);

/**
 * Writes everything to the files, durably. The buffer stays open.
 */
int ondol_buffer_settle(const struct ondol_buffer *buffer);

/**
 * Removes a file, durably. What is open of it is -ESTALE from now on.
 */
int ondol_buffer_remove(const struct ondol_buffer *buffer, const char * path);

/**
 * Opens a file for reading and writing. `path` is relative to the buffer's directory and cannot leave it. With
 * `create`, a file that does not exist is made.
 */
int ondol_buffer_file_open(const struct ondol_buffer *buffer,
                           const char * path,
                           bool create,
                           struct ondol_buffer_file **file);

/**
 * Closes a file. NULL is no error.
 */
int ondol_buffer_file_close(struct ondol_buffer_file *file);

/**
 * Reads at `offset`. Returns how many bytes: fewer than asked for only at the end.
 */
int64_t ondol_buffer_file_pread(const struct ondol_buffer_file *file, void * buffer, size_t len, uint64_t offset);

/**
 * Writes all bytes at `offset`, durably, and returns `len`. After a crash before that, the bytes of each block of 16
 * KiB of the file are there or not. A full buffer is emptied first, which takes as long as the disk does.
 */
int64_t ondol_buffer_file_pwrite(const struct ondol_buffer_file *file, const void * data, size_t len, uint64_t offset);

/**
 * Truncates the file or extends it with zeros, durably.
 */
int ondol_buffer_file_set_len(const struct ondol_buffer_file *file, uint64_t size);

/**
 * The size of the file.
 */
int64_t ondol_buffer_file_size(const struct ondol_buffer_file *file);

/**
 * Fails, once, if the file could not be written in the background since the last call. Nothing is lost: the pool has
 * the bytes, and they are tried again. Writes are durable without this call.
 */
int ondol_buffer_file_sync(const struct ondol_buffer_file *file);

/**
 * Why the last call of this thread that failed did so: one line without an end of line. It is valid until the next
 * call of this thread that fails; empty if there was none.
 */
const char *ondol_error(void);

/**
 * Opens a directory to be listed.
 */
int ondol_dir_open(const struct ondol_volume *volume, const char * path, struct ondol_dir **dir);

/**
 * The next entry; "." and ".." are left out. Returns 1 with an entry, and 0 after the last. Entries come in no
 * particular order, each exactly once if it is there all the while.
 */
int ondol_dir_next(struct ondol_dir *dir, struct ondol_entry *entry);

/**
 * Ends a listing. NULL is no error.
 */
int ondol_dir_close(struct ondol_dir *dir);

/**
 * Opens a file with flags of open(2): O_RDONLY, O_WRONLY or O_RDWR; O_CREAT, O_EXCL and O_TRUNC for writing; O_APPEND
 * (not with O_TRUNC). `mode` are the permission bits of a file that is created. The file stays readable and writable
 * when its last name is removed.
 */
int ondol_file_open(const struct ondol_volume *volume,
                    const char * path,
                    int flags,
                    uint32_t mode,
                    struct ondol_file **file);

/**
 * Closes a file, which makes nothing durable. NULL is no error.
 */
int ondol_file_close(struct ondol_file *file);

/**
 * Reads at the file's position and moves it. Returns how many bytes: fewer than asked for only at the end.
 */
int64_t ondol_file_read(const struct ondol_file *file, void * buffer, size_t len);

/**
 * Writes at the file's position (at the end, with O_APPEND) and moves it. Returns how many bytes: fewer only when
 * space ran out after some.
 */
int64_t ondol_file_write(const struct ondol_file *file, const void * data, size_t len);

/**
 * Reads at `offset`; the position stays. Returns how many bytes: fewer than asked for only at the end.
 */
int64_t ondol_file_pread(const struct ondol_file *file, void * buffer, size_t len, uint64_t offset);

/**
 * Writes at `offset`; the position stays. Returns how many bytes: fewer only when space ran out after some. One atomic
 * operation up to the volume's atomic size.
 */
int64_t ondol_file_pwrite(const struct ondol_file *file, const void * data, size_t len, uint64_t offset);

/**
 * Moves the position as lseek(2) with SEEK_SET, SEEK_CUR, SEEK_END, SEEK_DATA or SEEK_HOLE, and returns it.
 */
int64_t ondol_file_seek(const struct ondol_file *file, int64_t offset, int whence);

/**
 * Truncates the file or extends it with zeros.
 */
int ondol_file_set_len(const struct ondol_file *file, uint64_t size);

/**
 * Allocates, punches, zeroes, cuts out or makes room for `len` bytes from `offset` on: what fallocate(2) does with
 * these flags (FALLOC_FL_KEEP_SIZE and others). -EOPNOTSUPP for flags that are not offered.
 */
int ondol_file_allocate(const struct ondol_file *file, uint32_t flags, uint64_t offset, uint64_t len);

/**
 * Makes every earlier operation of the volume durable, this file's included. After an error nothing may be taken as
 * durable that was not so before.
 */
int ondol_file_sync(const struct ondol_file *file);

/**
 * What fstat(2) tells.
 */
int ondol_file_stat(const struct ondol_file *file, struct ondol_attr *attr);

/**
 * What stat(2) tells.
 */
int ondol_stat(const struct ondol_volume *volume, const char * path, struct ondol_attr *attr);

/**
 * What lstat(2) tells: of a symbolic link itself.
 */
int ondol_lstat(const struct ondol_volume *volume, const char * path, struct ondol_attr *attr);

/**
 * Makes a directory with these permission bits.
 */
int ondol_mkdir(const struct ondol_volume *volume, const char * path, uint32_t mode);

/**
 * Removes an empty directory.
 */
int ondol_rmdir(const struct ondol_volume *volume, const char * path);

/**
 * Removes a name that is not a directory.
 */
int ondol_unlink(const struct ondol_volume *volume, const char * path);

/**
 * Moves `from` to `to`, replacing what is there.
 */
int ondol_rename(const struct ondol_volume *volume, const char * from, const char * to);

/**
 * Gives the file at `original` a further name.
 */
int ondol_link(const struct ondol_volume *volume, const char * original, const char * link);

/**
 * Makes a symbolic link at `link` that says `target`.
 */
int ondol_symlink(const struct ondol_volume *volume, const char * target, const char * link);

/**
 * What a symbolic link says, without a zero byte at its end. Returns how many bytes it has; if that is more than
 * `size`, only the first ones were stored.
 */
int64_t ondol_readlink(const struct ondol_volume *volume, const char * path, void * buffer, size_t size);

/**
 * Changes the permission bits.
 */
int ondol_chmod(const struct ondol_volume *volume, const char * path, uint32_t mode);

/**
 * Changes owner and group; UINT32_MAX leaves one as it is.
 */
int ondol_chown(const struct ondol_volume *volume, const char * path, uint32_t uid, uint32_t gid);

/**
 * Sets the times of last access and last change; NULL leaves one as it is.
 */
int ondol_set_times(const struct ondol_volume *volume,
                    const char * path,
                    const struct ondol_time *accessed,
                    const struct ondol_time *modified);

/**
 * Begins a transaction. The ondol_tx_ calls only note what is to be done, with a copy of the data; whether it can be
 * done is found out by ondol_tx_commit(), and nothing is locked meanwhile. A path means what it means when its
 * change's turn comes; symbolic links are not followed.
 */
int ondol_tx_begin(const struct ondol_volume *volume, struct ondol_transaction **tx);

/**
 * Makes the changes, in the order in which they were noted: all of them, or, when one cannot be made, none. Nobody
 * ever sees a part of them, not after a crash either. They are seen at once and durable with the next sync. Gives up
 * the transaction, whatever it returns. -E2BIG: the journal cannot take all of it as one.
 */
int ondol_tx_commit(struct ondol_transaction *tx);

/**
 * Gives up a transaction: nothing of it is done. NULL is no error.
 */
int ondol_tx_abort(struct ondol_transaction *tx);

/**
 * Makes an empty file with mode 0644. Fails if the name exists.
 */
int ondol_tx_create(struct ondol_transaction *tx, const char * path);

/**
 * Makes these bytes all that a file holds; makes the file, with mode 0644, if there is none.
 */
int ondol_tx_write(struct ondol_transaction *tx, const char * path, const void * data, size_t len);

/**
 * Writes into a file that exists, at byte `offset`.
 */
int ondol_tx_write_at(struct ondol_transaction *tx, const char * path, const void * data, size_t len, uint64_t offset);

/**
 * Writes behind the end of a file that exists.
 */
int ondol_tx_append(struct ondol_transaction *tx, const char * path, const void * data, size_t len);

/**
 * Truncates a file or extends it with zeros.
 */
int ondol_tx_set_len(struct ondol_transaction *tx, const char * path, uint64_t size);

/**
 * Makes an empty directory with mode 0755.
 */
int ondol_tx_mkdir(struct ondol_transaction *tx, const char * path);

/**
 * Makes a symbolic link at `link` that says `target`.
 */
int ondol_tx_symlink(struct ondol_transaction *tx, const char * target, const char * link);

/**
 * Gives the file at `original` a further name.
 */
int ondol_tx_link(struct ondol_transaction *tx, const char * original, const char * link);

/**
 * Moves `from` to `to`, replacing what is there.
 */
int ondol_tx_rename(struct ondol_transaction *tx, const char * from, const char * to);

/**
 * Removes a name that is not a directory.
 */
int ondol_tx_unlink(struct ondol_transaction *tx, const char * path);

/**
 * Removes an empty directory.
 */
int ondol_tx_rmdir(struct ondol_transaction *tx, const char * path);

/**
 * Changes the permission bits.
 */
int ondol_tx_chmod(struct ondol_transaction *tx, const char * path, uint32_t mode);

/**
 * Sets an extended attribute, as ondol_setxattr().
 */
int ondol_tx_setxattr(struct ondol_transaction *tx,
                      const char * path,
                      const char * name,
                      const void * value,
                      size_t size,
                      int flags);

/**
 * Removes an extended attribute.
 */
int ondol_tx_removexattr(struct ondol_transaction *tx, const char * path, const char * name);

/**
 * The version of the library, as "0.1.0".
 */
const char *ondol_version(void);

/**
 * Makes an empty ext4 file system in a file or on a block device, or in the NVM pool POOL with "nvm:POOL" as target.
 * `options` may be NULL. Durable when it returns. What the target holds is lost with `force` only; without, -EEXIST.
 */
int ondol_mkfs(const char * target, const struct ondol_mkfs_options *options);

/**
 * Opens an image, a block device, or the image in an NVM pool ("nvm:POOL"), replaying its journal first if need be.
 * `options` are mount options as in "ro,data=journal", or NULL. Nobody else can open it until it is closed.
 */
int ondol_open(const char * target, const char * options, struct ondol_volume **volume);

/**
 * Commits everything, writes it home, marks the image clean and unlocks it. Durable when it returns 0.
 *
 * -EBUSY, when files or directories of it are open or a transaction is not ended, changes nothing: the volume is as
 * usable as before, and ondol_error() names what is open. After any other return the volume is given up; after an
 * error the image needs recovery, which the next ondol_open() does, and nothing that was synced is lost. NULL is no
 * error.
 */
int ondol_close(struct ondol_volume *volume);

/**
 * Makes everything that has returned so far durable.
 */
int ondol_sync(const struct ondol_volume *volume);

/**
 * From now on new files belong to this user and group, and whether they may take reserved blocks goes by this user,
 * instead of the process's own. Of their permissions these bits of `umask` are left out (at first 0: none). Files that
 * are open stay with whom they were opened for. Permissions are still not checked.
 *
 * No other thread may use the volume meanwhile. -EBUSY while a transaction is not ended.
 */
int ondol_act_as(struct ondol_volume *volume, uint32_t uid, uint32_t gid, uint32_t umask);

/**
 * Space and inodes.
 */
int ondol_statfs(const struct ondol_volume *volume, struct ondol_space *space);

/**
 * The value of an extended attribute, as getxattr(2): returns how many bytes it has, and stores none with `size` 0.
 * -ERANGE where they do not fit, -ENODATA where there is no such attribute. Symbolic links are followed.
 */
int64_t ondol_getxattr(const struct ondol_volume *volume,
                       const char * path,
                       const char * name,
                       void * buffer,
                       size_t size);

/**
 * The names of all extended attributes, each with a zero byte behind it, as listxattr(2): returns how many bytes they
 * have, and stores none with `size` 0.
 */
int64_t ondol_listxattr(const struct ondol_volume *volume, const char * path, void * buffer, size_t size);

/**
 * Sets an extended attribute, atomically; `flags` is 0, XATTR_CREATE or XATTR_REPLACE.
 */
int ondol_setxattr(const struct ondol_volume *volume,
                   const char * path,
                   const char * name,
                   const void * value,
                   size_t size,
                   int flags);

/**
 * Removes an extended attribute.
 */
int ondol_removexattr(const struct ondol_volume *volume, const char * path, const char * name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ONDOL_H */
