//! `cargo xtask picture`: the picture in the README, drawn anew by the test that compares it.

/// Draws what the session in `docs/session.sh` prints.
pub(crate) fn run() -> Result<(), String> {
    let metadata = crate::metadata()?;
    let drawn = metadata.target_directory.join("session.svg");
    let mut test = std::process::Command::new(env!("CARGO"));
    test.args(crate::TEST).args(["--test", "program", "the_picture_"]);
    crate::run(test.env("ONDOL_PICTURE", &drawn))?;
    // A test that was skipped draws nothing.
    let kept = metadata.workspace_root.join("docs/session.svg");
    std::fs::rename(&drawn, kept).map_err(|e| format!("nothing was drawn; it takes root, FUSE and e2fsck: {e}"))
}
