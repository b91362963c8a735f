//! `ondol cat`.

use super::args;
use super::open::{For, Opened, Troubles, inside};
use super::out::Out;
use crate::failure::{FAILED, Outcome};
use std::io::{self, Read};
use std::path::Path;

/// Bytes that are read at once.
const PIECE: usize = 1 << 20;

/// Writes files to standard output.
pub(crate) fn cat(args: &args::Cat) -> Outcome {
    let opened = Opened::new(&args.image, For::Reading)?;
    let (mut out, mut troubles, mut buffer) = (Out::new(), Troubles::default(), vec![0; PIECE]);
    for path in &args.paths {
        let done = match path.to_str() {
            Some("-") => {
                all_of(&mut io::stdin().lock(), &mut out, &mut buffer).map_err(|e| format!("standard input: {e}"))
            }
            _ => file(&opened, &inside(path), &mut out, &mut buffer),
        };
        if let Err(what) = done {
            out.flush();
            troubles.tell(FAILED, what);
        }
        if out.is_over() {
            break;
        }
    }
    out.end()?;
    opened.close()?;
    Ok(troubles.code())
}

fn file(opened: &Opened, path: &Path, out: &mut Out, buffer: &mut [u8]) -> Result<(), String> {
    let found = opened.volume.metadata(path).map_err(|e| opened.said(path, &e))?;
    if !found.is_file() {
        let what = if found.is_dir() { "it is a directory" } else { "it is no regular file" };
        return Err(format!("{}: {what}", opened.shown(path)));
    }
    let mut file = opened.volume.open_file(path).map_err(|e| opened.said(path, &e))?;
    all_of(&mut file, out, buffer).map_err(|e| opened.said_by_file(&e))
}

fn all_of(from: &mut dyn Read, out: &mut Out, buffer: &mut [u8]) -> io::Result<()> {
    loop {
        match from.read(buffer) {
            Ok(0) => return Ok(()),
            Ok(n) => out.bytes(&buffer[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
        if out.is_over() {
            return Ok(());
        }
    }
}
