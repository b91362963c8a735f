//! What a build without object storage says of volumes there.

use crate::place::{fails, ondol};

/// The target may have a password in it.
#[test]
fn a_build_without_object_storage_says_which_build_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let said = "ondol: this build opens no volumes in object storage: it was built without the feature `object`; the \
                packages have it; `cargo build --release -p ondol-cli --features object` builds it\n";
    for (call, code) in [
        ("mkfs --size 64M s3://user:word@bucket/x", 1),
        ("mkfs file:///nowhere/x", 1),
        ("mount gs://user:word@bucket/x .", 32),
        ("mount --create 1G file:///nowhere/x .", 32),
        ("check az://user:word@bucket/x", 8),
        ("check -n az://user:word@bucket/x", 8),
        ("info s3://bucket/x?snapshot=one", 1),
        ("ls s3://user:word@bucket/x", 2),
        ("export s3://user:word@bucket/x copy.img", 1),
        ("import . s3://user:word@bucket/x", 1),
        ("recover --take-over s3://user:word@bucket/x", 1),
        ("recover s3://user:word@bucket/x", 1),
        ("resize s3://user:word@bucket/x 1G", 1),
        ("clone s3://user:word@bucket/x s3://bucket/y", 1),
        ("delete --yes s3://user:word@bucket/x", 1),
        ("snapshot list s3://user:word@bucket/x", 1),
        ("snapshot create s3://user:word@bucket/x one", 1),
    ] {
        let got = fails(ondol().args(call.split(' ')).current_dir(dir.path()), code);
        assert_eq!(got, said, "ondol {call}");
    }
}
