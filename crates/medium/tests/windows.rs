//! Windows: what they show, what they hide, and how many mappings they take.

use ondol_env::sync::Arc;
use ondol_medium::{Access, Nvm, NvmError, NvmOptions, Windows, WindowsSpec};

const P: u64 = 4096;

/// A medium whose pages hold their numbers.
fn numbered(pages: u64) -> Arc<Nvm> {
    let nvm = Nvm::volatile(pages * P).unwrap();
    (0..pages).for_each(|page| fill(&nvm, page, page as u8));
    Arc::new(nvm)
}

fn fill(nvm: &Nvm, page: u64, byte: u8) {
    let mut batch = nvm.stored();
    batch.store(page * P, &[byte; P as usize]).unwrap();
    let _fenced = batch.write_back().fence().unwrap();
}

fn windows(nvm: &Arc<Nvm>, pages: u64, most: Option<u64>) -> Windows {
    Windows::reserve(nvm, WindowsSpec { pages, most, ..WindowsSpec::default() }).unwrap()
}

/// First byte of each page, or `None` where it is hidden.
fn seen(windows: &Windows) -> Vec<Option<u8>> {
    let each = |page: u64| {
        let mut buf = vec![0xee; P as usize];
        let is_shown = windows.read(page * P, &mut buf).unwrap();
        assert!(buf.iter().all(|byte| *byte == buf[0]), "page {page} is of one piece");
        is_shown.then_some(buf[0])
    };
    (0..windows.pages()).map(each).collect()
}

#[test]
fn pages_lie_in_a_row_whatever_their_order_on_the_medium() {
    let nvm = numbered(8);
    let windows = windows(&nvm, 5, None);
    assert_eq!(seen(&windows), [None; 5]);
    let mut closed = windows.close();
    assert!(closed.show(0..1, 7 * P).unwrap() && closed.show(1..3, 2 * P).unwrap() && closed.show_zeros(4..5));
    drop(closed);
    assert_eq!(seen(&windows), [Some(7), Some(2), Some(3), None, Some(0)]);
    let stats = windows.stats();
    assert_eq!((stats.shown, stats.calls), (4, 2), "zeros were there already");
    // Over several pages, in part of words.
    let mut buf = [0; 5000];
    assert!(windows.read(P - 3, &mut buf).unwrap());
    assert!(buf[..3] == [7; 3] && buf[3..3 + P as usize] == [2; P as usize] && buf[3 + P as usize..] == [3; 901]);
    // What is stored on the medium is seen at once.
    nvm.shared().store(2 * P + 100, &[99; 5]).unwrap();
    let mut buf = [0; 7];
    assert!(windows.read(P + 99, &mut buf).unwrap());
    assert_eq!(buf, [2, 99, 99, 99, 99, 99, 2]);
    assert!(!windows.read(2 * P, &mut [0; P as usize + 1]).unwrap(), "its last byte is hidden");
    assert!(matches!(windows.read(5 * P - 1, &mut [0; 2]), Err(NvmError::OutOfRange { .. })));
}

#[test]
fn what_is_hidden_is_not_read_and_shown_again_for_nothing() {
    let nvm = numbered(8);
    let windows = windows(&nvm, 4, None);
    assert!(windows.close().show(0..4, P).unwrap());
    windows.close().hide(1..3);
    assert_eq!(seen(&windows), [Some(1), None, None, Some(4)]);
    assert!(windows.close().show(1..3, 2 * P).unwrap());
    assert_eq!((seen(&windows), windows.stats().calls), ((1..5).map(Some).collect(), 1));
    assert!(windows.close().show(1..2, 6 * P).unwrap() && windows.close().show_zeros(2..3));
    assert_eq!((seen(&windows), windows.stats().calls), (vec![Some(1), Some(6), Some(0), Some(4)], 3));
    let mut closed = windows.close();
    assert!(matches!(closed.show(0..2, 7 * P), Err(NvmError::OutOfRange { .. })));
    assert!(matches!(closed.show(0..1, 5), Err(NvmError::Misaligned { .. })));
    drop(closed);
    assert_eq!(seen(&windows)[0], Some(1), "nothing was changed");
}

#[test]
fn a_lost_line_is_not_read_through_windows() {
    let nvm = numbered(2);
    let windows = windows(&nvm, 2, None);
    assert!(windows.close().show(0..2, 0).unwrap());
    nvm.poison().add_line(P + 64);
    assert_eq!(seen(&windows), [None; 2]);
    fill(&nvm, 1, 9);
    assert!(nvm.poison().all().is_empty());
}

#[test]
fn mappings_are_counted_and_limited() {
    let nvm = numbered(64);
    let windows = windows(&nvm, 32, Some(8));
    assert!(windows.close().show(0..32, 0).unwrap());
    let one = windows.stats();
    // In the middle of neighbours one page of elsewhere makes three mappings of one.
    assert!(windows.close().show(10..11, 40 * P).unwrap());
    let three = windows.stats();
    assert_eq!((three.mappings, three.calls), (one.mappings + 2, one.calls + 1));
    assert!(windows.close().show(20..21, 50 * P).unwrap());
    assert_eq!(windows.stats().mappings, one.mappings + 4);
    assert!(!windows.close().show(30..31, 60 * P).unwrap(), "two more are too many");
    let expected = |page: u64| match page {
        10 => Some(40),
        20 => Some(50),
        30 => None,
        page => Some(page as u8),
    };
    assert_eq!(seen(&windows), (0..32).map(expected).collect::<Vec<_>>());
    // What takes none, or gives some back, is never too much.
    assert!(windows.close().show(30..31, 30 * P).unwrap() && windows.close().show(10..11, 10 * P).unwrap());
    assert_eq!((windows.stats().mappings, seen(&windows)[30]), (one.mappings + 2, Some(30)));
}

#[test]
fn every_kind_of_file_can_be_shown_and_what_has_no_descriptor_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for path in [dir.path().join("pool"), format!("/dev/shm/ondol-windows-{}", std::process::id()).into()] {
        let nvm = Nvm::create(&path, 4 * P, &NvmOptions::default()).unwrap();
        (0..4).for_each(|page| fill(&nvm, page, page as u8 + 1));
        let nvm = Arc::new(nvm);
        let windows = windows(&nvm, 2, None);
        let mut closed = windows.close();
        assert!(closed.show(0..1, 3 * P).unwrap() && closed.show(1..2, 0).unwrap());
        drop(closed);
        assert_eq!(seen(&windows), [Some(4), Some(1)]);
        drop((nvm, windows));
        let read = Arc::new(Nvm::open(&path, &NvmOptions { access: Access::Read, ..NvmOptions::default() }).unwrap());
        let windows = self::windows(&read, 1, None);
        assert!(windows.close().show(0..1, 2 * P).unwrap());
        assert_eq!(seen(&windows), [Some(3)]);
        drop((read, windows));
        let joint = Arc::new(Nvm::open(&path, &NvmOptions { access: Access::Joint, ..NvmOptions::default() }).unwrap());
        let e = Windows::reserve(&joint, WindowsSpec { pages: 1, ..WindowsSpec::default() }).unwrap_err();
        assert!(matches!(e, NvmError::NoWindows { .. }) && e.to_string().contains("no descriptor"), "{e}");
        std::fs::remove_file(path).unwrap();
    }
}

/// Readers never see a page that was taken away, nor two pages in one.
#[test]
#[allow(clippy::disallowed_methods, reason = "a test")]
fn a_page_that_was_taken_away_is_not_seen_any_more() {
    const JUNK: u8 = 0xff;
    let nvm = numbered(8);
    let windows = windows(&nvm, 2, None);
    assert!(windows.close().show(0..2, 0).unwrap());
    let (reads, hidden) = std::thread::scope(|s| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                s.spawn(|| {
                    let (mut reads, mut hidden) = (0, 0);
                    while reads < 500 {
                        let mut buf = [0; P as usize];
                        if windows.read(0, &mut buf).unwrap() {
                            assert!(buf[0] < 8 && buf == [buf[0]; P as usize], "{} and others", buf[0]);
                            reads += 1;
                        } else {
                            hidden += 1;
                            std::thread::yield_now();
                        }
                    }
                    (reads, hidden)
                })
            })
            .collect();
        let mut page = 0;
        while readers.iter().any(|reader| !reader.is_finished()) {
            windows.close().hide(0..1);
            // It is used for something else at once.
            fill(&nvm, page, JUNK);
            page = (page + 1) % 8;
            fill(&nvm, page, page as u8);
            assert!(windows.close().show(0..1, page * P).unwrap());
            std::thread::yield_now();
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1))
    });
    println!("{reads} reads, {hidden} times hidden");
    assert_eq!(reads, 1_500);
}
