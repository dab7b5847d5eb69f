//! Which toolkit each build system selects: on every recorded host, on hosts built for the tests, and compared with
//! installed build systems.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads its own files and starts programs"
)]
#![expect(
    dead_code,
    unused_imports,
    unreachable_pub,
    reason = "layers of the host builder that other tests use"
)]

#[cfg(unix)]
mod cmake;
mod command;
#[path = "../doctor/machine/mod.rs"]
mod machine;
mod machines;
mod recorded;
#[path = "../common/requirements.rs"]
mod requirements;
#[cfg(unix)]
mod torch;

use gpubuild_detect::toolkit::{self, Catalogue};
use gpubuild_doctor::resolvers::{Resolution, Resolutions, resolve_all};
use gpubuild_host::{Host, InspectHost};

/// What every build system selects on a host.
fn resolve(host: &dyn InspectHost) -> Resolutions {
    let catalogue = Catalogue::embedded();
    let inventory = toolkit::probe(host, &catalogue);
    resolve_all(host, &inventory, &catalogue)
}

/// What a build system selects, as text: its folder, `failed: …`, or two folders.
fn outcome(resolution: &Resolution) -> String {
    match (&resolution.error, &resolution.takes) {
        (Some(error), _) => format!("failed: {}", error.replace('\n', " ")),
        (None, Some(takes)) => match &takes.compiler_copy {
            Some(other) => format!("{} with the compiler of {other}", takes.copy),
            None => takes.copy.to_string(),
        },
        (None, None) => "nothing".to_owned(),
    }
}

/// Prints why a test is skipped, or panics if `GPUBUILD_REQUIRE` names the requirement.
fn skip(what: &str) {
    requirements::skip(what, &format!("no {what}"));
}
