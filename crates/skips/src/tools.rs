//! Programs of others, where a user's `PATH` may lack the directories of administrators.

use std::path::PathBuf;

/// Where `program` lies: on the path, or where administrators' programs are.
pub fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|p| p.exists());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    std::env::split_paths(&path).chain(more).map(|dir| dir.join(program)).find(|p| p.is_file())
}

/// Why a test that needs these programs cannot run, if one of them is missing.
pub fn missing(programs: &[&str]) -> Option<String> {
    let absent = programs.iter().find(|program| find(program).is_none())?;
    Some(format!("{absent} is not installed"))
}
