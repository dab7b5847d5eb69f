//! The interface that builds use.

use std::sync::PoisonError;

use gpubuild_exec::store::entry::EntryInputs;
use gpubuild_exec::store::remote::{
    CheckInputs, PullOutcome, PushOutcome, RemoteLevel, RemoteLookup, TransferCost,
};
use gpubuild_exec::store::settings::Store;
use gpubuild_host::HostPath;

use super::error::RemoteError;
use super::pull::{self, PullError};
use super::push;
use super::session::RemoteStore;
use super::settings::RemoteAccess;

impl RemoteLevel for RemoteStore<'_> {
    fn name(&self) -> String {
        self.settings.url.clone()
    }

    fn pull(&self, store: &Store, name: &str, check: CheckInputs<'_>) -> PullOutcome {
        if self.is_off() {
            return PullOutcome::Absent;
        }
        let key = name.split('-').next().unwrap_or(name).to_owned();
        self.keys.lock().unwrap_or_else(PoisonError::into_inner).insert(key);
        let host = self.client.host;
        let started = host.elapsed();
        match self.operation(|call| pull::entry(self, store, name, check, call)) {
            Ok(None) => PullOutcome::Absent,
            Ok(Some((bytes, blobs))) => {
                self.count(|usage| {
                    usage.hits += 1;
                    usage.downloaded += bytes;
                });
                let seconds = host.elapsed().saturating_sub(started).as_secs_f64();
                PullOutcome::Pulled(TransferCost { bytes, blobs, seconds })
            }
            Err(PullError::Unusable(miss)) => PullOutcome::Unusable(miss),
            Err(PullError::Remote(error)) => {
                if self.failed(&error) {
                    PullOutcome::Failed(error.problem())
                } else {
                    PullOutcome::Absent
                }
            }
        }
    }

    fn look_up(&self, name: &str, check: CheckInputs<'_>) -> RemoteLookup {
        if self.is_off() {
            return RemoteLookup::Absent;
        }
        let found = self.operation(|call| {
            let Some((url, manifest)) = self.open(name, call)? else { return Ok(None) };
            let (_, inputs): (_, EntryInputs) = pull::inputs(self, &url, &manifest, call)?;
            check(&manifest.entry, &inputs).map_err(PullError::Unusable)?;
            Ok(Some(manifest))
        });
        match found {
            Ok(None) => RemoteLookup::Absent,
            Ok(Some(manifest)) => RemoteLookup::Usable(TransferCost {
                bytes: manifest.blobs.values().fold(0, |sum: u64, blob| sum.saturating_add(blob.bytes)),
                blobs: manifest.blobs.len(),
                seconds: 0.0,
            }),
            Err(PullError::Unusable(miss)) => RemoteLookup::Unusable(miss),
            Err(PullError::Remote(error)) => {
                self.failed(&error);
                RemoteLookup::Failed(error.problem())
            }
        }
    }

    fn push(&self, store: &Store, folder: &HostPath) -> PushOutcome {
        if self.is_off() || self.settings.access == RemoteAccess::Read {
            return PushOutcome::Off;
        }
        let host = self.client.host;
        let started = host.elapsed();
        match self.operation(|call| push::entry(self, store, folder, call)) {
            Ok(Ok((bytes, blobs))) => {
                self.count(|usage| (usage.saved, usage.uploaded) = (usage.saved + 1, usage.uploaded + bytes));
                let seconds = host.elapsed().saturating_sub(started).as_secs_f64();
                PushOutcome::Pushed(TransferCost { bytes, blobs, seconds })
            }
            Ok(Err(why)) => PushOutcome::NotShared(why),
            Err(error) => {
                let error: RemoteError = error;
                if self.failed(&error) { PushOutcome::Failed(error.problem()) } else { PushOutcome::Off }
            }
        }
    }
}
