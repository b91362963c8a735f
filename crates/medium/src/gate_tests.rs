//! Gates with threads of the system; `tests/gate.rs` has them under a model checker.

use crate::gate::Gate;

#[test]
fn who_is_inside_keeps_others_from_closing() {
    let gate = Gate::new(1);
    let (a, b) = (gate.enter().unwrap(), gate.enter().unwrap());
    assert_eq!((*a, *b), (1, 1));
    drop((a, b));
    let mut closed = gate.close();
    *closed = 2;
    assert!(gate.enter().is_none());
    drop(closed);
    assert_eq!(gate.enter().map(|value| *value), Some(2));
    // Whoever is still counted would keep this waiting.
    drop(gate.close());
}

/// Two words that are changed together are never seen apart.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn nobody_is_inside_beside_one_who_has_closed() {
    let (gate, rounds) = (Gate::new([0u64; 2]), 20_000);
    let seen = std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                for _ in 0..rounds {
                    let mut closed = gate.close();
                    closed[0] += 1;
                    closed[1] += 1;
                }
            });
        }
        let readers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let mut seen = 0;
                    while seen < 1000 {
                        if let Some(words) = gate.enter() {
                            assert_eq!(words[0], words[1]);
                            seen += 1;
                        }
                        std::thread::yield_now();
                    }
                    seen
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).sum::<u64>()
    });
    assert_eq!((seen, *gate.close()), (3000, [2 * rounds; 2]));
}
