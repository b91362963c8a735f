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

/// The program `ondol`: what the variable `ONDOL` names, else the one beside this program (or a directory above, where
/// cargo has its programs beside `deps/`), else the one on the path.
pub fn ondol() -> PathBuf {
    let told = std::env::var_os("ONDOL").map(PathBuf::from);
    let here = std::env::current_exe().unwrap_or_default();
    let beside = || here.ancestors().skip(1).take(2).map(|dir| dir.join("ondol")).find(|path| path.is_file());
    told.or_else(beside).or_else(|| find("ondol")).unwrap_or_else(|| PathBuf::from("ondol"))
}
