//! Which requests were answered with an error, and with which.

use super::count::{Op, STRIPES, stripe};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Errors by kind of request and number, in tables that threads seldom share.
#[derive(Default)]
pub(super) struct Failed {
    stripes: [Stripe; STRIPES],
}

#[derive(Default)]
#[repr(align(128))]
struct Stripe(Mutex<BTreeMap<(usize, i32), u64>>);

impl Failed {
    pub(super) fn count(&self, op: Op, errno: i32) {
        if let Some(stripe) = self.stripes.get(stripe()) {
            *stripe.0.lock().entry((op as usize, errno)).or_default() += 1;
        }
    }

    /// Of each kind that failed how often, by the error's name.
    pub(super) fn read(&self) -> Value {
        let mut all: BTreeMap<(usize, i32), u64> = BTreeMap::new();
        for stripe in &self.stripes {
            stripe.0.lock().iter().for_each(|(what, n)| *all.entry(*what).or_default() += n);
        }
        let mut operations = Map::new();
        for ((kind, errno), n) in all {
            let name = Op::NAMES.get(kind).copied().unwrap_or_default();
            if let Some(errors) = operations.entry(name).or_insert_with(|| Map::new().into()).as_object_mut() {
                errors.insert(name_of(errno).into_owned(), n.into());
            }
        }
        operations.into()
    }
}

/// The name of an error as errno(3) has it, or its number.
fn name_of(errno: i32) -> Cow<'static, str> {
    use rustix::io::Errno;
    macro_rules! names {
        ($($name:ident),* $(,)?) => {
            match Errno::from_raw_os_error(errno) {
                $(Errno::$name => Cow::Borrowed(concat!("E", stringify!($name))),)*
                _ => Cow::Owned(errno.to_string()),
            }
        };
    }
    names! {
        PERM, NOENT, INTR, IO, NXIO, BADF, AGAIN, NOMEM, ACCESS, FAULT, BUSY, EXIST, XDEV, NODEV, NOTDIR, ISDIR, INVAL,
        NFILE, MFILE,
        NOTTY, TXTBSY, FBIG, NOSPC, SPIPE, ROFS, MLINK, RANGE, NAMETOOLONG, NOSYS, NOTEMPTY, LOOP, NODATA, OVERFLOW,
        OPNOTSUPP,
        UCLEAN, DQUOT, STALE, TIMEDOUT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_counted_by_request_and_name() {
        let failed = Failed::default();
        std::thread::scope(|s| (0..20).for_each(|_| drop(s.spawn(|| failed.count(Op::Write, 28)))));
        failed.count(Op::Getxattr, 61);
        failed.count(Op::Write, 9999);
        let expected = serde_json::json!({"getxattr": {"ENODATA": 1}, "write": {"ENOSPC": 20, "9999": 1}});
        assert_eq!(failed.read(), expected);
    }
}
