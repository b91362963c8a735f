//! What `ondol top` and `metrics=` tell of volumes in object storage, and of no others.

use crate::bucket::{Store, durable};
use crate::place::{Place, eventually, ondol, succeeds};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// What a scraper gets.
fn scraped(log: &Path) -> String {
    let text = || fs::read_to_string(log).unwrap_or_default();
    let address = |text: &str| Some(text.split("metrics on http://").nth(1)?.split('/').next()?.to_owned());
    assert!(eventually(|| address(&text()).is_some()), "{}", text());
    let mut stream = TcpStream::connect(address(&text()).unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut page = String::new();
    stream.read_to_string(&mut page).unwrap();
    page
}

fn value(page: &str, series: &str) -> u64 {
    let line = page.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}: {page}")).parse().unwrap()
}

#[test]
fn top_and_metrics_tell_of_object_storage() {
    let Some(store) = Store::new() else { return };
    let (log, dir) = (store.file("messages"), store.place.mount_point());
    store.mount(&format!("metrics=0,log={}", log.display()));
    (0..5).for_each(|n| durable(&store.on(&format!("file {n}")), &[n; 9000]).unwrap());
    let page = scraped(&log);
    assert!(value(&page, "ondol_store_requests_total{request=\"put\"}") >= 5, "{page}");
    assert!(value(&page, "ondol_store_sent_bytes_total") > 1000, "{page}");
    assert_eq!(value(&page, "ondol_store_unanswered_seconds"), 0);
    assert_eq!(value(&page, "ondol_lease_seconds"), 60);
    assert!(value(&page, "ondol_lease_age_seconds") <= 60, "{page}");
    assert!(!page.contains("ondol_lag_"), "{page}");
    let top = |words: &[&str]| succeeds(ondol().args(["top", "--once", "-d", "0.3"]).args(words).arg(&dir));
    let said = top(&[]);
    let line =
        |name: &str| said.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {said}"));
    assert!(line("store ").contains("answers; puts ") && line("store ").contains(" up "), "{said}");
    assert!(line("lease ").contains("others keep away for 60 s"), "{said}");
    assert!(!said.lines().any(|line| line.starts_with("bucket ")), "{said}");
    // To look costs the store nothing: nothing else is asked meanwhile but what an idle mount asks by itself.
    let json: serde_json::Value = serde_json::from_str(&top(&["--json"])).unwrap();
    assert!(json["bucket"]["requests"]["puts"].as_u64() >= Some(5), "{json}");
    assert!(json["store_per_second"]["requests_lists"].as_f64() < Some(10.0), "{json}");
    assert!(json["bucket"].get("stored").is_none(), "{json}");
    store.place.umount();
    // One that only reads has no lease.
    fs::remove_file(&log).unwrap();
    store.mount(&format!("ro,metrics=0,log={}", log.display()));
    let page = scraped(&log);
    assert!(value(&page, "ondol_store_requests_total{request=\"get\"}") > 0 && !page.contains("ondol_lease"), "{page}");
    store.place.umount();
}

#[test]
fn top_and_metrics_tell_how_far_the_bucket_is_behind() {
    let Some(store) = Store::new() else { return };
    let (log, dir) = (store.file("messages"), store.place.mount_point());
    let local = format!("durable=local,redo={},redo_size=8M,lag_seconds=600", store.file("redo").display());
    store.mount(&format!("{local},metrics=0,log={}", log.display()));
    durable(&store.on("file"), &[1; 300_000]).unwrap();
    let page = scraped(&log);
    assert_eq!(value(&page, "ondol_lag_limit_seconds"), 600);
    assert!(value(&page, "ondol_lag_limit_bytes") <= 8 << 20, "{page}");
    let said = succeeds(ondol().args(["top", "--once", "-d", "0.2"]).arg(&dir));
    let line = said.lines().find(|line| line.starts_with("bucket ")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains("behind the log on this machine") && line.contains("of 600 s"), "{said}");
    // It comes to the bucket, and that is told, too.
    assert!(eventually(|| value(&scraped(&log), "ondol_lag_bytes") == 0));
    store.place.umount();
}

#[test]
fn other_volumes_tell_nothing_of_it() {
    let Some(place) = Place::new() else { return };
    let log = place.image().with_extension("log");
    place.mount(&format!("metrics=0,log={}", log.display()));
    let page = scraped(&log);
    assert!(page.contains("ondol_volume_info"), "{page}");
    let far = ["ondol_store_", "ondol_lag", "ondol_lease", "ondol_disk_cache"];
    assert!(far.iter().all(|name| !page.contains(name)), "{page}");
    let said = succeeds(ondol().args(["top", "--once", "-d", "0.2"]).arg(place.mount_point()));
    assert!(!said.lines().any(|line| ["store", "bucket", "lease"].iter().any(|name| line.starts_with(name))), "{said}");
    place.umount();
}
