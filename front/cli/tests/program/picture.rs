//! The README's picture: a session of the shell, drawn from what is printed now. `cargo xtask picture` draws it anew.

use crate::namespace::{roots_place, run};
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// What is typed. It lies beside the picture.
const SESSION: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/session.sh");

/// Names a file that the picture is drawn to, and not compared with.
const DRAWN: &str = "ONDOL_PICTURE";

/// Pixels: from line to line, more before a comment, around all, and a character's width in the widest fonts.
const LINE: usize = 20;
const GAP: usize = 10;
const EDGE: usize = 18;
const CHARACTER: f64 = 8.5;

const TITLE: &str = "A terminal session with Ondol";
const SVG: &str = r#"xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc""#;
const DESCRIPTION: &str = "A volume is made and mounted, a file is written and synced, and the server is killed. \
    After the next mount the file is there, and e2fsck finds no error.";

#[test]
fn the_picture_shows_what_a_session_prints() {
    if ondol_skips::skips(ondol_skips::missing(&["e2fsck"])) {
        return;
    }
    let Some(place) = roots_place() else { return };
    // The shell prints each line as it reads it. The session's last command is clean or fails.
    let script = format!(
        r#"
mkdir "$D/bin" "$D/session"; ln -s "$D/ondol" "$D/bin/ondol"; cd "$D/session"
PATH=$D/bin:$PATH LC_ALL=C sh -v '{SESSION}' > "$D/printed" 2>&1 || {{ cat "$D/printed"; exit 1; }}
"#
    );
    run(&place, &script);
    let printed = fs::read_to_string(place.mount_point().with_file_name("printed")).unwrap();
    let drawn = draw(&fs::read_to_string(SESSION).unwrap(), &printed);
    if let Some(path) = std::env::var_os(DRAWN) {
        return fs::write(path, drawn).unwrap();
    }
    let kept = fs::read_to_string(Path::new(SESSION).with_extension("svg")).unwrap();
    assert_eq!(kept, drawn, "`cargo xtask picture` draws it anew");
}

/// The picture of what a shell printed that was given a session.
fn draw(session: &str, printed: &str) -> String {
    let mut typed = session.lines().peekable();
    let (mut text, mut y, mut columns) = (String::new(), EDGE, 0);
    for line in printed.lines() {
        let is_typed = typed.next_if_eq(&line).is_some();
        let is_comment = is_typed && line.starts_with('#');
        y += LINE + if is_comment && y > EDGE { GAP } else { 0 };
        let (prompt, colour) = match (is_typed, is_comment) {
            (true, false) => (r##"<tspan fill="#7ee787">$ </tspan>"##, "#f0f6fc"),
            (true, true) => ("", "#9198a1"),
            _ => ("", "#79c0ff"),
        };
        columns = columns.max(line.chars().count() + if prompt.is_empty() { 0 } else { 2 });
        let baseline = y - LINE / 4;
        writeln!(text, r#"<text x="{EDGE}" y="{baseline}" fill="{colour}">{prompt}{}</text>"#, escaped(line)).unwrap();
    }
    assert_eq!(typed.next(), None, "the shell did not come to it: {printed}");
    let (width, height) = ((columns as f64 * CHARACTER) as usize + 2 * EDGE, y + EDGE);
    let fonts = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', 'Liberation Mono', monospace";
    format!(
        r##"<svg {SVG} viewBox="0 0 {width} {height}" width="{width}" height="{height}">
<title id="title">{TITLE}</title>
<desc id="desc">{DESCRIPTION}</desc>
<rect x="0.5" y="0.5" width="{}" height="{}" rx="8" fill="#151b23" stroke="#656c76"/>
<g font-family="{fonts}" font-size="14" xml:space="preserve">
{text}</g>
</svg>
"##,
        width - 1,
        height - 1
    )
}

fn escaped(line: &str) -> String {
    line.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}
