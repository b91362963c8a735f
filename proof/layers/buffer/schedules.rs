//! Writers, flushers, syncer and reclaimer in interleavings that a seed decides, and power cuts of those.

use crate::common::memory::MemoryHome;
use crate::common::{env, id, options, pool, shape};
use ondol_env::sync::Arc;
use ondol_faults::Defect;
use ondol_schedule::{Schedule, Task};
use ondol_testkit::write_buffer::threads;
use ondol_write_buffer::{Buffer, BufferError, Home};

/// Files are opened, written, removed, closed and settled by several at once.
#[test]
fn names_in_any_order() {
    let names = |buffer: &Buffer| -> Vec<Task> {
        let comer = |name: &'static str, value: u8| -> Task {
            let buffer = buffer.clone();
            Box::new(move || {
                for _ in 0..3 {
                    let file = buffer.open_file(&id(name), true).unwrap();
                    match file.write_at(0, &[value; 50]) {
                        Ok(()) | Err(BufferError::Removed(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        };
        let remover = |name: &'static str| -> Task {
            let buffer = buffer.clone();
            Box::new(move || {
                for _ in 0..2 {
                    match buffer.remove(&id(name)) {
                        Ok(()) | Err(BufferError::NotFound(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            })
        };
        let settling = buffer.clone();
        let settler: Task = Box::new(move || (0..2).for_each(|_| settling.settle().unwrap()));
        vec![comer("cedar", 1), comer("cedar", 2), remover("cedar"), settler, remover("cedar"), comer("oak", 3)]
    };
    let rig = || {
        let (pool, home) = (pool(shape(), 8), Arc::new(MemoryHome::new()));
        let (buffer, _) = Buffer::open(&pool, home.clone() as Arc<dyn Home>, env(), &options()).unwrap();
        (buffer, home)
    };
    let stats = Schedule::in_turn(0).run(names(&rig().0)).unwrap();
    for number in 0..300 {
        let (buffer, home) = rig();
        if let Err(e) = Schedule::fitted_to(&stats, number).run(names(&buffer)) {
            panic!("{e}");
        }
        assert_eq!(buffer.check(), Vec::<String>::new(), "interleaving {number}");
        buffer.settle().unwrap();
        let home = home.all();
        let cedar = home.get(&id("cedar"));
        let is_one = |b: &Vec<u8>| b.is_empty() || b.as_slice() == [1; 50] || b.as_slice() == [2; 50];
        assert!(cedar.is_none_or(is_one), "interleaving {number}");
        assert_eq!(home.get(&id("oak")).unwrap(), &[3; 50]);
    }
}

#[test]
fn cuts_of_interleavings() {
    for number in 0..400 {
        assert_eq!(threads(number, 150).wrong, None, "interleaving {number}");
    }
}

#[test]
fn defects_that_need_an_interleaving_are_found() {
    for defect in [Defect::BufferLateSyncPoint, Defect::BufferForgottenOverwrite] {
        let _planted = ondol_faults::set(Some(defect)).unwrap();
        let found = (0..100).find(|number| threads(*number, 150).wrong.is_some());
        println!("{defect}: {found:?}");
        assert!(found.is_some(), "{defect}");
    }
}
