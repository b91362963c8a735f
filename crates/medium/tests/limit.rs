//! The kernel's limit of mappings, met. It is the process's, so this test has one of its own.

use ondol_env::sync::Arc;
use ondol_medium::{Nvm, Windows, WindowsSpec, most_mappings};

const P: u64 = 4096;

/// Windows of every second page, backwards, each a mapping of its own.
fn backwards(nvm: &Arc<Nvm>, most: Option<u64>) -> (Windows, u64) {
    let pages = nvm.size() / P;
    let windows = Windows::reserve(nvm, WindowsSpec { pages, most, ..WindowsSpec::default() }).unwrap();
    let mut closed = windows.close();
    let shown = (0..pages).filter(|page| closed.show(*page..page + 1, (pages - 1 - page) * P).unwrap()).count();
    drop(closed);
    (windows, shown as u64)
}

#[test]
fn beyond_the_limit_pages_are_hidden_and_nothing_fails() {
    let limit = 2 * most_mappings();
    if limit > 200_000 {
        return ondol_skips::skip("this system allows so many mappings that reaching the limit takes long");
    }
    let nvm = Nvm::volatile((limit + 1000) * P).unwrap();
    (0..nvm.size() / P).for_each(|page| nvm.shared().store(page * P, &page.to_le_bytes()).unwrap());
    let nvm = Arc::new(nvm);
    // Left to themselves windows take half.
    let (windows, shown) = backwards(&nvm, None);
    assert!(shown + 10 > most_mappings() && shown <= most_mappings(), "{shown} of {}", most_mappings());
    let (others, none) = backwards(&nvm, None);
    assert_eq!(none, 0, "they share it");
    drop((windows, others));
    // The kernel refuses where nobody counts. What was shown until then is hidden, and the rest has room.
    let (windows, shown) = backwards(&nvm, Some(u64::MAX));
    assert!(shown > most_mappings() && shown < windows.pages(), "{shown} of {limit}");
    let pages = windows.pages();
    let right = |page: u64| {
        let mut word = [0; 8];
        let is_shown = windows.read(page * P, &mut word).unwrap();
        assert!(!is_shown || u64::from_le_bytes(word) == pages - 1 - page, "page {page}");
        is_shown
    };
    let now = (0..pages).filter(|page| right(*page)).count() as u64;
    assert!(now > 500 && now < shown && windows.stats().shown == now, "{now} of {shown}");
    assert!(windows.stats().mappings <= most_mappings());
    let again = (0..1000).filter(|page| windows.close().show(*page..page + 1, (pages - 1 - page) * P).unwrap());
    assert_eq!((again.count(), (0..1000).filter(|page| right(*page)).count()), (1000, 1000));
}
