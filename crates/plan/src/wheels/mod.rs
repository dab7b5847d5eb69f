//! Python wheels that are pinned by version and hash: which ones make a toolkit, and which machines each is for.

pub mod lock;
pub mod tag;

pub use lock::{PinnedFile, PinnedWheel, WheelLock};
