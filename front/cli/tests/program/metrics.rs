//! `metrics=`: by HTTP, on a socket, in a file; by Prometheus itself.

use crate::place::{Place, eventually, fails, ondol, succeeds, unmounts};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Mounts with metrics on some port of this machine; tells which.
fn mounted() -> Option<(Place, String)> {
    let place = Place::new()?;
    let log = place.image().with_extension("log");
    place.mount(&format!("metrics=0,log={}", log.display()));
    // It is in the log when the command returns, or soon.
    let found = || {
        let text = fs::read_to_string(&log).ok()?;
        let line = text.lines().find(|line| line.contains(": metrics on http://"))?.to_owned();
        Some(line.split("http://").nth(1)?.trim_end_matches("/metrics").to_owned())
    };
    assert!(eventually(|| found().is_some()), "{}", fs::read_to_string(&log).unwrap());
    Some((place, found().unwrap()))
}

fn get(stream: &mut (impl Read + Write), path: &str) -> String {
    write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text}"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    body.to_owned()
}

fn scrape(address: &str) -> String {
    get(&mut TcpStream::connect(address).unwrap(), "/metrics")
}

/// The value of a series.
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series}: {text}")).parse().unwrap()
}

/// Writes of 4 KiB, each with an fsync.
fn work(place: &Place, times: u64) {
    let file = File::create(place.on("file")).unwrap();
    for n in 0..times {
        file.write_all_at(&[7; 4096], n * 4096).unwrap();
        file.sync_all().unwrap();
    }
}

#[test]
fn what_was_done_is_counted_and_timed() {
    let Some((place, address)) = mounted() else { return };
    work(&place, 20);
    // The page is up to 10 ms old.
    let is_there = || value(&scrape(&address), r#"ondol_requests_total{operation="fsync"}"#) >= 20.0;
    assert!(eventually(is_there));
    // What its parts say is read one after the other.
    assert!(eventually(|| value(&scrape(&address), "ondol_device_written_bytes_total") >= 20.0 * 4096.0));
    let text = scrape(&address);
    for operation in ["write", "fsync"] {
        let requests = value(&text, &format!("ondol_requests_total{{operation=\"{operation}\"}}"));
        let timed = value(&text, &format!("ondol_request_duration_seconds_count{{operation=\"{operation}\"}}"));
        let all =
            value(&text, &format!("ondol_request_duration_seconds_bucket{{operation=\"{operation}\",le=\"+Inf\"}}"));
        assert_eq!((requests, timed, all), (20.0, 20.0, 20.0), "{operation}");
        let sum = value(&text, &format!("ondol_request_duration_seconds_sum{{operation=\"{operation}\"}}"));
        assert!(sum > 0.0, "{operation}: {sum}");
    }
    assert!(value(&text, "ondol_commits_total") >= 20.0);
    assert_eq!(value(&text, "ondol_read_only"), 0.0);
    let info = format!("ondol_volume_info{{image=\"{}\"", place.image().display());
    assert!(
        text.contains(&info) && text.contains(&format!("mount_point=\"{}\"", place.mount_point().display())),
        "{text}"
    );
    // Orphans: what is deleted and open.
    let file = File::open(place.on("file")).unwrap();
    fs::remove_file(place.on("file")).unwrap();
    assert!(eventually(|| value(&scrape(&address), "ondol_orphans") == 1.0));
    drop(file);
    assert!(eventually(|| value(&scrape(&address), "ondol_orphans") == 0.0));
    place.umount();
    assert!(eventually(|| TcpStream::connect(&address).is_err()), "somebody listens on {address} still");
    place.is_clean();
}

#[test]
fn promtool_finds_nothing() {
    if ondol_skips::skips(ondol_skips::missing(&["promtool"])) {
        return;
    }
    let Some((place, address)) = mounted() else { return };
    work(&place, 3);
    assert!(fs::File::open(place.on("absent")).is_err());
    let mut command = Command::new("promtool");
    command.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(scrape(&address).as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr).into_owned() + &String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.is_empty(), "{said}");
    place.umount();
}

/// Clients that hold what they can hold keep neither the mount nor its end.
#[test]
fn clients_hold_up_nothing() {
    let Some((place, address)) = mounted() else { return };
    let mut clients = Vec::new();
    for n in 0..200 {
        let mut client = TcpStream::connect(&address).unwrap();
        // Those that were sent away hear of it now or later.
        let _ = client
            .write_all([&b"GET /metrics HTTP/1.1\r\n"[..], b"GET /metrics HTTP/1.1\r\n\r\n", b"", b"\0\xff"][n % 4]);
        clients.push(client);
    }
    work(&place, 20);
    assert!(scrape(&address).contains("ondol_requests_total"));
    place.umount();
    drop(clients);
    place.is_clean();
}

#[test]
fn a_socket_and_a_file_go_with_the_mount() {
    let Some(place) = Place::new() else { return };
    let dir = place.image().parent().unwrap().to_owned();
    let socket = dir.join("metrics.socket");
    succeeds(place.mount_command().args(["-o", "metrics=unix:metrics.socket"]).current_dir(&dir));
    assert_eq!(socket.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let text = get(&mut UnixStream::connect(&socket).unwrap(), "/metrics");
    assert!(text.contains("\nprocess_resident_memory_bytes "), "{text}");
    place.umount();
    assert!(eventually(|| !socket.exists()));
    let file = dir.join("ondol.prom");
    place.mount(&format!("metrics={}", file.display()));
    let text = fs::read_to_string(&file).unwrap();
    let label = format!("{{mount_point=\"{}\"", place.mount_point().display());
    let series: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    assert!(series.len() > 50 && series.iter().all(|line| line.contains(&label)), "{text}");
    place.umount();
    assert!(eventually(|| !file.exists()));
}

/// A file is one mount's, and goes with that alone; and not with a mount that did not come about.
#[test]
fn two_mounts_do_not_share_a_file() {
    let (Some(one), Some(other)) = (Place::new(), Place::new()) else { return };
    let file = one.image().with_extension("prom");
    let metrics = format!("metrics={}", file.display());
    one.mount(&metrics);
    let said = fails(other.mount_command().args(["-o", &metrics]), 32);
    assert!(said.contains(&format!("another mount writes {}", file.display())), "{said}");
    assert!(!other.is_mounted() && fs::metadata(&file).unwrap().len() > 0);
    fs::remove_file(&file).unwrap();
    fs::write(&file, "of somebody else").unwrap();
    one.umount();
    one.is_clean();
    assert_eq!(fs::read(&file).unwrap(), b"of somebody else");
    let inside = format!("metrics={}", one.on("x.prom").display());
    let said = fails(one.mount_command().args(["-o", &inside]), 32);
    assert!(said.contains("below the mount point"), "{said}");
}

/// Monitoring that is not there is no silent matter.
#[test]
fn a_mount_whose_metrics_cannot_be_had_fails() {
    let Some(place) = Place::new() else { return };
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let said = fails(place.mount_command().args(["-o", &format!("metrics={port}")]), 32);
    assert!(said.contains(&format!("cannot listen on 127.0.0.1:{port}: Address already in use")), "{said}");
    let said = fails(place.mount_command().args(["-o", "metrics=/absent/x.prom"]), 32);
    assert!(said.contains("cannot write /absent/x.prom"), "{said}");
    assert!(!place.is_mounted() && place.is_unlocked());
    place.is_clean();
}

/// A program that is ended with the test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn prometheus(dir: &Path, target: &str) -> (Ended, String) {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = format!(
        "global: {{scrape_interval: 1s, scrape_timeout: 1s}}\n\
         scrape_configs: [{{job_name: ondol, static_configs: [{{targets: ['{target}']}}]}}]\n"
    );
    fs::write(dir.join("prometheus.yml"), config).unwrap();
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new("prometheus");
    command.arg(format!("--config.file={}", dir.join("prometheus.yml").display()));
    command.arg(format!("--storage.tsdb.path={}", dir.join("data").display()));
    command.arg(format!("--web.listen-address={address}"));
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    (Ended(child), address)
}

/// What Prometheus answers to a question; nothing while it has no answer.
fn ask(address: &str, question: &str) -> Option<f64> {
    let mut stream = TcpStream::connect(address).ok()?;
    write!(stream, "GET /api/v1/query?query={question} HTTP/1.0\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let json: serde_json::Value = serde_json::from_str(text.split_once("\r\n\r\n")?.1).ok()?;
    json["data"]["result"][0]["value"][1].as_str()?.parse().ok()
}

#[test]
fn prometheus_scrapes_a_mount() {
    if ondol_skips::skips(ondol_skips::missing(&["prometheus"])) {
        return;
    }
    let Some((place, target)) = mounted() else { return };
    work(&place, 30);
    let dir = tempfile::tempdir().unwrap();
    let (server, address) = prometheus(dir.path(), &target);
    let is = |question: &str, holds: &dyn Fn(f64) -> bool| {
        assert!(eventually(|| ask(&address, question).is_some_and(holds)), "{question}: {:?}", ask(&address, question));
    };
    is("up", &|up| up == 1.0);
    is("ondol_requests_total{operation=%22fsync%22}", &|count| count == 30.0);
    is("ondol_volume_info", &|one| one == 1.0);
    // The quantile of a histogram, which all buckets take part in.
    is("histogram_quantile(0.99,ondol_request_duration_seconds_bucket{operation=%22fsync%22})", &|p99| {
        p99 > 0.0 && p99 < 10.0
    });
    drop(server);
    place.umount();
}

/// Nobody is timed where nobody asks.
#[test]
fn without_metrics_nothing_is_timed_until_somebody_looks() {
    let Some(place) = Place::mounted("rw") else { return };
    work(&place, 5);
    let stats = || {
        let mut value = vec![0; 65536];
        let len = rustix::fs::getxattr(place.mount_point(), "ondol.stats", &mut value[..]).unwrap();
        serde_json::from_slice::<serde_json::Value>(&value[..len]).unwrap()
    };
    let first = stats();
    assert_eq!(first["latencies"]["operations"], serde_json::json!({}));
    assert!(first["requests"]["fsync"].as_u64() >= Some(5));
    work(&place, 5);
    let timed = &stats()["latencies"]["operations"]["fsync"]["counts"];
    let sum: u64 = timed.as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).sum();
    assert_eq!(sum, 5);
    unmounts(ondol().args(["umount", "--wait"]).arg(place.mount_point()));
}
