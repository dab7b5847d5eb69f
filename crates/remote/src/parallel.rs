//! Runs transfers in a few threads.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::error::RemoteError;

/// Maximum number of transfers at once.
const THREADS: usize = 4;

/// Calls `work` for every item. After the first error no further item is started, and the error is returned.
pub(crate) fn for_each<T: Sync>(
    items: &[T],
    work: impl Fn(&T) -> Result<(), RemoteError> + Sync,
) -> Result<(), RemoteError> {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(None);
    let run = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            if let Err(error) = work(item) {
                next.store(items.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner).get_or_insert(error);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..THREADS.min(items.len().max(1)) {
            if std::thread::Builder::new().spawn_scoped(scope, run).is_err() {
                break;
            }
        }
        run();
    });
    failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_is_processed_and_an_error_is_returned() {
        let done = AtomicUsize::new(0);
        let items: Vec<usize> = (0..100).collect();
        let sum = |item: &usize| {
            done.fetch_add(*item, Ordering::Relaxed);
            if *item == 1000 { Err(RemoteError::Budget(item.to_string())) } else { Ok(()) }
        };
        for_each(&items, sum).unwrap();
        assert_eq!(done.load(Ordering::Relaxed), 4950);
        assert_eq!(for_each(&[1000], sum).unwrap_err().to_string(), "1000");
        for_each(&[], sum).unwrap();
    }
}
