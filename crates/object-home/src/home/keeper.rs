//! Renews the lease while the volume is open for writing.

use super::HomeError;
use super::lease::{Lease, Leases};
use super::settle::Turn;
use ondol_env::sync::Mutex;
use ondol_env::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::Arc;

/// Who has the lease.
#[derive(Clone)]
pub(super) struct Keeper {
    leases: Leases,
    lease: Arc<Lease>,
    number: Arc<Mutex<u64>>,
    ended: Arc<AtomicBool>,
}

impl Keeper {
    /// `lease` was taken under `number`.
    pub(super) fn new(leases: Leases, lease: Lease, number: u64) -> Self {
        Self { leases, lease: Arc::new(lease), number: Arc::new(Mutex::new(number)), ended: Arc::default() }
    }

    pub(super) fn leases(&self) -> (Leases, String) {
        (self.leases.clone(), self.lease.token.clone())
    }

    /// Renews three times in each length, until the lease is given back or lost: then everything ends. Who cannot renew goes on, for it is the fence that protects.
    pub(super) async fn keep(self, turn: Arc<Turn>) {
        let mut renewed = 0u32;
        loop {
            tokio::time::sleep((self.lease.length / 3).max(SHORTEST)).await;
            if self.ended.load(SeqCst) {
                return;
            }
            let next = *self.number.lock() + 1;
            match self.leases.create(next, &self.lease).await {
                Ok(Ok(number)) => *self.number.lock() = number,
                // It is this process's own, given back meanwhile.
                Ok(Err(_)) if self.ended.load(SeqCst) => return,
                Ok(Err(by)) => {
                    tracing::error!("{} was taken over by {by}", self.leases.name);
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
const SHORTEST: std::time::Duration = std::time::Duration::from_millis(10);

/// After so many renewals, old leases are deleted.
const SWEPT: u32 = 60;
