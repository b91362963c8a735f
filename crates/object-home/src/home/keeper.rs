//! Renews the lease while the volume is open for writing.

use super::HomeError;
use super::lease::{Lease, Leases};
use super::settle::Turn;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use ondol_env::{Env, System};
use std::sync::Arc;
use std::time::Duration;

/// Who has the lease.
#[derive(Clone)]
pub(super) struct Keeper {
    leases: Leases,
    lease: Arc<Lease>,
    number: Arc<Mutex<u64>>,
    ended: Arc<AtomicBool>,
    /// When it was taken or renewed last.
    renewed: Arc<AtomicU64>,
}

/// The lease of who has a volume open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// For how long others keep away after it was renewed.
    pub length: Duration,
    /// How long that is ago.
    pub age: Duration,
}

impl Keeper {
    /// `lease` was taken under `number`.
    pub(super) fn new(leases: Leases, lease: Lease, number: u64) -> Self {
        let renewed = Arc::new(AtomicU64::new(System.monotonic_ns()));
        Self { leases, lease: Arc::new(lease), number: Arc::new(Mutex::new(number)), ended: Arc::default(), renewed }
    }

    /// Its length, and how long ago it was taken or renewed. None: it was given back.
    pub(super) fn held(&self) -> Option<Leased> {
        let age = System.monotonic_ns().saturating_sub(self.renewed.load(SeqCst));
        (!self.ended.load(SeqCst)).then_some(Leased { length: self.lease.length, age: Duration::from_nanos(age) })
    }

    pub(super) fn leases(&self) -> (Leases, String) {
        (self.leases.clone(), self.lease.token.clone())
    }

    /// Renews three times in each length, until the lease is given back or lost: then everything ends. Who cannot renew
    /// goes on, for it is the fence that protects.
    pub(super) async fn keep(self, turn: Arc<Turn>) {
        let mut renewed = 0u32;
        loop {
            tokio::time::sleep((self.lease.length / 3).max(SHORTEST)).await;
            if self.ended.load(SeqCst) {
                return;
            }
            let next = *self.number.lock() + 1;
            match self.leases.create(next, &self.lease).await {
                Ok(Ok(number)) => {
                    *self.number.lock() = number;
                    self.renewed.store(System.monotonic_ns(), SeqCst);
                }
                // It is this process's own, given back meanwhile.
                Ok(Err(_)) if self.ended.load(SeqCst) => return,
                Ok(Err(by)) => {
                    tracing::error!("{} was taken over by {by}", self.leases.name);
                    self.ended.store(true, SeqCst);
                    turn.fail(HomeError::Fenced { name: self.leases.name.clone(), by });
                    return;
                }
                Err(e) => tracing::warn!("{}: the lease could not be renewed: {e}", self.leases.name),
            }
            renewed += 1;
            if renewed.is_multiple_of(SWEPT)
                && let Err(e) = self.leases.sweep(self.lease.length).await
            {
                tracing::debug!("{}: old leases stay: {e}", self.leases.name);
            }
        }
    }

    /// Tells others that they need not wait.
    pub(super) async fn give_back(self) -> Result<(), HomeError> {
        self.ended.store(true, SeqCst);
        let returned = Lease { returned: true, ..Lease::clone(&self.lease) };
        let next = *self.number.lock() + 1;
        if let Err(by) = self.leases.create(next, &returned).await? {
            tracing::warn!("{} was taken over by {by} while it was closed", self.leases.name);
        }
        Ok(())
    }
}

/// A lease is not renewed more often.
const SHORTEST: Duration = Duration::from_millis(10);

/// After so many renewals, old leases are deleted.
const SWEPT: u32 = 60;
