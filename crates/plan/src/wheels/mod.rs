//! Python wheels pinned by version and hash: the wheels of each toolkit release, and the platforms that each supports.

pub mod lock;
pub mod tag;

pub use lock::{PinnedFile, PinnedWheel, TargetWheels, WheelLock};
