//! The second level of the build store: entries on a server that several machines share.
//!
//! ```text
//! settings         [cache] and the environment -> which store, and what is allowed
//! manifest         (pure) the description of an entry, its signature, and every check of both
//! server           one request, bounded in time; the interface of the three kinds
//! http, s3, oci    the kinds
//! listing          lists of entries, in pages
//! content          compressed files: sha256, size, zstd
//! pull, push       an entry from the server into the local store, and back
//! session          a store during one command: its limits, and what was transferred
//! level            the interface that builds use
//! ```
//!
//! The server is not trusted: an entry that fails a check is a miss. No failure here fails a build.

mod content;
mod error;
mod http;
mod level;
mod listing;
mod manifest;
mod oci;
mod parallel;
mod pull;
mod push;
mod resume;
mod s3;
mod server;
mod session;
pub mod settings;

pub use error::{InvalidRemote, RemoteError};
pub use manifest::id;
pub use server::ListedEntry;
pub use session::{RemotePruned, RemoteStore, RemoteUsage};
pub use settings::{RemoteAccess, RemoteSettings};
