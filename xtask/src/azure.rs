//! `cargo xtask azure`: the program's tests of object storage on Azurite, Microsoft's emulator of its Blob Storage,
//! which runs on this machine.

use crate::s3::{BUCKET, Server, free_address, program};
use std::process::Command;

/// Words go on to the tests, as names of tests do.
pub(crate) fn run(words: &[String]) -> Result<(), String> {
    let how = "`npm install azurite` brings it, and ONDOL_AZURE_SERVER names it";
    let server = program("azurite-blob", "ONDOL_AZURE_SERVER", how)?;
    let address = free_address()?;
    let (_, port) = address.rsplit_once(':').ok_or("an address has a port")?;
    let mut command = Command::new(&server);
    command.args(["--blobPort", port, "--silent", "--disableTelemetry", "--skipApiVersionCheck", "--location"]);
    let _server = Server::start(command, "azure", &[], &address)?;
    crate::run(Command::new("node").args(["-e", include_str!("container.js"), port, BUCKET]))?;
    let mut tests = crate::tests_in_tree()?;
    tests.args(["--test", "stack", "bucket", "--"]).args(words);
    tests.env("ONDOL_TEST_BUCKET", format!("az://{BUCKET}/tests"));
    tests.env("AZURE_STORAGE_USE_EMULATOR", "true").env("AZURITE_BLOB_STORAGE_URL", format!("http://{address}"));
    crate::run(&mut tests)
}
