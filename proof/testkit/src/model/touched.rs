//! What calls were done to: for whoever promises something of one file.

use super::{Id, Model, Tree};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl Tree {
    /// Those that were changed in themselves, made or removed.
    pub(super) fn changed_since(&self, before: &Self) -> BTreeSet<Id> {
        let ids: BTreeSet<Id> = self.inodes.keys().chain(before.inodes.keys()).copied().collect();
        let differs = |id: &Id| match (self.inodes.get(id), before.inodes.get(id)) {
            (Some(now), Some(then)) => !Arc::ptr_eq(now, then) && now != then,
            _ => true,
        };
        ids.into_iter().filter(differs).collect()
    }
}

impl Model {
    /// The inodes that calls have changed which led here from `before`: in themselves, or by giving them a name or
    /// taking one. Those whose path has become another because a directory above was moved are not among them.
    pub fn touched_since(&self, before: &Self) -> BTreeSet<Id> {
        let changed = self.tree.changed_since(&before.tree);
        let mut touched = changed.clone();
        for id in changed {
            let names = |model: &Self| -> BTreeMap<String, Id> {
                let is_there = model.tree.inodes.contains_key(&id);
                is_there.then(|| model.tree.entries(id)).flatten().cloned().unwrap_or_default()
            };
            let (now, then) = (names(self), names(before));
            let only_in = |one: &BTreeMap<String, Id>, other: &BTreeMap<String, Id>| -> Vec<Id> {
                one.iter().filter(|(name, named)| other.get(*name) != Some(*named)).map(|(_, named)| *named).collect()
            };
            touched.extend(only_in(&now, &then).into_iter().chain(only_in(&then, &now)));
        }
        touched
    }
}

#[cfg(test)]
mod tests {
    use crate::model::Model;
    use crate::op::{Path, text};

    /// The paths, after `then`, of what it was done to.
    fn touched(before: &str, then: &str) -> Vec<&'static str> {
        let mut model = Model::empty();
        let mut go = |lines| {
            text::parse(lines).unwrap().iter().for_each(|op| assert!(model.apply(op).is_ok(), "{op}"));
            model.clone()
        };
        let (old, new) = (go(before), go(then));
        let all = new.touched_since(&old);
        let named = |path: &&&str| new.id_of(&Path::new(path).unwrap()).is_some_and(|id| all.contains(&id));
        ["/", "/a", "/b", "/d", "/d/a", "/e", "/e/a"].iter().filter(named).copied().collect()
    }

    #[test]
    fn contents_attributes_and_names_count_and_paths_do_not() {
        const TREE: &str = "create /a 0644\nmkdir /d 0755\ncreate /d/a 0644";
        assert_eq!(touched(TREE, "write /a 0 10 #1"), ["/a"]);
        assert_eq!(touched(TREE, "setxattr /d user.x 10 #1"), ["/d"]);
        assert_eq!(touched(TREE, "link /a /b"), ["/", "/a", "/b"]);
        assert_eq!(touched(TREE, "rename /a /b"), ["/", "/b"]);
        assert_eq!(touched(TREE, "rename /a /d/a"), ["/", "/d", "/d/a"]);
        assert_eq!(touched(TREE, "unlink /d/a"), ["/d"]);
        assert_eq!(touched(TREE, "rename-exchange /a /d/a"), ["/", "/a", "/d", "/d/a"]);
        assert_eq!(touched(TREE, "mkdir /e 0755\ncreate /e/a 0644"), ["/", "/e", "/e/a"]);
        assert_eq!(touched(TREE, "rename /d /e"), ["/", "/e"]);
        assert_eq!(touched(TREE, "fsync /a\nsync"), [""; 0]);
    }
}
