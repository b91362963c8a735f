//! The words of pages with no other threads; `tests/pinnable` has them under a model checker.

use crate::pinnable::Pinnable;

#[test]
fn pins_and_storers_keep_each_other_out() {
    let pages = Pinnable::new(&(4096..5 * 4096));
    let storing = pages.store(&(0..4097)).unwrap();
    assert!(!pages.pin(&(4096..8192)) && pages.pin(&(8192..12_288)));
    drop(storing);
    assert!(pages.pin(&(4096..12_288)));
    assert_eq!(pages.store(&(0..20_480)).map(drop), Err(1));
    assert_eq!(pages.store(&(12_287..12_289)).map(drop), Err(2));
    pages.unpin(&(4096..12_288));
    assert!(!pages.has_pinned(&(4096..8192)) && pages.has_pinned(&(8191..8193)));
    pages.unpin(&(8192..12_288));
    assert!(pages.store(&(0..20_480)).is_ok());
}

#[test]
fn what_lies_outside_is_not_pinned_and_not_asked_about() {
    let pages = Pinnable::new(&(4096..8192));
    for bytes in [0..4096, 4096..12_288, 8192..12_288, 0..8192] {
        assert!(!pages.pin(&bytes) && !pages.has_pinned(&bytes), "{bytes:?}");
    }
    assert!(pages.pin(&(4096..8192)));
    assert!(pages.store(&(0..4096)).is_ok() && pages.store(&(8192..100_000)).is_ok());
}

#[test]
fn counts_do_not_run_over() {
    let pages = Pinnable::new(&(0..4096));
    let pinned = (0..u32::from(u16::MAX)).take_while(|_| pages.pin(&(0..4096))).count();
    assert_eq!(pinned, 32_768);
}

#[test]
fn an_owned_page_is_nobody_elses() {
    let pages = Pinnable::new(&(0..3 * 4096));
    assert!(pages.pin(&(4096..8192)));
    assert!(!pages.own(&(0..8192)), "one of them is pinned");
    assert!(pages.own(&(0..4096)) && !pages.own(&(0..4096)) && !pages.pin(&(0..4096)) && pages.has_pinned(&(0..1)));
    assert_eq!(pages.store(&(0..1)).map(drop), Err(0));
    assert!(!pages.own(&(8192..16_384)), "one of them cannot be pinned");
    pages.disown(&(0..4096));
    let storing = pages.store(&(0..1)).unwrap();
    assert!(!pages.own(&(0..4096)));
    drop(storing);
    assert!(pages.own(&(0..4096)));
}
