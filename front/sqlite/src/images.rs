//! The volumes that this process has open: one for each image, as long as a file in it is.

use crate::codes::IOERR;
use crate::ffi;
use crate::locks::Locks;
use crate::name::Name;
use crate::shm::Shm;
use ondol::inodes::Inodes;
use ondol::{Ino, Options, Volume};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Weak};

/// Mount options of the volumes, as words.
const OPTIONS: &str = "ONDOL_OPTIONS";

/// What the connections to one database share.
#[derive(Default)]
pub(crate) struct Node {
    pub(crate) locks: Mutex<Locks>,
    pub(crate) shm: Mutex<Shm>,
}

/// An open image.
pub(crate) struct Image {
    volume: Volume,
    nodes: Mutex<HashMap<Ino, Weak<Node>>>,
}

/// Who uses an image. The last one closes it.
pub(crate) struct Used {
    /// Not there any more only while this is dropped.
    image: Option<Arc<Image>>,
}

struct Entry {
    name: String,
    image: Arc<Image>,
    users: usize,
}

/// All of them. Opening and closing hold it: an image that is being closed cannot be opened.
static IMAGES: Mutex<Vec<Entry>> = Mutex::new(Vec::new());

/// Whether an image is open.
pub(crate) fn is_open(name: &str) -> bool {
    IMAGES.lock().iter().any(|entry| entry.name == name)
}

impl Used {
    /// Opens the image of a file, or joins those who have it open.
    ///
    /// # Errors
    /// As [`Volume::open`].
    pub(crate) fn of(name: &Name) -> ondol::Result<Self> {
        let mut images = IMAGES.lock();
        if let Some(entry) = images.iter_mut().find(|entry| entry.name == name.image) {
            entry.users += 1;
            return Ok(Self { image: Some(entry.image.clone()) });
        }
        let image = Arc::new(Image { volume: open(&name.image)?, nodes: Mutex::default() });
        images.push(Entry { name: name.image.clone(), image: image.clone(), users: 1 });
        Ok(Self { image: Some(image) })
    }

    /// What does not keep it open.
    pub(crate) fn weak(&self) -> Weak<Image> {
        self.image.as_ref().map(Arc::downgrade).unwrap_or_default()
    }
}

/// Opens a volume; one that cannot be written to is opened to be read.
fn open(image: &str) -> ondol::Result<Volume> {
    let words = std::env::var(OPTIONS).unwrap_or_default();
    let opened = Volume::open_with(image, &Options::parse(&words)?);
    const EACCES: i32 = 13;
    const EROFS: i32 = 30;
    match opened {
        Err(e) if [EACCES, EROFS].contains(&e.errno()) => {
            Volume::open_with(image, &Options::parse(&format!("{words},ro"))?).map_err(|_| e)
        }
        opened => opened,
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        let mut images = IMAGES.lock();
        let Some(image) = self.image.take() else { return };
        let Some(at) = images.iter().position(|entry| Arc::ptr_eq(&entry.image, &image)) else { return };
        images[at].users -= 1;
        if images[at].users > 0 {
            return;
        }
        drop(images.swap_remove(at));
        if let Some(Err(e)) = Arc::into_inner(image).map(|image| image.volume.close()) {
            ffi::log(IOERR, &format!("closing a volume: {e}"));
        }
    }
}

impl Deref for Used {
    type Target = Image;

    fn deref(&self) -> &Image {
        self.image.as_ref().expect("an image that is used")
    }
}

impl Image {
    pub(crate) fn volume(&self) -> &Volume {
        &self.volume
    }

    pub(crate) fn inodes(&self) -> &Inodes {
        self.volume.inodes()
    }

    /// What the connections to this file share.
    pub(crate) fn node(&self, ino: Ino) -> Arc<Node> {
        let mut nodes = self.nodes.lock();
        nodes.retain(|_, node| node.strong_count() > 0);
        if let Some(node) = nodes.get(&ino).and_then(Weak::upgrade) {
            return node;
        }
        let node = Arc::new(Node::default());
        nodes.insert(ino, Arc::downgrade(&node));
        node
    }
}
