//! Source text: functions of a C-like language in files with a vocabulary of their own.

use super::words::Words;
use crate::rng::Rng;

/// Bytes in a file, about.
const FILE: usize = 12 << 10;
/// Identifiers in a file.
const NAMES: usize = 40;
/// Words in comments and messages.
const PROSE: usize = 600;

/// Appends until there are `len` bytes.
pub(super) fn fill(out: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    let all = Words::new(rng, 6000, 4);
    let prose = Words::new(rng, PROSE, 4);
    while out.len() < len {
        let names: Vec<String> = (0..NAMES).map(|_| format!("{}_{}", all.any(rng), all.any(rng))).collect();
        let end = (out.len() + FILE).min(len);
        while out.len() < end {
            let text = function(&names, &prose, rng);
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn function(names: &[String], prose: &Words, rng: &mut Rng) -> String {
    let mut text = String::from("/*\n");
    for _ in 0..1 + rng.below(3) {
        text += " * ";
        text += &sentence(prose, rng);
        text += "\n";
    }
    text += &format!(
        " */\nstatic int {}(struct {} *{}, unsigned int {})\n{{\n",
        name(names, rng),
        name(names, rng),
        name(names, rng),
        name(names, rng)
    );
    for _ in 0..4 + rng.below(16) {
        let statement = statement(names, prose, rng);
        text += &statement;
    }
    text + "\treturn 0;\n}\n\n"
}

fn statement(names: &[String], prose: &Words, rng: &mut Rng) -> String {
    let kind = rng.below(9);
    let (a, b, c) = (name(names, rng), name(names, rng), name(names, rng));
    let number = rng.below(4096);
    match kind {
        0 => format!("\tif ({a}->{b} == NULL || {c} < {number})\n\t\treturn -EINVAL;\n"),
        1 => format!("\t{a} = {b}({c}, {number});\n"),
        2 => format!("\tfor (i = 0; i < {a}; i++)\n\t\t{b}[i] = {c}->{a}[i];\n"),
        3 => format!("\tpr_debug(\"{}: %d\\n\", {a});\n", sentence(prose, rng)),
        4 => format!("\t/* {} */\n", sentence(prose, rng)),
        5 => format!("\tstruct {a} *{b} = {c};\n"),
        6 => format!("\t{a}->{b} |= 0x{:x};\n", rng.below(1 << 20)),
        7 => format!("\twhile (!{a}({b})) {{\n\t\t{c} += {number};\n\t}}\n"),
        _ => format!("\tmutex_lock(&{a}->lock);\n\t{b} = {c};\n\tmutex_unlock(&{a}->lock);\n"),
    }
}

/// Names near the beginning come more often.
fn name<'a>(names: &'a [String], rng: &mut Rng) -> &'a str {
    let x = rng.unit();
    names.get((x * x * x * names.len() as f64) as usize).map_or("x", String::as_str)
}

fn sentence(prose: &Words, rng: &mut Rng) -> String {
    let words: Vec<&str> = (0..5 + rng.below(7)).map(|_| prose.pick(rng, PROSE)).collect();
    words.join(" ")
}
