//! A state that breaks the contract, as files: a volume that the program opens.

use super::PREFIX;
use super::explore::{Loss, State};
use ondol_stores::unruly::Objects;
use std::io::Result;
use std::path::{Path, PathBuf};

/// The log, beside the directory with the objects.
const LOG: &str = "redo.log";

/// Keeps a state in a new directory, and says how to look at it.
pub(super) fn keep(state: &State) -> String {
    match write(state) {
        Ok(dir) => told(&dir, state),
        Err(e) => format!("a state of {}, which cannot be kept: {e}", state.told()),
    }
}

fn write(state: &State) -> Result<PathBuf> {
    let dir = tempfile::Builder::new().prefix("ondol-crash-").tempdir()?.keep();
    objects(&state.objects, &dir)?;
    if let Some(log) = &state.log {
        std::fs::write(dir.join(LOG), log.to_bytes())?;
    }
    Ok(dir)
}

fn objects(objects: &Objects, dir: &Path) -> Result<()> {
    for (name, bytes) in objects.iter() {
        let file = dir.join(name);
        std::fs::create_dir_all(file.parent().unwrap_or(dir))?;
        std::fs::write(file, bytes)?;
    }
    Ok(())
}

fn told(dir: &Path, state: &State) -> String {
    let (target, log) = (format!("file://{}", dir.join(PREFIX).display()), dir.join(LOG));
    let mut text = format!(
        "the state, {}, is kept in {}\nto look at it, as the store has it:\n  ondol check {target}\n  ondol export \
         {target} IMAGE\n",
        state.told(),
        dir.display()
    );
    match (&state.log, state.loss) {
        (Some(_), _) => {
            text += &format!(
                "with the log, taken over (which changes it):\n  ondol mount {target} DIR -o \
                 take_over,durable=local,redo={}\n",
                log.display()
            );
        }
        (None, Loss::Machine) => {
            text += &format!(
                "taken over without the log, whose UUID is told without give_up= (which changes it):\n  ondol mount \
                 {target} DIR -o take_over,give_up=UUID\n"
            );
        }
        (None, _) => {
            text += &format!("taken over (which changes it):\n  ondol mount {target} DIR -o take_over\n");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use ondol_power::Layer;

    #[test]
    fn a_kept_state_is_a_volume_that_the_program_opens() {
        let dir = tempfile::tempdir().unwrap();
        let target = format!("file://{}", dir.path().join(PREFIX).display());
        ondol::Volume::format(&target, &ondol::FormatOptions::new().size(16 << 20)).unwrap();
        let mut found = Vec::new();
        let mut folders = vec![dir.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    let name = path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
                    found.push((name, std::fs::read(&path).unwrap()));
                }
            }
        }
        let objects = found.into_iter().collect::<Objects>();
        let state = State { objects, log: Some(Layer::new(vec![7; 64])), loss: Loss::Power };
        let kept = write(&state).unwrap();
        let target = format!("file://{}", kept.join(PREFIX).display());
        assert!(ondol::check(&target).unwrap().is_clean());
        assert_eq!(std::fs::read(kept.join(LOG)).unwrap(), vec![7; 64]);
        std::fs::remove_dir_all(kept).unwrap();
    }

    #[test]
    fn whoever_looks_is_told_how() {
        let state = State { objects: Objects::default(), log: None, loss: Loss::Machine };
        let text = told(Path::new("/kept"), &state);
        assert!(text.contains("ondol export file:///kept/volume IMAGE") && text.contains("give_up=UUID"), "{text}");
        let state = State { log: Some(Layer::new(vec![0; 64])), loss: Loss::Power, ..state };
        let text = told(Path::new("/kept"), &state);
        assert!(text.contains("redo=/kept/redo.log"), "{text}");
    }
}
