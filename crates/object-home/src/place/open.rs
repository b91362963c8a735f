//! From a place to its store: credentials, region and endpoint come from where the tools of the store's maker look for
//! them, never from the name.

use super::{Bucket, Kind, Place, PlaceError, profile};
use crate::Wire;
use object_store::aws::AmazonS3Builder;
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ClientOptions, ObjectStore, Result};
use std::sync::Arc;
use std::time::Duration;

/// A request that has no answer after so long is repeated.
const REQUEST: Duration = Duration::from_secs(30);

impl Place {
    /// Its store. Nothing is asked of it yet. `make`: a directory that is not there is made.
    ///
    /// # Errors
    /// The environment does not say how to reach it; the directory is not there.
    pub fn bucket(&self, make: bool) -> Result<Bucket, PlaceError> {
        let wire = Wire::default();
        let store = match self.kind {
            Kind::Directory => return self.local(make),
            Kind::S3 => self.reached(self.s3()?.with_http_connector(wire.clone()).build())?,
            Kind::Gcs => {
                let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(&self.root);
                let builder = builder.with_http_connector(wire.clone());
                // As of S3: whoever names an endpoint without encryption means it.
                let plain = std::env::var("GOOGLE_BASE_URL").is_ok_and(|endpoint| endpoint.starts_with("http://"));
                self.reached(builder.with_client_options(patient().with_allow_http(plain)).build())?
            }
            Kind::Azure => {
                let builder = MicrosoftAzureBuilder::from_env().with_container_name(&self.root);
                let builder = builder.with_http_connector(wire.clone());
                self.reached(builder.with_client_options(patient()).build())?
            }
        };
        let bucket = Bucket::watched(store, &self.name, self.prefix.clone(), Some(wire));
        Ok(bucket.named(format!("{:?} {}", self.kind, self.root)))
    }

    fn reached<S: ObjectStore>(&self, built: Result<S>) -> Result<Arc<dyn ObjectStore>, PlaceError> {
        match built {
            Ok(store) => Ok(Arc::new(store)),
            Err(source) => Err(PlaceError::Environment { name: self.name.clone(), source }),
        }
    }

    fn s3(&self) -> Result<AmazonS3Builder, PlaceError> {
        let env = |key: &str| std::env::var(key).ok();
        let mut builder = AmazonS3Builder::from_env().with_bucket_name(&self.root);
        let endpoint = env("AWS_ENDPOINT_URL_S3").or_else(|| env("AWS_ENDPOINT_URL")).or_else(|| env("AWS_ENDPOINT"));
        // Whoever names an endpoint without encryption means it.
        let plain = endpoint.is_some_and(|endpoint| endpoint.starts_with("http://"));
        builder = builder.with_client_options(patient().with_allow_http(plain)).with_allow_http(plain);
        if let Some(keys) = profile::find(&env)? {
            builder = builder.with_access_key_id(keys.id).with_secret_access_key(keys.secret);
            if let Some(token) = keys.token {
                builder = builder.with_token(token);
            }
            if let Some(region) =
                keys.region.filter(|_| env("AWS_REGION").or_else(|| env("AWS_DEFAULT_REGION")).is_none())
            {
                builder = builder.with_region(region);
            }
        }
        Ok(builder)
    }

    /// A directory. Files are flushed before they are acknowledged. Its store is the directory above, so that a clone
    /// beside it is in the same one; the directory itself goes with its last object, and comes with the next.
    fn local(&self, make: bool) -> Result<Bucket, PlaceError> {
        let fault = |what| {
            let name = self.name.clone();
            move |source| PlaceError::Directory { what, name, source }
        };
        if make {
            std::fs::create_dir_all(&self.root).map_err(fault("make"))?;
        }
        if !std::fs::metadata(&self.root).map_err(fault("open"))?.is_dir() {
            return Err(fault("open")(std::io::ErrorKind::NotADirectory.into()));
        }
        let root = std::fs::canonicalize(&self.root).map_err(fault("open"))?;
        let (above, prefix) = match (root.parent(), root.file_name().and_then(|name| name.to_str())) {
            (Some(above), Some(name)) => match Path::parse(name) {
                Ok(prefix) => (above, prefix),
                // What no object can be named is a store of its own.
                Err(_) => (root.as_path(), Path::default()),
            },
            _ => (root.as_path(), Path::default()),
        };
        let store = LocalFileSystem::new_with_prefix(above);
        let store = self.reached(store.map(|store| store.with_fsync(true).with_automatic_cleanup(true)))?;
        Ok(Bucket::new(store, &self.name, prefix).named(format!("{:?} {}", self.kind, above.display())))
    }
}

fn patient() -> ClientOptions {
    ClientOptions::new().with_timeout(REQUEST)
}
