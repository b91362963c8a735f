use super::*;

fn place(target: &str) -> Place {
    Place::parse(target).unwrap().unwrap()
}

fn fault(target: &str) -> PlaceError {
    Place::parse(target).unwrap().unwrap_err()
}

#[test]
fn places_are_told_from_files() {
    for file in ["image.ext4", "/dev/sda", "nvm:pool", "./s3://bucket/x", "s3:bucket", "http://bucket/x"] {
        assert!(Place::parse(file).is_none() && !Place::is_named(file), "{file}");
    }
    assert!(Place::is_named("s3://") && Place::is_named("file://x"));
}

#[test]
fn a_place_has_kind_root_prefix_and_perhaps_a_snapshot() {
    let found = place("s3://bucket/a/b?snapshot=monday");
    assert_eq!((found.kind(), &*found.root, found.prefix.as_ref()), (Kind::S3, "bucket", "a/b"));
    assert_eq!((found.snapshot(), found.directory()), (Some("monday"), None));
    assert_eq!(place("gs://bucket/a").kind(), Kind::Gcs);
    assert_eq!(place("az://container/a/").prefix.as_ref(), "a");
    let found = place("file:///srv/vol");
    assert_eq!((found.directory(), found.prefix.as_ref()), (Some(PathBuf::from("/srv/vol")), ""));
    assert_eq!(place("file:///srv/a@b").directory(), Some(PathBuf::from("/srv/a@b")));
}

#[test]
fn what_is_no_place_says_why() {
    let no_prefix = ["s3://bucket", "s3://bucket/", "gs://bucket", "az://container"];
    assert!(no_prefix.iter().all(|target| matches!(fault(target), PlaceError::NoPrefix { .. })));
    for target in ["s3://", "s3:///a", "gs:///", "file:///"] {
        assert!(matches!(fault(target), PlaceError::NoRoot { .. }), "{target}");
    }
    assert!(matches!(fault("file://srv/vol"), PlaceError::Relative { .. }));
    assert!(matches!(fault("s3://bucket/a//b"), PlaceError::Prefix { .. }));
    assert!(matches!(fault("s3://bucket/a/../b"), PlaceError::Prefix { .. }));
    for target in
        ["s3://bucket/a?snapshot=", "s3://bucket/a?X-Amz-Signature=hidden", "s3://bucket/a?hidden", "s3://bucket/a?"]
    {
        let e = fault(target);
        assert!(matches!(e, PlaceError::Parameter { .. }), "{target}");
        assert!(!e.to_string().contains("hidden"), "{e}");
    }
    let secret = fault("s3://key:hidden@bucket/a");
    assert!(matches!(secret, PlaceError::Secret) && !secret.to_string().contains("hidden"));
}

#[test]
fn a_directory_is_made_only_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    let found = place(&format!("file://{}/a/b", dir.path().display()));
    assert!(matches!(found.bucket(false), Err(PlaceError::Directory { what: "open", .. })));
    assert_eq!(found.bucket(true).unwrap().name(), found.name());
    found.bucket(false).unwrap();
    std::fs::write(dir.path().join("file"), b"").unwrap();
    let file = place(&format!("file://{}/file", dir.path().display()));
    assert!(matches!(file.bucket(false), Err(PlaceError::Directory { what: "open", .. })));
}

#[test]
fn clouds_are_reached_without_asking_them() {
    for target in ["s3://bucket/a", "gs://bucket/a"] {
        // Whether the environment says enough or not: no panic, and no secret is shown.
        match place(target).bucket(false) {
            Ok(bucket) => assert_eq!(format!("{bucket:?}"), format!("Bucket {{ name: {target:?}, .. }}")),
            Err(e) => assert!(e.to_string().contains(target), "{e}"),
        }
    }
    // Azure needs the name of an account, which no place has.
    if std::env::var_os("AZURE_STORAGE_ACCOUNT_NAME").is_none() {
        assert!(matches!(place("az://c/a").bucket(false), Err(PlaceError::Environment { .. })));
    }
}
