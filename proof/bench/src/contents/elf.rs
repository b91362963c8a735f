//! Programs: machine code, read-only strings, relocations and symbol tables, in parts as the linker lays them out.

use super::words::Words;
use crate::rng::Rng;

/// Bytes of a part, about.
const PART: usize = 48 << 10;

/// Beginnings of instructions of x86-64, the frequent ones first.
const CODE: [&[u8]; 28] = [
    &[0x48, 0x89],
    &[0x48, 0x8b],
    &[0xe8],
    &[0x0f, 0x84],
    &[0x48, 0x8d],
    &[0x89],
    &[0x8b],
    &[0x48, 0x83, 0xc4],
    &[0xc3],
    &[0x48, 0x85, 0xc0],
    &[0x0f, 0x85],
    &[0x31, 0xc0],
    &[0xeb],
    &[0x4c, 0x89],
    &[0x55, 0x48, 0x89, 0xe5],
    &[0x41, 0x57, 0x41, 0x56],
    &[0x5b, 0x5d, 0xc3],
    &[0xf3, 0x0f, 0x10],
    &[0x66, 0x0f, 0x6f],
    &[0x4c, 0x8b],
    &[0x48, 0xc7, 0x44, 0x24],
    &[0x83, 0xf8],
    &[0x48, 0x39],
    &[0x45, 0x31],
    &[0xff, 0x15],
    &[0x49, 0x8b],
    &[0x0f, 0xb6],
    &[0x0f, 0x11, 0x44, 0x24],
];

/// Appends until there are `len` bytes.
pub(super) fn fill(out: &mut Vec<u8>, len: usize, rng: &mut Rng) {
    let words = Words::new(rng, 3000, 4);
    while out.len() < len {
        let end = out.len() + PART / 2 + rng.below(PART as u64) as usize;
        match rng.below(10) {
            0..6 => code(out, end, rng),
            6..8 => strings(out, end, &words, rng),
            8 => relocations(out, end, rng),
            _ => symbols(out, end, rng),
        }
    }
}

fn code(out: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    while out.len() < end {
        // Compilers repeat themselves: sequences of a few instructions come again with other operands.
        if out.len() > 4096 && rng.below(5) < 2 {
            let back = 16 + rng.below(4000) as usize;
            let from = out.len() - back;
            let upto = from + (6 + rng.below(18) as usize).min(back);
            out.extend_from_within(from..upto);
            continue;
        }
        let x = rng.unit();
        let opcode = CODE.get((x * x * CODE.len() as f64) as usize).copied().unwrap_or(&[0x90]);
        out.extend_from_slice(opcode);
        match opcode {
            [0xe8] | [0x0f, 0x84 | 0x85] | [0xff, 0x15] => {
                let target = rng.below(1 << 17) as i32 - (1 << 16);
                out.extend_from_slice(&target.to_le_bytes());
            }
            [0x48 | 0x49 | 0x4c, 0x8b | 0x89] => out.extend_from_slice(&[0x44, 0x24, 8 * rng.below(16) as u8]),
            [0xc3] => out.resize(out.len().next_multiple_of(16), 0xcc),
            _ => out.push(rng.below(200) as u8),
        }
    }
}

fn strings(out: &mut Vec<u8>, end: usize, words: &Words, rng: &mut Rng) {
    while out.len() < end {
        let (module, kind, name) = (words.pick(rng, 60), words.pick(rng, 600), words.any(rng));
        let (a, b, c) = (module.len(), kind.len(), name.len());
        let hash = rng.next();
        let text = format!("_ZN4core{a}{module}{b}{kind}{c}{name}17h{hash:016x}E\0");
        out.extend_from_slice(text.as_bytes());
    }
}

/// Elf64_Rela: offset, type, addend.
fn relocations(out: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    let mut offset = 0x003a_0000_u64;
    while out.len() < end {
        offset += 8 * (1 + rng.below(3));
        out.extend_from_slice(&offset.to_le_bytes());
        out.extend_from_slice(&8u64.to_le_bytes());
        out.extend_from_slice(&(0x1000 + rng.below(1 << 21)).to_le_bytes());
    }
}

/// Elf64_Sym: name, info, other, section, value, size.
fn symbols(out: &mut Vec<u8>, end: usize, rng: &mut Rng) {
    let (mut name, mut value) = (1u32, 0x0004_0000_u64);
    while out.len() < end {
        let size = 16 * (1 + rng.below(40));
        out.extend_from_slice(&name.to_le_bytes());
        out.extend_from_slice(&[0x12, 0, 15, 0]);
        out.extend_from_slice(&value.to_le_bytes());
        out.extend_from_slice(&size.to_le_bytes());
        name += 20 + rng.below(60) as u32;
        value += size;
    }
}
