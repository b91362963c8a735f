//! Which directories lie above others: a directory must not come to lie below itself.

use crate::dir::Dir;
use crate::{Error, Ino, Namespace, ROOT, Result};
use ondol_env::sync::atomic::Ordering::SeqCst;
use ondol_journal::NumberHash;
use std::collections::HashSet;

/// The directories above the source and the target of a rename, with the directories of the two names themselves: all
/// up to the lowest one that contains both, and the root. Whatever lies between a directory and another one's entry is
/// among them. Empty within one directory.
#[derive(Debug, Default)]
pub(crate) struct Circle {
    pub(crate) above_source: HashSet<Ino, NumberHash>,
    pub(crate) above_target: HashSet<Ino, NumberHash>,
}

/// Goes up from two directories in turn until the ways meet. Where they lie together that takes two steps, however
/// deep.
///
/// # Errors
/// Corruption where a way never ends, and what `parent` fails with.
pub(super) fn meet(source: Ino, target: Ino, mut parent: impl FnMut(Ino) -> Result<Ino>) -> Result<Circle> {
    let Circle { above_source: mut own, above_target: mut other } = Circle::default();
    own.insert(source);
    other.insert(target);
    let (mut at, mut other_at, mut swapped) = (source, target, false);
    loop {
        if at != ROOT {
            at = parent(at)?;
            if !own.insert(at) {
                return Err(Error::corrupt(format!("directory {at}"), 0, "it lies below itself"));
            }
            if other.contains(&at) {
                break;
            }
        }
        (own, other) = (other, own);
        (at, other_at) = (other_at, at);
        swapped = !swapped;
    }
    if swapped {
        (own, other) = (other, own);
    }
    let mut circle = Circle { above_source: own, above_target: other };
    circle.above_source.insert(ROOT);
    circle.above_target.insert(ROOT);
    Ok(circle)
}

impl Namespace<'_> {
    /// The directory that contains a directory, remembered since the last look.
    pub(super) fn parent_of(self, ino: Ino) -> Result<Ino> {
        let node = self.vol.node(ino)?;
        match node.parent.load(SeqCst) {
            0 => {}
            known => return Ok(known),
        }
        // Who moves it has it locked until it has moved.
        let state = node.read()?;
        let parent = Dir::new(self.vol, ino, &state.inode)?.parent(&mut &*self.vol)?.0;
        node.parent.store(parent, SeqCst);
        Ok(parent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// How many steps it takes in a tree that has the parent of directory `ROOT + 1 + n` at `n`.
    fn met(tree: &[Ino], source: Ino, target: Ino) -> (usize, Circle) {
        let mut steps = 0;
        let circle = meet(source, target, |ino| {
            steps += 1;
            Ok(tree[(ino - ROOT - 1) as usize])
        });
        (steps, circle.unwrap())
    }

    fn chain(len: u32) -> Vec<Ino> {
        (ROOT..ROOT + len).collect()
    }

    #[test]
    fn depth_does_not_matter_to_neighbours() {
        let mut tree = chain(30_000);
        let bottom = ROOT + 30_000;
        tree.extend([bottom, bottom]);
        assert_eq!(met(&tree, bottom + 1, bottom + 2).0, 2);
        // A directory and the one that contains it, either way.
        assert_eq!(met(&tree, bottom + 1, bottom).0, 1);
        assert_eq!(met(&tree, bottom, bottom + 1).0, 2);
        // The whole way is gone once, not twice.
        let (steps, circle) = met(&tree, ROOT, bottom);
        assert_eq!(steps, 30_000);
        assert!(circle.above_target.contains(&(ROOT + 1)) && !circle.above_source.contains(&(ROOT + 1)));
    }

    #[test]
    fn a_way_without_an_end_is_damage() {
        for tree in [[4, 3, 2], [3, 2, 2], [4, 2, 5]] {
            let way = |ino: Ino| Ok(tree[(ino - ROOT - 1) as usize]);
            assert!(matches!(meet(3, 5, way), Err(Error::Corrupt(_))), "{tree:?}");
        }
    }

    fn all_above(tree: &[Ino], mut at: Ino) -> HashSet<Ino> {
        let mut above = HashSet::from([at]);
        while at != ROOT {
            at = tree[(at - ROOT - 1) as usize];
            above.insert(at);
        }
        above
    }

    proptest! {
        #[test]
        fn what_matters_is_among_them(
            parents in prop::collection::vec(any::<prop::sample::Index>(), 2..40),
            ends in any::<[prop::sample::Index; 2]>(),
        ) {
            let tree: Vec<Ino> = parents.iter().enumerate().map(|(n, i)| ROOT + i.index(n + 1) as Ino).collect();
            let [source, target] = ends.map(|i| ROOT + i.index(tree.len() + 1) as Ino);
            prop_assume!(source != target);
            let (_, circle) = met(&tree, source, target);
            let (above_source, above_target) = (all_above(&tree, source), all_above(&tree, target));
            prop_assert!(circle.above_source.iter().all(|ino| above_source.contains(ino)));
            prop_assert!(circle.above_target.iter().all(|ino| above_target.contains(ino)));
            for (n, &parent) in tree.iter().enumerate() {
                let ino = ROOT + 1 + n as Ino;
                if parent == source {
                    prop_assert_eq!(circle.above_target.contains(&ino), above_target.contains(&ino));
                }
                if parent == target {
                    prop_assert_eq!(circle.above_source.contains(&ino), above_source.contains(&ino));
                }
            }
        }
    }
}
