use super::*;
use crate::Border;
use object_store::aws::AmazonS3Builder;
use object_store::memory::InMemory;
use object_store::{ClientOptions, ObjectStoreExt, RetryConfig};
use std::io::{Read, Write};
use std::net::TcpListener;

fn metered(inner: impl ObjectStore) -> (Meter, Arc<Counts>) {
    let counts = Arc::new(Counts::new(None));
    (Meter::new(Arc::new(inner), counts.clone()), counts)
}

fn asked(counts: &Counts) -> Requests {
    Requests { seconds: 0, ..counts.requests() }
}

#[test]
fn each_kind_of_request_is_counted_with_its_bytes() {
    let (store, counts) = metered(InMemory::new());
    Border::new(1).unwrap().wait(async move {
        let (one, two) = (Path::from("a/one"), Path::from("a/two"));
        store.put(&one, vec![1; 100].into()).await.unwrap();
        store.get(&one).await.unwrap().bytes().await.unwrap();
        store.get_range(&one, 10..30).await.unwrap();
        assert_eq!(store.head(&one).await.unwrap().size, 100);
        store.copy(&one, &two).await.unwrap();
        store.list(None).try_collect::<Vec<_>>().await.unwrap();
        store.list_with_delimiter(None).await.unwrap();
        let mut upload = store.put_multipart(&two).await.unwrap();
        upload.put_part(vec![2; 1000].into()).await.unwrap();
        upload.put_part(vec![3; 500].into()).await.unwrap();
        upload.complete().await.unwrap();
        store.delete(&two).await.unwrap();
        let expected = Requests {
            puts: 1,
            gets: 2,
            heads: 1,
            lists: 2,
            deletes: 1,
            copies: 1,
            uploads: 2,
            parts: 2,
            up: 1600,
            down: 120,
            ..Requests::default()
        };
        assert_eq!(asked(&counts), expected);
    });
}

#[test]
fn a_long_list_is_counted_by_its_pages() {
    let (store, counts) = metered(InMemory::new());
    Border::new(1).unwrap().wait(async move {
        for n in 0..2001 {
            store.put(&Path::from(format!("{n}")), "".into()).await.unwrap();
        }
        assert_eq!(store.list(None).try_collect::<Vec<_>>().await.unwrap().len(), 2001);
        assert_eq!(asked(&counts).lists, 3);
        store.list_with_delimiter(None).await.unwrap();
        assert_eq!(asked(&counts).lists, 6);
    });
}

#[test]
fn words_of_a_throttled_store_are_known() {
    let said = |text: &str| Error::Generic { store: "S3", source: text.to_owned().into() };
    assert!(is_throttle(&said("Server returned non-2xx status code: 503 Service Unavailable: ")));
    assert!(is_throttle(&said("<Code>SlowDown</Code>")));
    assert!(!is_throttle(&said("500 Internal Server Error")));
}

/// Answers one request after the other with these status lines.
fn serve(answers: &'static [&'static str]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    ondol_env::sync::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            let head = format!("HTTP/1.1 {answer}\r\nContent-Length: 0\r\nETag: \"1\"\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).unwrap();
        }
    });
    port
}

#[test]
fn what_a_client_repeats_is_seen_in_the_answers() {
    let port = serve(&["503 Slow Down", "429 Too Many", "500 Oh", "200 OK"]);
    let wire = Wire::default();
    let retry =
        RetryConfig { backoff: object_store::BackoffConfig::default(), max_retries: 5, ..RetryConfig::default() };
    let s3 = AmazonS3Builder::new().with_bucket_name("b").with_endpoint(format!("http://127.0.0.1:{port}"));
    let s3 = s3.with_access_key_id("x").with_secret_access_key("y").with_retry(retry).with_allow_http(true);
    let s3 = s3.with_client_options(ClientOptions::new().with_allow_http(true)).with_http_connector(wire.clone());
    let counts = Arc::new(Counts::new(Some(wire)));
    let store = Meter::new(Arc::new(s3.build().unwrap()), counts.clone());
    Border::new(1).unwrap().wait(async move { store.put(&Path::from("a"), "1".into()).await.unwrap() });
    let asked = asked(&counts);
    assert_eq!((asked.puts, asked.repeated, asked.throttled, asked.failed), (1, 3, 2, 0));
}
