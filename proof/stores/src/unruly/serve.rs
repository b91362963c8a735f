//! How a request is carried out, or not.

use super::plan::{Conditions, Fate};
use super::{Answer, Request, Unruly};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, Error, GetResult, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, PutResult,
    Result, UpdateVersion,
};
use ondol_env::sync::atomic::Ordering::SeqCst;
use std::future::Future;

/// A put that is held goes on when so many others are done,
const OVERTAKEN: u64 = 2;
/// or after so many turns: none may come before it is answered.
const PATIENCE: u32 = 200;

/// A read that is under way. It may be given up.
struct Reading<'u>(&'u Unruly);

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.shared.ledger.lock().read();
    }
}

impl Unruly {
    /// Carries out what `work` does for `request`, as the plan wants.
    pub(super) async fn serve<T, F>(&self, request: Request, work: impl FnOnce(Fate) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        let (id, nth) = self.shared.ledger.lock().ask(&request);
        let _reading = matches!(request, Request::Get { .. }).then(|| Reading(self));
        let fate = self.shared.plan.lock().fate(&request, nth);
        let served = self.meet(fate, work).await;
        let answer = match &served {
            Ok(_) => Answer::Done,
            Err(e) if is_refusal(e) => Answer::Refused,
            Err(_) => Answer::Failed,
        };
        self.shared.ledger.lock().answer(id, &request, answer);
        served
    }

    async fn meet<T, F>(&self, fate: Fate, work: impl FnOnce(Fate) -> F) -> Result<T>
    where
        F: Future<Output = Result<T>>,
    {
        if !fate.latency.is_zero() {
            tokio::time::sleep(fate.latency).await;
        }
        turns(fate.turns_before).await;
        if fate.held {
            self.hold().await;
        }
        if fate.fail_before {
            return Err(failure("nothing was done"));
        }
        let done = work(fate).await;
        turns(fate.turns_after).await;
        if fate.fail_after {
            return Err(failure("the answer was lost"));
        }
        done
    }

    async fn hold(&self) {
        let done = || self.shared.ledger.lock().puts_done();
        let enough = done() + OVERTAKEN;
        for _ in 0..PATIENCE {
            if done() >= enough {
                return;
            }
            tokio::task::yield_now().await;
        }
    }

    /// A put, under the conditions that the plan lets count.
    pub(super) async fn put_under(
        &self,
        fate: Fate,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        if fate.dropped {
            return Ok(dropped());
        }
        let conditions = match opts.mode {
            PutMode::Overwrite => Conditions::Kept,
            PutMode::Create => fate.creates,
            PutMode::Update(_) => fate.updates,
        };
        let overwriting = PutOptions { mode: PutMode::Overwrite, ..opts.clone() };
        let opts = match conditions {
            Conditions::Kept => opts,
            Conditions::Ignored => overwriting,
            Conditions::Racy => {
                self.look(location, &opts.mode).await?;
                tokio::task::yield_now().await;
                overwriting
            }
            Conditions::Feigned => {
                let looked = self.look(location, &opts.mode).await;
                let put = self.put_now(location, payload, overwriting).await?;
                return looked.map(|()| put);
            }
            Conditions::Refused => return Err(refused(location, &opts.mode)),
            Conditions::Contended if self.meets_another().await => return Err(refused(location, &opts.mode)),
            Conditions::Contended => opts,
            Conditions::Missing => {
                let operation = "a put with this condition".into();
                return Err(Error::NotImplemented { operation, implementer: self.to_string() });
            }
        };
        self.put_now(location, payload, opts).await
    }

    /// Whether another put with a condition is under way beside this one.
    async fn meets_another(&self) -> bool {
        self.shared.contending.fetch_add(1, SeqCst);
        tokio::task::yield_now().await;
        let met = self.shared.contending.load(SeqCst) > 1;
        // All that are under way are to see each other.
        tokio::task::yield_now().await;
        self.shared.contending.fetch_sub(1, SeqCst);
        met
    }

    /// Whether a condition holds at this moment.
    async fn look(&self, location: &Path, mode: &PutMode) -> Result<()> {
        let found = match self.inner.head(location).await {
            Ok(meta) => Some(UpdateVersion { e_tag: meta.e_tag, version: meta.version }),
            Err(Error::NotFound { .. }) => None,
            Err(e) => return Err(e),
        };
        let holds = match mode {
            PutMode::Overwrite => true,
            PutMode::Create => found.is_none(),
            PutMode::Update(version) => found.as_ref() == Some(version),
        };
        if holds { Ok(()) } else { Err(refused(location, mode)) }
    }

    /// Keeps what the object held, for stale reads, and puts.
    async fn put_now(&self, location: &Path, payload: PutPayload, opts: PutOptions) -> Result<PutResult> {
        let old = self.old(location).await;
        let put = self.inner.put_opts(location, payload, opts).await?;
        self.keep(location, old).await?;
        Ok(put)
    }

    /// A copy, under the conditions that the plan lets count.
    pub(super) async fn copy_under(&self, fate: Fate, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        if fate.dropped {
            return Ok(());
        }
        let mode = match fate.creates {
            Conditions::Ignored => CopyMode::Overwrite,
            _ => options.mode,
        };
        let old = self.old(to).await;
        self.inner.copy_opts(from, to, CopyOptions { mode, ..options }).await?;
        self.keep(to, old).await
    }

    /// What an object holds before it is put, if that is wanted later.
    pub(super) async fn old(&self, location: &Path) -> Option<GetResult> {
        let is_kept = self.shared.plan.lock().stale > 0;
        if is_kept { self.inner.get(location).await.ok() } else { None }
    }

    /// Keeps what an object held.
    pub(super) async fn keep(&self, location: &Path, old: Option<GetResult>) -> Result<()> {
        if let Some(old) = old {
            let bytes = old.bytes().await?;
            self.shared.before.put(location, bytes.into()).await?;
        }
        Ok(())
    }
}

/// The answer to what was not done.
pub(super) fn dropped() -> PutResult {
    PutResult { e_tag: Some("\"dropped\"".into()), version: None, extensions: Default::default() }
}

/// The store has looked, and done nothing.
fn is_refusal(e: &Error) -> bool {
    matches!(
        e,
        Error::NotFound { .. }
            | Error::AlreadyExists { .. }
            | Error::Precondition { .. }
            | Error::NotModified { .. }
            | Error::NotImplemented { .. }
    )
}

async fn turns(n: u32) {
    for _ in 0..n {
        tokio::task::yield_now().await;
    }
}

fn failure(what: &'static str) -> Error {
    Error::Generic { store: "Unruly", source: format!("on purpose: {what}").into() }
}

fn refused(location: &Path, mode: &PutMode) -> Error {
    let (path, source) = (location.to_string(), "the condition does not hold".into());
    match mode {
        PutMode::Create => Error::AlreadyExists { path, source },
        _ => Error::Precondition { path, source },
    }
}
