//! `ondol top`: reports, and the view on a terminal.

use crate::place::{Place, eventually, fails, ondol, succeeds};
use crate::transport::on_each;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::JoinHandle;
use std::time::Duration;

/// Writes and syncs until it is dropped.
struct Busy {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Busy {
    fn on(place: &Place) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, path) = (Arc::clone(&stop), place.on("busy"));
        let work = move || {
            let file = File::create(path).unwrap();
            while !stopped.load(Ordering::Relaxed) {
                file.write_all_at(&[1; 4096], 0).unwrap();
                file.sync_all().unwrap();
            }
        };
        Self { stop, thread: Some(std::thread::spawn(work)) }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

#[test]
fn a_report_says_what_happens_by_directory_image_and_process() {
    let Some(place) = Place::mounted("rw") else { return };
    let busy = Busy::on(&place);
    let pid = place.pid().to_string();
    for target in [place.mount_point().into_os_string(), place.image().into_os_string(), pid.into()] {
        let text = succeeds(ondol().args(["top", "--once", "--interval", "0.5", "--sort", "total"]).arg(&target));
        let head =
            format!("{} on {}, process {}, ", place.image().display(), place.mount_point().display(), place.pid());
        assert!(text.starts_with("every 0.5 s: ") && text.contains(&head), "{text}");
        for part in ["durability", "requests", "journal", "stalls", "waiting", "cache", "device", "space"] {
            assert!(text.lines().any(|line| line.starts_with(part)), "{part}: {text}");
        }
        let row = text.lines().find(|line| line.starts_with("fsync ")).unwrap_or_else(|| panic!("{text}"));
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert!(cells[1].parse::<f64>().unwrap() > 0.0 && !row.contains(" - "), "{row}");
        assert!(text.contains("an fsync covers every operation before it; "), "{text}");
    }
    let lines = succeeds(ondol().args(["top", "--json", "-n", "2", "-d", "0.2"]).arg(place.mount_point()));
    let reports: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(reports.len(), 2);
    for report in &reports {
        let fsync = &report["operations"]["fsync"];
        assert!(
            fsync["per_second"].as_f64() > Some(0.0) && fsync["p99_ns"].as_u64() >= fsync["p50_ns"].as_u64(),
            "{report}"
        );
        assert!(report["per_second"]["commits"].as_f64() > Some(0.0), "{report}");
        assert!(report["now"]["journal_ring_blocks"].as_u64() > Some(0), "{report}");
    }
    assert!(reports[0]["operations"]["fsync"]["total"].as_u64() < reports[1]["operations"]["fsync"]["total"].as_u64());
    // Whoever reads may go away.
    let line = format!("{} top -b -d 0.1 {} | head -1", env!("CARGO_BIN_EXE_ondol"), place.mount_point().display());
    assert_eq!(succeeds(Command::new("sh").args(["-c", &line])).lines().count(), 1);
    // Who cannot write does not say that all is well.
    let full = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let out = ondol().args(["top", "--once", "-d", "0.1"]).arg(place.mount_point()).stdout(full).output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(1) && said.contains("cannot write the report"), "{said}");
    drop(busy);
    place.umount();
    // What it has asked keeps nothing open.
    place.is_clean();
    let said = fails(ondol().args(["top", "--once"]).arg(place.image()), 1);
    assert!(said.contains("is not mounted: there is nothing to watch"), "{said}");
}

/// The program on a terminal, by script(1).
struct Terminal {
    child: Child,
    keys: std::process::ChildStdin,
    more: std::sync::mpsc::Receiver<String>,
    shown: String,
}

impl Terminal {
    /// `ondol ARGS… DIR`, on a terminal of this kind.
    fn of(place: &Place, args: &str, kind: &str) -> Self {
        let (program, dir) = (env!("CARGO_BIN_EXE_ondol"), place.mount_point());
        let dir = dir.display();
        Self::running(&format!("stty rows 30 cols 90; {program} {args} {dir}"), kind)
    }

    /// A line of the shell.
    fn running(line: &str, kind: &str) -> Self {
        let mut command = Command::new("script");
        command.args(["-qec", line, "/dev/null"]).env("TERM", kind).env("SHELL", "/bin/sh");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (keys, mut out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (tell, more) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut space = [0; 4096];
            while let Ok(len @ 1..) = out.read(&mut space) {
                if tell.send(String::from_utf8_lossy(&space[..len]).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { child, keys, more, shown: String::new() }
    }

    fn type_key(&mut self, key: &[u8]) {
        self.keys.write_all(key).unwrap();
    }

    /// Waits until something is shown; what came before it is forgotten.
    fn until(&mut self, what: &str) {
        let seen = eventually(|| {
            self.shown.extend(self.more.try_iter());
            self.shown.contains(what)
        });
        assert!(seen, "{what} in the last of {:?}", self.shown.get(self.shown.len().saturating_sub(2000)..));
        let (_, rest) = self.shown.split_once(what).unwrap();
        self.shown = rest.to_owned();
    }

    /// Waits for its end; how it ended, and all that was shown at last.
    fn end(mut self) -> (bool, String) {
        let status = self.child.wait().unwrap();
        self.shown.extend(self.more.iter());
        (status.success(), self.shown)
    }
}

const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

#[test]
fn a_terminal_shows_a_page_and_keys_change_it() {
    if ondol_skips::skips(ondol_skips::missing(&["script", "stty"])) {
        return;
    }
    let Some(place) = Place::mounted("rw") else { return };
    let busy = Busy::on(&place);
    let mut terminal = Terminal::of(&place, "top -d 0.2", "xterm");
    terminal.until(ENTER);
    terminal.until("durability");
    terminal.until("per s*");
    terminal.type_key(b"s");
    terminal.until("p50*");
    terminal.type_key(b"+");
    terminal.until("every 0.5 s");
    terminal.type_key(b"-");
    terminal.until("every 0.2 s");
    terminal.type_key(b"q");
    let (ended, shown) = terminal.end();
    assert!(ended && shown.ends_with(LEAVE), "{shown:?}");
    // A terminal that obeys nothing gets text alone.
    let mut terminal = Terminal::of(&place, "top -d 0.2", "dumb");
    terminal.until("fsync");
    terminal.until("durability");
    terminal.type_key(b"q");
    let (ended, shown) = terminal.end();
    assert!(ended && !shown.contains('\x1b'), "{shown:?}");
    drop(busy);
    // The mount ends while somebody looks: the terminal is as before, and why is said there.
    let mut terminal = Terminal::of(&place, "top -d 0.2", "xterm");
    terminal.until("durability");
    place.umount();
    let (ended, shown) = terminal.end();
    let (_, said) = shown.rsplit_once(LEAVE).unwrap_or_else(|| panic!("{shown:?}"));
    assert!(!ended && said.contains("is not mounted any more"), "{shown:?}");
}

/// The process of `ondol top` itself: who asks has a pipe for its keys.
fn watching(place: &Place) -> Pid {
    let is_it = |pid: &Pid| {
        let about = |file: &str| format!("/proc/{}/{file}", pid.as_raw_nonzero());
        let words = fs::read(about("cmdline")).unwrap_or_default();
        let dir = place.mount_point().as_os_str().as_encoded_bytes().to_owned();
        words.split(|b| *b == 0).any(|word| word == b"top")
            && words.split(|b| *b == 0).any(|word| word == dir)
            && fs::read_link(about("fd/0")).is_ok_and(|keys| keys.starts_with("/dev/pts"))
    };
    let numbers = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    numbers.filter_map(Pid::from_raw).find(is_it).expect("nobody watches")
}

#[test]
fn a_terminal_is_as_before_while_the_program_is_stopped_and_after_signals() {
    if ondol_skips::skips(ondol_skips::missing(&["script", "stty"])) {
        return;
    }
    let Some(place) = Place::mounted("rw") else { return };
    // A shell that controls jobs, as users have, and goes on with what was stopped.
    let (program, dir) = (env!("CARGO_BIN_EXE_ondol"), place.mount_point());
    let dir = dir.display();
    let keys = "$(stty -a | grep -o -e '-*icanon' -e '-*ixon' | tr '\\n' ' ')";
    let again = format!("while [ $was -gt 128 ]; do echo stopped: {keys}; fg; was=$?; done; echo ended: {keys}");
    let line = format!("stty rows 30 cols 90; set -m; {program} top -d 0.2 {dir}; was=$?; {again}");
    let mut terminal = Terminal::running(&line, "xterm");
    terminal.until(ENTER);
    terminal.until("durability");
    let pid = watching(&place);
    let ways: [&dyn Fn(&mut Terminal); 2] =
        [&|terminal: &mut Terminal| terminal.type_key(b"\x1a"), &|_| kill_process(pid, Signal::TSTP).unwrap()];
    for stop in ways {
        stop(&mut terminal);
        terminal.until(LEAVE);
        terminal.until("stopped: ixon icanon");
        terminal.until(ENTER);
        terminal.until("durability");
    }
    kill_process(pid, Signal::CONT).unwrap();
    terminal.until(ENTER);
    // Nothing holds up what is drawn.
    terminal.type_key(b"\x13");
    terminal.until("durability");
    terminal.until("durability");
    kill_process(pid, Signal::QUIT).unwrap();
    terminal.until(LEAVE);
    terminal.until("ended: ixon icanon");
    assert!(terminal.end().0);
    // A key that is held down stops no readings.
    let mut terminal = Terminal::of(&place, "top -n 3 -d 0.2", "xterm");
    terminal.until(ENTER);
    // As many as a terminal keeps that nobody reads: script(1) waits for room, and sees no end meanwhile.
    let mut held = 400;
    let ended = eventually(|| {
        if held > 0 {
            held -= 1;
            // Nobody takes keys any more when it has ended.
            let _ = terminal.keys.write_all(b"xxxxx");
        }
        terminal.child.try_wait().unwrap().is_some()
    });
    assert!(ended && terminal.end().0);
}

#[test]
fn a_server_that_hangs_is_waited_for_ten_seconds() {
    // Over io_uring, requests are with the server at once, and who waits for one of these cannot be killed.
    on_each(|transport| {
        let Some(mut place) = Place::new() else { return };
        let server = place.serve_on(transport);
        fs::write(place.on("file"), b"text").unwrap();
        let pid = Pid::from_child(place.server(server));
        kill_process(pid, Signal::STOP).unwrap();
        let stat = format!("/proc/{}/stat", pid.as_raw_nonzero());
        assert!(eventually(|| fs::read_to_string(&stat).unwrap().contains(") T ")), "it does not stop");
        let asked = [&["top", "--once"][..], &["info"]].map(|command| {
            let mut ask = ondol();
            ask.args(command).arg(place.mount_point()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        });
        // Each is read to the end of its output, so that none may leave that open.
        let (tell, told) = channel();
        std::thread::spawn(move || tell.send(asked.map(|child| child.wait_with_output().unwrap().stderr)));
        let said = told.recv_timeout(Duration::from_secs(60));
        kill_process(pid, Signal::CONT).unwrap();
        for said in said.expect("a command waits for a server that hangs") {
            let said = String::from_utf8(said).unwrap();
            assert!(said.contains("no answer within 10 seconds; the server hangs"), "{said}");
        }
        place.umount();
    });
}
