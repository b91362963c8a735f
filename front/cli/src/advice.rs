//! The library says what is wrong and which step helps; here is how the step is done with this program.

use ondol::{Error, Remedy};

/// What is wrong, and the command that helps.
pub(crate) fn said(e: &Error) -> String {
    match e.remedy().as_ref().and_then(advice) {
        Some(advice) => format!("{e}; {advice}"),
        None => e.to_string(),
    }
}

fn advice(remedy: &Remedy) -> Option<String> {
    let or = |name: &Option<String>, word: &str| name.as_deref().unwrap_or(word).to_owned();
    Some(match remedy {
        Remedy::Size => "--size SIZE says it".into(),
        Remedy::Recover { image: Some(image) } => format!("`ondol recover {image}` brings home what is left"),
        Remedy::Recover { image: None } => "unmount, then run `ondol recover`".into(),
        Remedy::LongerJournal { image } => format!("`ondol tune --journal-size SIZE {image}` gives it a longer one"),
        Remedy::RecoverWithPool { pool: Some(pool) } => {
            format!("`ondol recover --nvm {pool} IMAGE` brings home what is left")
        }
        Remedy::RecoverWithPool { pool: None } => "unmount, then run `ondol recover --nvm POOL IMAGE`".into(),
        Remedy::MakePool { pool } => format!("`ondol pool create {}` makes one", or(pool, "POOL")),
        Remedy::RemakePool { pool } => format!("`ondol pool create -F {pool}` makes it anew, and says what is lost"),
        Remedy::MakeInPool { pool: None } => "`ondol mkfs nvm:POOL` makes one".into(),
        Remedy::MakeInPool { pool: Some(pool) } => {
            format!("`ondol mkfs nvm:{pool}` makes one, `ondol import IMAGE nvm:{pool}` brings one")
        }
        Remedy::MoveToNewPool => "`ondol export` and `ondol import` move it".into(),
        Remedy::Run { pool } => format!("`ondol run --buffer {pool}` makes it"),
        Remedy::TakeOver { .. } => {
            "--take-over, of `ondol mount` and `ondol recover`, takes it from there: what was not synced there is lost"
                .into()
        }
        Remedy::MakeInBucket => {
            "`ondol mkfs --size SIZE TARGET` makes one, `ondol import IMAGE TARGET` brings one".into()
        }
        Remedy::LocalLog { log } => {
            format!(
                "name it (`-o durable=local,redo=FILE`, or `nvm=POOL`), or lose what is in it alone: `-o give_up={log}`"
            )
        }
        Remedy::OtherBuild => {
            "the packages have it; `cargo build --release -p ondol-cli --features object` builds it".into()
        }
        Remedy::RunElsewhere => "--buffer POOL names another one".into(),
        Remedy::RecoverRun { pool } => format!("`ondol recover {pool}`, or --buffer POOL"),
        // Which option forces it, and what then happens, the command says.
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_followed_by_the_command_that_helps() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        std::fs::write(&file, [1; 1 << 16]).expect("a file");
        let name = file.display();
        let e = ondol::pool::info(&file).expect_err("no pool");
        assert_eq!(said(&e), format!("{e}; `ondol pool create {name}` makes one"));
        assert!(!e.to_string().contains("ondol pool"), "{e}");
        let e = ondol::Volume::open(dir.path().join("absent")).expect_err("nothing");
        assert_eq!(said(&e), e.to_string());
    }
}
