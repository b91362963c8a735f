//! What is done to an NVM, as events of a power domain.

use ondol_env::sync::{Arc, Mutex};
use ondol_env::thread_number;
use ondol_power::{Event, PowerDomain};

/// Pushes the events of one medium.
#[derive(Debug)]
pub(crate) struct Recorder {
    domain: Arc<PowerDomain>,
    medium: u32,
    /// Held from a store to its event: events of one medium are in the order of its stores.
    order: Mutex<()>,
}

impl Recorder {
    pub(crate) fn new(domain: Arc<PowerDomain>, medium: u32) -> Self {
        Self { domain, medium, order: Mutex::new(()) }
    }

    /// Stores, and says what was stored where.
    pub(crate) fn store<T>(&self, store: impl FnOnce() -> (T, Option<(u64, Arc<[u8]>)>)) -> T {
        let _order = self.order.lock();
        let (answer, stored) = store();
        if let Some((offset, bytes)) = stored.filter(|(_, bytes)| !bytes.is_empty()) {
            self.domain.push(Event::Store { medium: self.medium, thread: thread_number(), offset, bytes });
        }
        answer
    }

    /// Loads `len` bytes at `offset`: nobody sees a store before its event is there.
    pub(crate) fn load<T>(&self, offset: u64, len: u64, load: impl FnOnce() -> T) -> T {
        let _order = self.order.lock();
        self.domain.note_read(self.medium, offset, len);
        load()
    }

    /// Copies whole lines past the caches: they are stored, and on their way.
    pub(crate) fn copy(&self, offset: u64, bytes: &[u8], copy: impl FnOnce()) {
        let _order = self.order.lock();
        copy();
        self.domain.push(Event::Store { medium: self.medium, thread: thread_number(), offset, bytes: bytes.into() });
        self.write_back(offset, bytes.len() as u64);
    }

    /// This thread begins to write back. Pushed before the instruction: what is stored in between is not claimed.
    pub(crate) fn write_back(&self, offset: u64, len: u64) {
        self.domain.push(Event::WriteBack { medium: self.medium, thread: thread_number(), offset, len });
    }

    /// This thread's fence is complete. Pushed after the instruction.
    pub(crate) fn fence(&self) {
        self.domain.push(Event::Fence { thread: thread_number() });
    }
}
