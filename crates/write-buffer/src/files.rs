//! Files come into the buffer, and leave it.

use crate::file::FileState;
use crate::format::{FragmentKind, Owner, SlotState};
use crate::handle::File;
use crate::home::Identity;
use crate::shared::Core;
use crate::table::Files;
use crate::tree::Life;
use crate::{BufferError, HomeError, Result};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_env::sync::{Arc, MutexGuard};

impl Core {
    /// Opens a file, which gets a slot if it has none.
    pub(crate) fn open_file(self: &Arc<Self>, identity: &Identity, make: bool) -> Result<File> {
        let mut files = self.files.lock();
        loop {
            if let Some(file) = files.names.get(identity).cloned() {
                if file.life() == Life::Open {
                    return Ok(File::new(self.clone(), file));
                }
                self.bury(&mut files, &file);
            }
            if files.removed.iter().any(|(file, _)| file.identity == *identity) {
                self.settle_removed(&mut files)?;
            }
            if let Some(slot) = files.free_slots.pop_front() {
                let opened = self.open_in_slot(&mut files, slot, identity, make);
                if opened.is_err() {
                    files.free_slots.push_front(slot);
                }
                return opened;
            }
            files = self.find_slot(files, identity)?;
        }
    }

    fn open_in_slot(self: &Arc<Self>, files: &mut Files, slot: u32, identity: &Identity, make: bool) -> Result<File> {
        let home = self.home.open(identity, make).map_err(fail("open", identity))?;
        let home = home.ok_or_else(|| BufferError::NotFound(identity.clone()))?;
        let len = home.len().map_err(fail("open", identity))?;
        let incarnation = files.next_incarnation;
        files.next_incarnation = incarnation.checked_add(1).ok_or(BufferError::Spent)?;
        let owner = Owner { slot, incarnation };
        self.store_slot(owner, identity)?;
        let file = Arc::new(FileState::new(identity.clone(), owner, home, len, &self.area.header));
        files.names.insert(identity.clone(), file.clone());
        files.by_slot[slot as usize] = Some(file.clone());
        Ok(File::new(self.clone(), file))
    }

    /// Name and synced word, then, when they are durable, the state word. Until then the slot is what it was: unused,
    /// or dead.
    fn store_slot(&self, owner: Owner, identity: &Identity) -> Result<()> {
        let mut batch = self.area.nvm().stored();
        batch.store_u64(self.area.synced_at(owner.slot), self.area.seal.synced_word(owner, 0))?;
        batch.copy(self.area.name_at(owner.slot), &self.area.seal.encode_name(owner, identity))?;
        let word = self.area.seal.state_word(owner.slot, SlotState::Live(owner.incarnation));
        batch.write_back().fence()?.publish(self.area.slot_at(owner.slot), word)?;
        Ok(())
    }

    /// Makes a slot free: of a removed file, of one that is closed and clean, or of one that is closed.
    fn find_slot<'c>(&'c self, mut files: MutexGuard<'c, Files>, wanted: &Identity) -> Result<MutexGuard<'c, Files>> {
        if !files.removed.is_empty() {
            self.settle_removed(&mut files)?;
            return Ok(files);
        }
        if self.release_idle_of(&mut files)? {
            return Ok(files);
        }
        let closed = |file: &Arc<FileState>| file.handles.load(SeqCst) == 0;
        let closed: Vec<_> = files.all().into_iter().filter(closed).collect();
        if closed.is_empty() {
            return Err(BufferError::Files { file: wanted.clone(), slots: self.area.header.files });
        }
        drop(files);
        self.settle(&closed)?;
        Ok(self.files.lock())
    }

    /// Releases slots of files that nobody has open and that are clean.
    pub(crate) fn release_idle(&self) -> Result<bool> {
        let mut files = self.files.lock();
        self.release_idle_of(&mut files)
    }

    fn release_idle_of(&self, files: &mut Files) -> Result<bool> {
        let mut any = false;
        for file in files.all() {
            // Handles are only made under the lock of the table.
            if file.handles.load(SeqCst) > 0 {
                continue;
            }
            if file.life() == Life::Open && file.is_clean() {
                self.release(files, &file)?;
                any = true;
            }
        }
        Ok(any)
    }

    /// No record of the file counts any more, durably; then its slot and its blocks are others'.
    fn release(&self, files: &mut Files, file: &Arc<FileState>) -> Result<()> {
        let mut gone = Vec::new();
        let _alone = file.syncing.lock();
        let mut shards = file.lock_all();
        let owner = file.owner;
        let word = self.area.seal.state_word(owner.slot, SlotState::Dead(owner.incarnation));
        let mut batch = self.area.nvm().stored();
        batch.store_u64(self.area.slot_at(owner.slot), word)?;
        batch.write_back().fence()?;
        file.whole.lock().set_synced(file.last.load(SeqCst), &mut gone);
        for tree in &mut shards {
            tree.life = Life::Released;
            tree.clear(&mut gone);
        }
        drop(shards);
        self.space.let_go(&gone);
        if files.names.get(&file.identity).is_some_and(|named| Arc::ptr_eq(named, file)) {
            files.names.remove(&file.identity);
        }
        files.by_slot[owner.slot as usize] = None;
        files.free_slots.push_back(owner.slot);
        Ok(())
    }

    /// Removes a file: a record in NVM, then its name at home.
    pub(crate) fn remove_file(self: &Arc<Self>, identity: &Identity) -> Result<()> {
        let file = self.open_file(identity, false)?;
        match self.control(file.state(), FragmentKind::Removed, 0) {
            // Somebody else was quicker.
            Err(BufferError::Removed(identity)) => return Err(BufferError::NotFound(identity)),
            other => other?,
        }
        let mut files = self.files.lock();
        self.bury(&mut files, file.state());
        Ok(())
    }

    /// Takes a removed file out of the names, and removes it at home. If that fails it is tried again before its name
    /// is used.
    fn bury(&self, files: &mut Files, file: &Arc<FileState>) {
        if !files.names.get(&file.identity).is_some_and(|named| Arc::ptr_eq(named, file)) {
            return;
        }
        files.names.remove(&file.identity);
        // Nothing is being written to it.
        let _alone = file.order.write();
        let removed = self.home.remove(&file.identity).map_err(|e| self.failed(file, "remove", e));
        files.removed.push((file.clone(), removed.is_ok()));
    }

    /// Makes removals durable at home, and releases the slots.
    pub(crate) fn settle_removed(&self, files: &mut Files) -> Result<()> {
        let Some((first, _)) = files.removed.first().cloned() else { return Ok(()) };
        for (file, is_home) in files.removed.iter_mut().filter(|(_, is_home)| !is_home) {
            self.home.remove(&file.identity).map_err(fail("remove", &file.identity))?;
            *is_home = true;
        }
        self.home.sync_names().map_err(fail("sync the names of", &first.identity))?;
        while let Some((file, _)) = files.removed.last().cloned() {
            self.release(files, &file)?;
            files.removed.pop();
        }
        Ok(())
    }
}

fn fail(what: &'static str, identity: &Identity) -> impl FnOnce(std::io::Error) -> BufferError {
    let identity = identity.clone();
    move |e| HomeError::new(what, &identity, e).into()
}
