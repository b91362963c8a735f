use super::*;
use crate::Border;
use object_store::memory::InMemory;

fn lease(token: &str) -> Lease {
    // A holder of another machine: whether it is gone cannot be seen.
    let holder = Holder { boot: "another".into(), purpose: format!("of {token}"), ..Holder::this("") };
    Lease { holder, token: token.into(), length: Duration::from_secs(60), returned: false }
}

fn leases() -> Leases {
    Leases { store: Arc::new(InMemory::new()), dir: Path::from("vol/lease"), name: "the volume".into() }
}

fn wait<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> T {
    Border::new(1).unwrap().wait(work)
}

#[test]
fn a_lease_is_read_as_it_was_written_and_anything_else_is_nobodys() {
    let mut one = lease("one");
    one.holder.machine = "two\nlines".into();
    one.length = Duration::from_millis(1500);
    let text = one.encode();
    let read = Lease::decode(text.as_bytes()).unwrap();
    one.holder.machine = "two?lines".into();
    assert_eq!(read, one);
    for cut in 0..text.len() - "of one\n".len() {
        assert_eq!(Lease::decode(&text.as_bytes()[..cut]), None, "{cut}");
    }
    for other in ["", "ondol lease 2\n", "\u{fffd}"] {
        assert_eq!(Lease::decode(other.as_bytes()), None);
    }
    assert_eq!(Lease::decode(text.replace("length 1.5", "length -1").as_bytes()), None);
    assert_eq!(Lease::decode(text.replace("length 1.5", "length inf").as_bytes()), None);
}

#[test]
fn a_living_lease_is_in_the_way_unless_it_is_taken_over_or_given_back() {
    wait(async {
        let leases = leases();
        assert_eq!(leases.take(&lease("one"), false).await.unwrap(), 1);
        let refused = leases.take(&lease("two"), false).await.unwrap_err();
        let HomeError::Held { by, length, .. } = &refused else { panic!("{refused}") };
        assert!(by.contains("of one") && *length == 60, "{refused}");
        assert_eq!(leases.take(&lease("two"), true).await.unwrap(), 2);
        assert_eq!(leases.other_than("two").await.unwrap(), None);
        assert!(leases.other_than("one").await.unwrap().unwrap().contains("of two"));
        let returned = Lease { returned: true, ..lease("two") };
        assert_eq!(leases.create(3, &returned).await.unwrap(), Ok(3));
        assert_eq!(leases.take(&lease("three"), false).await.unwrap(), 4);
    });
}

#[test]
fn a_lease_that_has_run_out_or_whose_process_is_gone_is_in_nobodys_way() {
    wait(async {
        let leases = leases();
        let short = Lease { length: Duration::ZERO, ..lease("one") };
        leases.take(&short, false).await.unwrap();
        let this = Holder::this("");
        let gone = Lease { holder: Holder { start: this.start - 1, ..this.clone() }, ..lease("two") };
        assert_eq!(leases.take(&gone, false).await.unwrap(), 2);
        let alive = Lease { holder: this, ..lease("three") };
        assert_eq!(leases.take(&alive, false).await.unwrap(), 3);
        assert!(matches!(leases.take(&lease("four"), false).await, Err(HomeError::Held { .. })));
    });
}

#[test]
fn whoever_renews_a_lease_that_was_taken_over_is_told_by_whom() {
    wait(async {
        let leases = leases();
        let one = lease("one");
        let number = leases.take(&one, false).await.unwrap();
        assert_eq!(leases.create(number + 1, &one).await.unwrap(), Ok(2));
        leases.take(&lease("two"), true).await.unwrap();
        let by = leases.create(3, &one).await.unwrap().unwrap_err();
        assert!(by.contains("of two"), "{by}");
    });
}

#[test]
fn of_many_who_want_a_lease_at_once_one_gets_it() {
    wait(async {
        let leases = leases();
        let wanting = (0..16).map(|n| {
            let leases = leases.clone();
            async move { leases.take(&lease(&format!("number {n}")), false).await }
        });
        let taken = futures_util::future::join_all(wanting).await;
        assert_eq!(taken.iter().filter(|taken| taken.is_ok()).count(), 1);
        assert!(taken.iter().all(|taken| matches!(taken, Ok(1) | Err(HomeError::Held { .. }))));
    });
}

#[test]
fn old_leases_are_swept_but_never_the_newest() {
    wait(async {
        let leases = leases();
        for n in 1..=5 {
            leases.create(n, &lease("one")).await.unwrap().unwrap();
        }
        leases.sweep(Duration::from_secs(60)).await.unwrap();
        assert_eq!(leases.all().await.unwrap().len(), 5);
        leases.sweep(Duration::ZERO).await.unwrap();
        assert_eq!(leases.all().await.unwrap().into_iter().map(|(number, _)| number).collect::<Vec<_>>(), [5]);
    });
}

#[test]
fn a_store_that_denies_is_told_from_one_that_fails() {
    let denied = object_store::Error::PermissionDenied { path: "x".into(), source: "no".into() };
    assert!(matches!(HomeError::of_store("v", "to x", &denied), HomeError::Denied { .. }));
    let failed = object_store::Error::Generic { store: "x", source: "no".into() };
    assert!(matches!(HomeError::of_store("v", "to x", &failed), HomeError::Store { .. }));
}
