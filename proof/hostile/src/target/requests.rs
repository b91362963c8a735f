//! FUSE requests that no kernel sends, served over a small volume.

use crate::guard::Guard;
use crate::image::{Kind, Seed, patched};
use crate::input::Input;
use ondol::{DataMode, Volume};
use ondol_block::BlockStore;
use ondol_env::sync::Arc;
use ondol_fuse::fuzzing::{Surface, is_request};
use ondol_testkit::image;

/// Most requests of an input.
const REQUESTS: usize = 40;
/// The volumes that are served.
const KINDS: [Kind; 7] =
    [Kind::Small, Kind::Csum, Kind::SmallPlain, Kind::Plain, Kind::Fast, Kind::Clusters, Kind::SmallMaps];
/// Bytes of the header of a request, and of an answer.
const HEADER: (usize, usize) = (40, 16);
/// The most that is asked for at once: a kernel asks for no more than INIT has agreed to.
const MOST: u64 = 1 << 20;

/// What follows the fixed part of a request.
#[derive(Clone, Copy)]
enum Tail {
    Nothing,
    Name,
    Names,
    /// A name and a value.
    Value,
    Data,
}

/// Opcode, 32-bit words of the fixed part, the rest.
const SHAPES: [(u32, usize, Tail); 45] = {
    use Tail::{Data, Name, Names, Nothing, Value};
    [
        (1, 0, Name),
        (1, 0, Name),
        (2, 2, Nothing),
        (3, 4, Nothing),
        (4, 22, Nothing),
        (5, 0, Nothing),
        (6, 0, Names),
        (8, 4, Name),
        (9, 2, Name),
        (10, 0, Name),
        (11, 0, Name),
        (12, 2, Names),
        (13, 2, Name),
        (14, 2, Nothing),
        (15, 10, Nothing),
        (16, 10, Data),
        (17, 0, Nothing),
        (18, 6, Nothing),
        (20, 4, Nothing),
        (21, 4, Value),
        (21, 2, Value),
        (22, 2, Name),
        (23, 2, Nothing),
        (24, 0, Name),
        (25, 6, Nothing),
        (26, 16, Nothing),
        (27, 2, Nothing),
        (28, 10, Nothing),
        (29, 6, Nothing),
        (30, 4, Nothing),
        (31, 12, Nothing),
        (34, 2, Nothing),
        (35, 4, Name),
        (36, 2, Nothing),
        (39, 8, Data),
        (42, 2, Data),
        (43, 8, Nothing),
        (44, 10, Nothing),
        (45, 4, Names),
        (46, 6, Nothing),
        (47, 14, Nothing),
        (50, 2, Nothing),
        (51, 4, Name),
        (52, 6, Nothing),
        (53, 14, Nothing),
    ]
};

pub(super) fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let seed = Seed::of(Kind::one_of(&KINDS, input.u8()));
    let layer = if input.one_in(4) { patched(seed, &mut input, |_| true) } else { seed.layer.clone() };
    let guard = Arc::new(Guard::new(layer, true));
    let store: Arc<dyn BlockStore> = guard.clone();
    let Ok(volume) = Volume::open_stepped(store, &image::options(DataMode::Ordered), image::clock(1)) else { return };
    let surface = Surface::new(volume);
    // Half of all inputs for each transport.
    let over_rings = bytes.len() % 2 == 1;
    let mut nodes: Vec<u64> = vec![1];
    nodes.extend(seed.inos.iter().map(|ino| u64::from(*ino)));
    let mut unique = 0;
    for _ in 0..REQUESTS {
        if input.is_empty() {
            break;
        }
        unique += 1;
        let (opcode, message) = message(&mut input, &nodes, unique);
        guard.begin("a request");
        let _ = is_request(&message);
        let answers = if over_rings { surface.serve_over_rings(&message) } else { surface.serve(&message) };
        assert!(!surface.is_broken(), "request {opcode} has panicked");
        // What has no number is a notification.
        let answers: Vec<&Vec<u8>> = answers.iter().filter(|a| a.get(8..16) != Some(&[0; 8])).collect();
        assert!(answers.len() <= 1, "{} answers to request {opcode}", answers.len());
        answers.iter().for_each(|answer| judge(opcode, unique, answer, &mut nodes));
    }
    drop(surface.into_volume());
}

/// One request: its opcode and its bytes.
fn message(input: &mut Input<'_>, nodes: &[u64], unique: u64) -> (u32, Vec<u8>) {
    let kind = input.u8();
    if kind == 255 {
        // Anything at all.
        let n = usize::from(input.u8());
        let bytes = input.split(n).to_vec();
        let opcode = bytes.get(4..8).map_or(0, |b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        return (opcode, bytes);
    }
    let (opcode, words, tail) = SHAPES[usize::from(kind) % SHAPES.len()];
    let node = match input.u8() {
        255 => input.u64(),
        n => nodes[usize::from(n) % nodes.len()],
    };
    let mut body = Vec::new();
    while body.len() < words * 4 {
        let value = word(input, nodes);
        body.extend_from_slice(&value.to_le_bytes());
    }
    body.truncate(words * 4);
    let mut name = || NAMES[usize::from(input.u8()) % NAMES.len()].as_bytes();
    match tail {
        Tail::Nothing => {}
        Tail::Name => body.extend([name(), &[0]].concat()),
        Tail::Names => body.extend([name(), &[0], name(), &[0]].concat()),
        Tail::Value => {
            body.extend([name(), &[0]].concat());
            let n = usize::from(input.u8());
            body.extend(input.split(n));
            // Sizes mostly say what is there.
            if n.is_multiple_of(2) {
                body[..4].copy_from_slice(&(n as u32).to_le_bytes());
            }
        }
        Tail::Data => {
            let n = usize::from(input.u16() % 6000);
            body.extend(std::iter::repeat_n(7, n));
            if opcode == 16 && !input.one_in(8) {
                body[16..20].copy_from_slice(&(n as u32).to_le_bytes());
            }
        }
    }
    // What is asked for at once stays within what was agreed.
    if matches!(opcode, 15 | 28 | 44) {
        let size = u32::from_le_bytes([body[16], body[17], body[18], body[19]]);
        body[16..20].copy_from_slice(&(u64::from(size) % MOST).to_le_bytes()[..4]);
    }
    let lie = input.one_in(32);
    let len = (HEADER.0 + body.len()) as u32 + u32::from(lie);
    let mut message = Vec::new();
    message.extend([len.to_le_bytes(), opcode.to_le_bytes()].concat());
    message.extend([unique.to_le_bytes(), node.to_le_bytes(), [0; 8], [0; 8]].concat());
    message.extend(body);
    (opcode, message)
}

const NAMES: [&str; 16] = [
    "file",
    "d",
    "sub",
    "flat",
    "slow",
    "attrs",
    "new",
    "x",
    "",
    ".",
    "..",
    "a/b",
    "user.small",
    "user.new",
    "system.posix_acl_access",
    "system.posix_acl_default",
];

/// A pair of 32-bit words.
fn word(input: &mut Input<'_>, nodes: &[u64]) -> u64 {
    match input.u8() {
        n @ 0..=63 => u64::from(n),
        n @ 64..=99 => u64::from(n - 64) * 512,
        100 => u64::MAX,
        101 => 1 << 63,
        102 => (1 << 63) - 1,
        103 => 1 << 32,
        104 => 0x8000,
        105 => 0o100_644,
        106 => 0o40_755,
        107 => 0x8008_6601,
        n @ 108..=139 => nodes[usize::from(n - 108) % nodes.len()],
        n @ 140..=179 => 1 << (n - 140),
        _ => input.u64(),
    }
}

fn judge(opcode: u32, unique: u64, answer: &[u8], nodes: &mut Vec<u64>) {
    assert!(answer.len() >= HEADER.1, "an answer of {} bytes to request {opcode}", answer.len());
    let u32_at = |at: usize| u32::from_le_bytes([answer[at], answer[at + 1], answer[at + 2], answer[at + 3]]);
    assert_eq!(u32_at(0) as usize, answer.len(), "the length of the answer to request {opcode}");
    let error = u32_at(4) as i32;
    assert!((-4095..=0).contains(&error), "error {error} in answer to request {opcode}");
    assert!(u64::from(u32_at(8)) == unique || error != 0, "an answer to another request than {opcode}");
    let names_node = matches!(opcode, 1 | 6 | 8 | 9 | 13 | 35 | 51);
    if names_node && error == 0 && answer.len() >= HEADER.1 + 8 && nodes.len() < 200 {
        let node = u64::from(u32_at(16)) | u64::from(u32_at(20)) << 32;
        if node != 0 {
            nodes.push(node);
        }
    }
}
