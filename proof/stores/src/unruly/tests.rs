use super::*;
use bytes::Bytes;
use object_store::{Error, PutMode};

fn store() -> Unruly {
    Unruly::new(Arc::new(InMemory::new()))
}

fn path(name: &str) -> Path {
    Path::from(name)
}

async fn put(store: &Unruly, name: &str, bytes: &'static str) -> Result<PutResult> {
    store.put(&path(name), bytes.into()).await
}

async fn create(store: &Unruly, name: &str, bytes: &'static str) -> Result<PutResult> {
    store.put_opts(&path(name), bytes.into(), PutOptions::from(PutMode::Create)).await
}

async fn read(store: &dyn ObjectStore, name: &str) -> Result<Bytes> {
    store.get(&path(name)).await?.bytes().await
}

fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn without_a_plan_it_is_the_store_below_and_counts() {
    wait(async {
        let store = store();
        create(&store, "a", "one").await.unwrap();
        assert!(matches!(create(&store, "a", "two").await, Err(Error::AlreadyExists { .. })));
        put(&store, "b", "three").await.unwrap();
        assert_eq!(read(&store, "a").await.unwrap(), "one");
        let ranges = store.get_ranges(&path("b"), &[0..2, 3..5]).await.unwrap();
        assert_eq!(ranges, ["th", "ee"]);
        store.copy(&path("a"), &path("c")).await.unwrap();
        let listed: Vec<ObjectMeta> = store.list(None).try_collect().await.unwrap();
        assert_eq!(listed.iter().map(|meta| meta.location.as_ref()).collect::<Vec<_>>(), ["a", "b", "c"]);
        store.delete(&path("a")).await.unwrap();
        assert!(matches!(read(&store, "a").await, Err(Error::NotFound { .. })));
        let counts = store.counts();
        assert_eq!((counts.puts, counts.lists, counts.deletes, counts.put_bytes), (4, 1, 1, 11));
        assert_eq!((counts.gets, counts.get_bytes), (3, 8));
    });
}

#[test]
fn a_request_that_fails_before_does_nothing_and_one_that_fails_after_is_done() {
    wait(async {
        let store = store();
        store.follow(Plan { fail_before: 1000, ..Plan::default() });
        put(&store, "a", "one").await.unwrap_err();
        assert!(matches!(read(store.inner(), "a").await, Err(Error::NotFound { .. })));
        store.follow(Plan { fail_after: 1000, ..Plan::default() });
        put(&store, "a", "two").await.unwrap_err();
        assert_eq!(read(store.inner(), "a").await.unwrap(), "two");
        read(&store, "a").await.unwrap_err();
        assert!(store.list(None).try_collect::<Vec<_>>().await.is_err());
        store.delete(&path("a")).await.unwrap_err();
        assert!(matches!(read(store.inner(), "a").await, Err(Error::NotFound { .. })));
    });
}

#[test]
fn a_put_that_is_dropped_is_acknowledged() {
    wait(async {
        let store = store();
        store.follow(Plan { dropped: 1000, ..Plan::default() });
        put(&store, "a", "one").await.unwrap();
        assert!(matches!(read(store.inner(), "a").await, Err(Error::NotFound { .. })));
    });
}

#[test]
fn lists_may_be_empty_and_deletes_do_nothing() {
    wait(async {
        let store = store();
        put(&store, "a", "one").await.unwrap();
        store.follow(Plan { unlisted: 1000, undeleted: 1000, ..Plan::default() });
        assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap(), []);
        store.delete(&path("a")).await.unwrap();
        assert_eq!(read(&store, "a").await.unwrap(), "one");
    });
}

#[test]
fn a_stale_read_returns_what_was_there_before_the_last_put() {
    wait(async {
        let store = store();
        store.follow(Plan { stale: 1000, ..Plan::default() });
        put(&store, "a", "one").await.unwrap();
        assert!(matches!(read(&store, "a").await, Err(Error::NotFound { .. })));
        put(&store, "a", "two").await.unwrap();
        assert_eq!(read(&store, "a").await.unwrap(), "one");
        put(&store, "a", "three").await.unwrap();
        assert_eq!(read(&store, "a").await.unwrap(), "two");
        assert_eq!(read(store.inner(), "a").await.unwrap(), "three");
    });
}

#[test]
fn a_put_that_is_held_is_overtaken() {
    let plan = Plan { held: 500, ..Plan::default() };
    let is_held =
        |name: &str| plan.fate(&Request::Put { path: path(name), bytes: Bytes::new(), mode: Mode::Overwrite }, 0).held;
    let names: Vec<String> = (0..50).map(|n| format!("object-{n}")).collect();
    let held = names.iter().find(|name| is_held(name)).unwrap().clone();
    let others: Vec<String> = names.into_iter().filter(|name| !is_held(name)).take(3).collect();
    wait(async move {
        let store = store();
        store.follow(plan);
        store.record();
        let held = path(&held);
        let first = store.put(&held, "held".into());
        let rest = others.iter().map(|name| {
            let store = store.clone();
            async move { put(&store, name, "later").await }
        });
        let (first, rest) = futures_util::future::join(first, futures_util::future::join_all(rest)).await;
        first.unwrap();
        assert!(rest.iter().all(Result::is_ok));
        let answered = |event: &Event| match event {
            Event::Answered { id, answer } => Some((*id, *answer)),
            Event::Asked { .. } => None,
        };
        let answers: Vec<_> = store.events().iter().filter_map(answered).collect();
        assert_eq!(answers.len(), 4);
        let place = answers.iter().position(|(id, _)| *id == 0).unwrap();
        assert!(place >= 2, "{answers:?}");
        // Alone, it is not held for ever.
        store.put(&held, "again".into()).await.unwrap();
    });
}

#[test]
fn changes_and_their_answers_are_noted() {
    wait(async {
        let store = store();
        put(&store, "before", "one").await.unwrap();
        store.record();
        create(&store, "a", "one").await.unwrap();
        create(&store, "a", "two").await.unwrap_err();
        read(&store, "a").await.unwrap();
        store.delete(&path("a")).await.unwrap();
        let asked = |event: &Event| matches!(event, Event::Asked { .. });
        let events = store.events();
        assert_eq!(events.iter().map(asked).collect::<Vec<_>>(), [true, false, true, false, true, false]);
        let one = Request::Put { path: path("a"), bytes: "one".into(), mode: Mode::Create };
        assert_eq!(events[0], Event::Asked { id: 1, request: one });
        assert_eq!(events[1], Event::Answered { id: 1, answer: Answer::Done });
        assert_eq!(events[3], Event::Answered { id: 2, answer: Answer::Refused });
        let gone = Request::Delete { path: path("a") };
        assert_eq!(events[4], Event::Asked { id: 4, request: gone });
    });
}

#[test]
fn an_upload_in_parts_is_counted_and_noted_when_it_ends() {
    wait(async {
        let store = store();
        store.record();
        let mut upload = store.put_multipart(&path("a")).await.unwrap();
        let parts = [upload.put_part("one".into()), upload.put_part("three".into())];
        futures_util::future::join_all(parts).await.into_iter().for_each(|part| part.unwrap());
        assert_eq!(store.events(), []);
        assert!(matches!(read(&store, "a").await, Err(Error::NotFound { .. })));
        upload.complete().await.unwrap();
        assert_eq!(read(&store, "a").await.unwrap(), "onethree");
        let counts = store.counts();
        assert_eq!((counts.puts, counts.uploads, counts.parts, counts.put_bytes), (0, 2, 2, 8));
        let whole = Request::Complete { path: path("a"), bytes: "onethree".into() };
        assert!(matches!(&store.events()[0], Event::Asked { request, .. } if *request == whole));
        store.follow(Plan { fail_before: 1000, ..Plan::default() });
        assert!(store.put_multipart(&path("b")).await.is_err());
        store.follow(Plan::default());
        let mut upload = store.put_multipart(&path("b")).await.unwrap();
        store.follow(Plan { fail_after: 1000, ..Plan::default() });
        upload.put_part("one".into()).await.unwrap_err();
        upload.complete().await.unwrap_err();
        assert_eq!(read(store.inner(), "b").await.unwrap(), "one");
        assert!(matches!(store.events().last(), Some(Event::Answered { answer: Answer::Failed, .. })));
    });
}

#[test]
fn copies_misbehave_as_puts_do() {
    wait(async {
        let store = store();
        put(&store, "a", "one").await.unwrap();
        store.follow(Plan { dropped: 1000, ..Plan::default() });
        store.copy(&path("a"), &path("b")).await.unwrap();
        assert!(matches!(read(&store, "b").await, Err(Error::NotFound { .. })));
        store.follow(Plan { stale: 1000, ..Plan::default() });
        put(&store, "b", "two").await.unwrap();
        store.copy(&path("a"), &path("b")).await.unwrap();
        assert_eq!(
            (read(&store, "b").await.unwrap(), read(store.inner(), "b").await.unwrap()),
            ("two".into(), "one".into())
        );
        store.follow(Plan { creates: Conditions::Ignored, ..Plan::default() });
        put(&store, "c", "three").await.unwrap();
        store.copy_if_not_exists(&path("c"), &path("b")).await.unwrap();
        assert_eq!(read(&store, "b").await.unwrap(), "three");
        store.follow(Plan::default());
        store.copy_if_not_exists(&path("a"), &path("b")).await.unwrap_err();
    });
}

#[test]
fn a_list_may_lack_what_was_put_last() {
    wait(async {
        let store = store();
        put(&store, "a", "one").await.unwrap();
        put(&store, "b", "two").await.unwrap();
        store.follow(Plan { behind: 1000, ..Plan::default() });
        let listed = || store.list(None).map_ok(|meta| meta.location.to_string()).try_collect::<Vec<_>>();
        assert_eq!(listed().await.unwrap(), ["a"]);
        put(&store, "c", "three").await.unwrap();
        assert_eq!(listed().await.unwrap(), ["a", "b"]);
    });
}

#[test]
fn the_same_plan_does_the_same_to_the_same_requests() {
    let run = || {
        wait(async {
            let store = store();
            store.follow(Plan { seed: 3, turns: 4, fail_before: 300, fail_after: 200, ..Plan::default() });
            let mut ended = Vec::new();
            for n in 0..60 {
                ended.push(put(&store, ["a", "b", "c"][n % 3], "bytes").await.is_ok());
            }
            ended
        })
    };
    let first = run();
    assert_eq!(first, run());
    assert!(first.contains(&true) && first.contains(&false));
}
