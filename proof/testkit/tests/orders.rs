//! Which orders explain concurrent calls, and what a crash may leave of them.

use ondol::DataMode;
use ondol_power::Event;
use ondol_testkit::model::Model;
use ondol_testkit::op::{Op, text};
use ondol_testkit::threads::{Call, Mark, Orders};
use ondol_testkit::{Fail, Outcome};

fn op(line: &str) -> Op {
    text::parse(line).unwrap().remove(0)
}

fn model(lines: &str) -> Model {
    let mut model = Model::empty();
    for op in text::parse(lines).unwrap() {
        model.apply(&op).unwrap();
    }
    model
}

fn call(line: &str, outcome: Outcome) -> Call {
    Call { op: op(line), outcome, failure: None }
}

/// Events from words such as `0+` (thread 0 begins its next call) and `0-` (that returns).
fn events(text: &str) -> Vec<Event> {
    let mut done = [0; 8];
    text.split_whitespace()
        .map(|word| {
            let thread = word[..1].parse().unwrap();
            let mark = Mark { thread, call: done[thread], returned: word.ends_with('-') };
            done[thread] += usize::from(mark.returned);
            Event::Mark(mark.id())
        })
        .collect()
}

#[test]
fn two_threads_cannot_both_create_one_name() {
    let both = [vec![call("create /a 0644", Ok(0))], vec![call("create /a 0644", Ok(0))]];
    let error = Orders::find(&Model::empty(), &both, &events("0+ 1+ 0- 1-"), &model("create /a 0644").snapshot());
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("no order of the calls explains") && error.contains("thread 1 call 0: create /a"),
        "{error}"
    );
}

#[test]
fn a_call_that_returned_comes_before_one_that_began_later() {
    let calls = [vec![call("create /a 0644", Ok(0))], vec![call("unlink /a", Err(Fail::NotFound))]];
    let after = model("create /a 0644").snapshot();
    assert!(Orders::find(&Model::empty(), &calls, &events("0+ 1+ 0- 1-"), &after).is_ok());
    assert!(Orders::find(&Model::empty(), &calls, &events("1+ 1- 0+ 0-"), &after).is_ok());
    assert!(Orders::find(&Model::empty(), &calls, &events("0+ 0- 1+ 1-"), &after).is_err());
}

#[test]
fn what_is_left_tells_orders_apart() {
    let calls = [vec![call("write /a 0 5 #1", Ok(5))], vec![call("write /a 0 5 #2", Ok(5))]];
    let start = model("create /a 0644");
    let one = model("create /a 0644\nwrite /a 0 5 #1").snapshot();
    let other = model("create /a 0644\nwrite /a 0 5 #2").snapshot();
    let concurrent = events("0+ 1+ 0- 1-");
    let orders = Orders::find(&start, &calls, &concurrent, &one).unwrap();
    // Neither, the second, both, with either file held or not where it still can be; that only the first was done is on
    // no order that ends with it.
    assert_eq!(orders.len(), 7);
    assert!(orders.judge(DataMode::Journal, 4, &other).is_ok());
    assert!(Orders::find(&start, &calls, &events("0+ 0- 1+ 1-"), &other).is_ok());
    assert!(Orders::find(&start, &calls, &events("0+ 0- 1+ 1-"), &one).is_err());
    let neither = model("create /a 0644\nwrite /a 0 5 #3").snapshot();
    let error = Orders::find(&start, &calls, &concurrent, &neither).unwrap_err().to_string();
    assert!(error.contains("none what they left"), "{error}");
}

#[test]
fn equal_models_are_one_whatever_the_order() {
    let calls: Vec<Vec<Call>> = (0..4)
        .map(|i| vec![call(&format!("create /{i} 0644"), Ok(0)), call(&format!("mkdir /d{i} 0755"), Ok(0))])
        .collect();
    let after = model(&(0..4).map(|i| format!("create /{i} 0644\nmkdir /d{i} 0755\n")).collect::<String>());
    let all = "0+ 1+ 2+ 3+ 0- 1- 2- 3-";
    let orders = Orders::find(&Model::empty(), &calls, &events(&format!("{all} {all}")), &after.snapshot()).unwrap();
    // All have returned from the first call before any began the second: two cubes that share a corner.
    assert_eq!(orders.len(), 16 + 16 - 1);
}

#[test]
fn a_crash_keeps_what_had_returned_before_a_completed_sync_began() {
    let calls = [
        vec![call("create /a 0644", Ok(0)), call("sync", Ok(0))],
        vec![call("create /b 0644", Ok(0))],
        vec![call("create /c 0644", Ok(0))],
    ];
    let shown =
        |names: &str| model(&names.split(' ').map(|n| format!("create /{n} 0644\n")).collect::<String>()).snapshot();
    let after = shown("a b c");
    // Thread 1 returns before the sync begins, thread 2 only after that.
    let events = events("0+ 0- 1+ 2+ 1- 0+ 2- 0-");
    let orders = Orders::find(&Model::empty(), &calls, &events, &after).unwrap();
    assert_eq!(orders.allowed(0), (vec![0, 0, 0], vec![0, 0, 0]));
    assert_eq!(orders.allowed(4), (vec![0, 0, 0], vec![1, 1, 1]));
    assert_eq!(orders.allowed(8), (vec![1, 1, 0], vec![2, 1, 1]));
    assert!(orders.is_narrowed(8) && !orders.is_narrowed(7) && !orders.is_narrowed(0));
    let judge = |events, names: &str| orders.judge(DataMode::Journal, events, &shown(names));
    assert!(orders.judge(DataMode::Journal, 1, &Model::empty().snapshot()).is_ok());
    assert!(judge(4, "a c").is_ok());
    // `b` began after `a` had returned.
    assert!(judge(4, "b").is_err());
    assert!(judge(2, "a b").is_err());
    let early = judge(7, "a").unwrap();
    assert!(judge(7, "a c").is_ok() && !orders.still_allowed(DataMode::Journal, &early, 8));
    let error = judge(8, "a c").unwrap_err();
    assert!(error.contains("/b: missing"), "{error}");
    assert!(judge(8, "a b").is_ok() && judge(8, "a b c").is_ok());
}

#[test]
fn with_a_contract_by_file_an_fsync_covers_what_was_done_to_its_file() {
    let calls = [
        vec![call("write /a 0 8 #1", Ok(8)), call("mkdir /d 0755", Ok(0)), call("fsync /n", Ok(0))],
        vec![call("create /b 0644", Ok(0)), call("rename /a /n", Ok(0))],
        vec![call("write /a 0 8 #2", Ok(8)), call("create /e 0644", Ok(0))],
    ];
    let start = model("create /a 0644");
    let after = model("create /a 0644\nwrite /a 0 8 #2\nmkdir /d 0755\ncreate /b 0644\ncreate /e 0644\nrename /a /n");
    // Both writes, then `b`, the new name and `d`; `e` begins before the fsync and has not returned then.
    let events = events("0+ 0- 2+ 2- 1+ 1- 1+ 1- 0+ 0- 2+ 0+ 0- 2-");
    let orders = Orders::find(&start, &calls, &events, &after.snapshot()).unwrap();
    let prefix = orders.allowed(13).0;
    let by_file = orders.by_file(&calls);
    assert_eq!((prefix, by_file.allowed(13).0), (vec![2, 2, 1], vec![1, 2, 1]));
    assert!(by_file.is_narrowed(13) && by_file.allowed(12).0 == [0, 0, 0]);
    let judge = |lines: &str| by_file.judge(DataMode::Journal, 13, &model(lines).snapshot());
    let most = "create /a 0644\nwrite /a 0 8 #2\ncreate /b 0644\n";
    assert!(judge(most).unwrap_err().contains("/n"), "the new name is the file's");
    // The directory is nobody's affair.
    assert!(judge(&format!("{most}rename /a /n")).is_ok());
    assert!(judge(&format!("{most}rename /a /n\nmkdir /d 0755")).is_ok());
}

#[test]
fn bytes_in_place_may_be_those_of_a_later_call_and_of_no_other() {
    let lines = ["write /a 0 8 #1", "write /a 0 8 #2"];
    let calls = [vec![call(lines[0], Ok(8)), call(lines[1], Ok(8))]];
    let start = model("create /a 0644\nwrite /a 0 8 #7");
    let shown = |line: &str| model(&format!("create /a 0644\nwrite /a 0 8 #7\n{line}")).snapshot();
    let events = events("0+ 0- 0+ 0-");
    let orders = Orders::find(&start, &calls, &events, &shown(lines[1])).unwrap();
    // The first half of word 0 is equal in all fills.
    let torn = shown("write /a 4 2 #2");
    assert!(orders.judge(DataMode::Ordered, 3, &torn).is_ok());
    assert!(orders.judge(DataMode::Ordered, 2, &torn).is_err());
    assert!(orders.judge(DataMode::Journal, 3, &torn).is_err());
    let foreign = shown("write /a 4 2 #9");
    assert!(orders.judge(DataMode::Ordered, 4, &foreign).is_err());
    assert!(orders.judge(DataMode::Writeback, 4, &foreign).is_ok());
    let grown = shown("write /a 8 1 #1");
    assert!(orders.judge(DataMode::Writeback, 4, &grown).is_err());
}

#[test]
fn no_space_changes_nothing_and_a_short_write_writes_less() {
    let calls = [vec![call("create /a 0644", Err(Fail::NoSpace))], vec![call("write /b 0 100 #1", Ok(40))]];
    let after = model("create /b 0644\nwrite /b 0 40 #1").snapshot();
    assert!(Orders::find(&model("create /b 0644"), &calls, &events("0+ 1+ 0- 1-"), &after).is_ok());
}

/// The stores of one call, and those of another thread's calls at the same time.
fn found(commit: Outcome, others: &[&str], order: &str) -> bool {
    let start = model("create /a 0644\nwrite /a 0 90 #1");
    let calls = [
        vec![call("map-commit /a 40 10 20 2 #2", commit)],
        others.iter().map(|line| Call { op: op(line), outcome: Ok(0), failure: None }).collect(),
    ];
    let mut after = start.clone();
    others.iter().for_each(|line| assert_eq!(after.apply(&op(line)), Ok(0)));
    if commit.is_ok() {
        after.apply(&calls[0][0].op).unwrap();
    }
    Orders::find(&start, &calls, &events(order), &after.snapshot()).is_ok()
}

#[test]
fn a_map_may_be_too_short_when_it_is_made_and_when_it_is_committed() {
    let short = ["truncate /a 60", "truncate /a 90"];
    let (beside, behind, before) = ("0+ 1+ 1- 1+ 1- 0-", "0+ 0- 1+ 1- 1+ 1-", "1+ 1- 1+ 1- 0+ 0-");
    for order in [beside, behind, before] {
        assert_eq!(found(Err(Fail::Invalid), &short, order), order == beside, "{order}");
        assert_eq!(found(Ok(0), &short, order), order != behind, "{order}");
    }
    // It stays so: made before, and committed after that.
    assert!(found(Err(Fail::Invalid), &["truncate /a 60"], "0+ 1+ 1- 0-"));
    assert!(!found(Err(Fail::Invalid), &["truncate /a 70"], "0+ 1+ 1- 0-"));
    assert!(!found(Err(Fail::NotFound), &short, beside));
}

#[test]
fn a_commit_writes_to_what_its_path_led_to_and_leaves_what_others_write_beside_its_stores() {
    const START: &str = "create /a 0644\nwrite /a 0 90 #1\ncreate /b 0644\nwrite /b 0 90 #3\n";
    let other = [call("rename /b /a", Ok(0)), call("write /a 45 9 #4", Ok(9))];
    let is_found = |file: &str, order: &str, after: &str| {
        let commit = call(&format!("map-commit {file} 40 10 20 2 #2"), Ok(0));
        let calls = [vec![call("open @0 /a", Ok(0)), commit, call("close @0", Ok(0))], other.to_vec()];
        let after = model(&(START.to_owned() + after)).snapshot();
        Orders::find(&model(START), &calls, &events(&format!("0+ 0- {order} 0+ 0-")), &after).is_ok()
    };
    let (beside, behind) = ("0+ 1+ 1- 1+ 1- 0-", "1+ 1- 1+ 1- 0+ 0-");
    let lost = "rename /b /a\nwrite /a 45 9 #4";
    let first = "rename /b /a\nmap-commit /a 40 10 20 2 #2\nwrite /a 45 9 #4";
    let last = "rename /b /a\nwrite /a 45 9 #4\nmap-commit /a 40 10 20 2 #2";
    // A path may lead to either file, one of which has no name then.
    assert!([lost, first, last].iter().all(|after| is_found("/a", beside, after)));
    assert_eq!([lost, first, last].map(|after| is_found("/a", behind, after)), [false, false, true]);
    // The handle leads to the file that was.
    assert!(is_found("@0", beside, lost) && is_found("@0", behind, lost) && !is_found("@0", beside, last));
    // What the map was made of does not come back.
    assert!(!is_found("/a", beside, "rename /b /a\nmap-commit /a 40 10 20 2 #2"));
}

#[test]
fn a_commit_is_durable_with_what_returned_before_it_began() {
    const START: &str = "create /a 0644\nwrite /a 0 8 #1\ncreate /b 0644\n";
    let commit = "map-commit /a 0 8 8 1 #2";
    let orders = |threads: [&[&str]; 2], order: &str, done: &[&str]| {
        let calls = threads.map(|lines| lines.iter().map(|line| call(line, Ok(0))).collect::<Vec<_>>());
        let after = model(&(START.to_owned() + &done.join("\n"))).snapshot();
        let orders = Orders::find(&model(START), &calls, &events(order), &after).unwrap();
        (orders.clone(), orders.by_file(&calls))
    };
    let one = ["chmod /a 0600", commit, "chmod /b 0600"];
    let other = ["chmod /a 0640", "chmod /b 0640"];
    let done = [one[0], other[0], commit, other[1], one[2]];
    let (all, by_file) = orders([&one, &other], "1+ 0+ 0- 1- 1+ 0+ 0- 1- 0+ 0-", &done);
    assert_eq!(all.allowed(6), (vec![0, 0], vec![2, 2]));
    assert_eq!(all.allowed(7), (vec![2, 1], vec![2, 2]));
    assert_eq!(all.allowed(10), (vec![2, 1], vec![3, 2]));
    assert_eq!(by_file.allowed(10), (vec![2, 1], vec![3, 2]));
    // With a contract by file it covers itself, and with that what its thread did before.
    let (_, by_file) = orders([&one, &[]], "0+ 0- 0+ 0- 0+ 0-", &one);
    assert_eq!((by_file.allowed(3).0, by_file.allowed(4).0), (vec![0, 0], vec![2, 0]));
    // One that changes nothing covers nothing of others.
    let same = ["chmod /b 0600", "map-commit /a 0 8 8 1 #1"];
    let (all, by_file) = orders([&same, &[]], "0+ 0- 0+ 0-", &same);
    assert_eq!((all.allowed(4).0, by_file.allowed(4).0), (vec![2, 0], vec![0, 0]));
}

#[test]
fn bytes_of_a_commit_are_there_with_all_of_it_or_not_at_all() {
    const START: &str = "create /a 0644\nwrite /a 0 90 #1\n";
    let lines = ["map-commit /a 0 16 60 2 #2", "write /a 20 30 #3"];
    let calls = [vec![call(lines[0], Ok(0))], vec![call(lines[1], Ok(30))]];
    let shown = |line: &str| model(&(START.to_owned() + line)).snapshot();
    let all = lines.join("\n");
    let orders = Orders::find(&model(START), &calls, &events("0+ 1+ 0- 1-"), &shown(&all)).unwrap();
    let judge = |data, events, line: &str| orders.judge(data, events, &shown(line)).is_ok();
    for data in [DataMode::Journal, DataMode::Ordered, DataMode::Writeback] {
        // Neither, either, both.
        assert!(judge(data, 2, "") && judge(data, 2, lines[0]) && judge(data, 2, lines[1]) && judge(data, 2, &all));
        for part in ["write /a 0 16 #2", "write /a 60 16 #2", "write /a 4 2 #2"] {
            assert!(!judge(data, 1, part), "{data:?}: {part}");
        }
        assert!(!judge(data, 2, "write /a 0 16 #2") && !judge(data, 2, "write /a 0 16 #2\nwrite /a 20 30 #3"));
        // Durable with its return, the other is not.
        assert!(!judge(data, 3, "") && !judge(data, 3, lines[1]) && judge(data, 3, lines[0]));
        // Part of the write.
        let torn = format!("{}\nwrite /a 23 3 #3", lines[0]);
        assert_eq!(judge(data, 3, &torn), data != DataMode::Journal, "{data:?}");
    }
    // What the write has not made of a byte that it changes.
    let stale = format!("{}\nwrite /a 23 3 #9", lines[0]);
    assert!(!judge(DataMode::Ordered, 3, &stale) && judge(DataMode::Writeback, 3, &stale));
    assert!(!judge(DataMode::Writeback, 3, &format!("{}\nwrite /a 4 3 #9", lines[0])));
}
