//! Wrong calls: what is said, and which exit code says so.

use crate::lab;
use crate::place::fails;
use std::fs;

/// The whole of what is said, and the exit code, but for what clap says itself.
#[test]
fn wrong_calls_are_answered_in_one_line() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("text"), "no JSON").unwrap();
    for (call, code, said) in WRONG {
        let got = fails(lab().args(call.split_whitespace()).current_dir(dir.path()), *code);
        assert_eq!(got, format!("ondol-lab: {said}\n"), "ondol-lab {call}");
    }
}

/// Calls of which one is wrong by itself end with the code of wrong calls.
#[test]
fn calls_that_make_no_sense_are_refused() {
    for call in
        ["", "bench run", "bench compare there.json", "crash --engine fast", "crash --store bucket", "crash --x"]
    {
        let out = crate::place::output(lab().args(call.split_whitespace()));
        assert_eq!(out.status.code(), Some(2), "ondol-lab {call}: {out:?}");
    }
}

const WRONG: &[(&str, i32, &str)] = &[
    (
        "bench run copy --on tmpfs",
        2,
        "workload copy: unknown; there are create-fsync, overwrite, read, append, varmail, fileserver, webproxy, \
         postmark, tokubench, untar",
    ),
    ("bench run varmail --on lib:s3://u:word@b/p,on=ssd", 2, "target lib: on= is for images"),
    (
        "bench run varmail --on fuse:file:///d?snapshot=a",
        2,
        "target fuse: a volume of its own is made below it, so nothing may stand behind a question mark",
    ),
    ("bench run varmail --on nfs:x", 2, "target nfs:x: unknown; `ondol bench list` names the targets"),
    (
        "bench run varmail --on tmpfs --param colour=red",
        2,
        "--param colour=red: varmail has no parameter colour; it has files, size, gamma, append, iosize, width, seed",
    ),
    ("bench run varmail --on tmpfs --seconds 0", 2, "--seconds 0: not a positive time"),
    ("bench run varmail --on tmpfs --dir absent", 2, "--dir absent: not a directory"),
    (
        "bench run varmail --on tmpfs --nvm-model pcm",
        2,
        "--nvm-model: no target has NVM: name one in a pool (lib:nvm:NAME), or with pool=SIZE",
    ),
    ("bench paper 3 --nvm-model pcm", 2, "--nvm-model: not of paper 3: it has no NVM"),
    ("bench paper 4 --ablate", 2, "--ablate: not of paper 4: its figures have each idea beside what is without it"),
    ("bench paper 2 --figure 3", 2, "bench paper 2: there is table 1"),
    ("bench write --dir . --threads 4 --bytes 40 --unit 16", 2, "--bytes 40: less than --unit 16 for each thread"),
    ("bench paper 1 --figure 2", 2, "bench paper 1: there are figures 3 and 4"),
    ("bench paper 3 --figure 2", 2, "bench paper 3: there are figures 1, 4, 5, 6 and 7"),
    ("bench paper 5 --figure 3", 2, "bench paper 5: there are figures 4 and 5"),
    ("bench paper 5 --dir absent", 2, "--dir absent: not a directory"),
    ("bench paper 4 --figure 9", 2, "bench paper 4: there are figures 1 to 6, and 7 and 8 for what the paper has not"),
    ("bench mount --dir absent", 2, "--dir absent: not a directory"),
    ("bench compare absent.json absent.json", 1, "cannot read absent.json: No such file or directory"),
    (
        "bench compare text text",
        1,
        "text: no JSON: expected ident at line 1 column 2; name a JSON file that `ondol bench` has written with --json",
    ),
    ("crash --workload resize --engine swap", 2, "--engine says nothing to --workload resize: leave it out"),
    ("crash --workload pool --remount", 2, "--remount says nothing to --workload pool: leave it out"),
    ("crash --store local --engine classic", 2, "a volume in object storage has engine batch: leave --engine out"),
    ("crash --store remote --workload threads", 2, "--workload threads says nothing to --store: leave one of them out"),
    ("crash --store remote --lead 2 --calls sync", 2, "--lead says nothing to --store: leave it out"),
];
