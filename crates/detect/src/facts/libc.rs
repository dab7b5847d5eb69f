//! The C library and its version, determined from files.

use std::time::Duration;

use gpubuild_core::version::Version;
use gpubuild_host::{Arch, Command, HostPath, InspectHost, Os, ReadFiles, RunPrograms, library};

use super::{Fact, Libc};
use crate::finding::{Evidence, EvidenceKind};

/// Programs that print the version of glibc. They are never started; only recorded output is used.
const VERSION_PROGRAMS: [&[&str]; 2] = [&["ldd", "--version"], &["getconf", "GNU_LIBC_VERSION"]];

pub(super) fn probe(host: &dyn InspectHost) -> Option<Fact<Libc>> {
    match host.platform().os {
        Os::Linux => probe_musl(host).or_else(|| probe_glibc(host)),
        Os::Windows => Some(implied("msvcrt")),
        Os::Macos => Some(implied("libsystem")),
    }
}

/// The C library of a platform with only one.
fn implied(family: &str) -> Fact<Libc> {
    let value = Libc { family: family.to_owned(), version: None };
    Fact { value, found_via: "platform".to_owned(), evidence: Vec::new() }
}

fn fact(family: &str, version: Option<Version>, found_via: &str, evidence: Evidence) -> Fact<Libc> {
    let value = Libc { family: family.to_owned(), version };
    Fact { value, found_via: found_via.to_owned(), evidence: vec![evidence] }
}

fn probe_musl(host: &dyn ReadFiles) -> Option<Fact<Libc>> {
    let loader = host.path(&format!("/lib/ld-musl-{}.so.1", host.platform().arch.id()));
    if !host.exists(&loader) || library::find(host, "libc.so.6").is_some() {
        return None;
    }
    let database = "/lib/apk/db/installed";
    if let Some(version) = host.read_text(&host.path(database)).ok().and_then(|text| parse_apk(&text)) {
        let evidence = Evidence::file(database, version.as_str());
        return Some(fact("musl", Some(version), "file", evidence));
    }
    let version = host.read(&loader).ok().and_then(|bytes| parse_musl(&bytes));
    let state = version.as_ref().map_or("present", Version::as_str);
    let evidence = Evidence::file(loader.as_str(), state);
    Some(fact("musl", version, "file", evidence))
}

fn probe_glibc(host: &dyn InspectHost) -> Option<Fact<Libc>> {
    let library = library::find(host, "libc.so.6");
    let from_library = library.as_ref().and_then(|path| {
        from_real_name(host, path).or_else(|| {
            let version = banner(host, path)?;
            let evidence = Evidence::file(path.as_str(), format!("GNU C Library {version}"));
            Some(fact("glibc", Some(version), "file", evidence))
        })
    });
    from_library
        .or_else(|| from_header(host))
        .or_else(|| VERSION_PROGRAMS.iter().find_map(|argv| from_recorded_program(host, argv)))
        .or_else(|| library.map(|path| fact("glibc", None, "file", Evidence::file(path.as_str(), "present"))))
}

/// The version in the link target: old releases are installed as `libc-2.31.so`.
fn from_real_name(host: &dyn ReadFiles, path: &HostPath) -> Option<Fact<Libc>> {
    let target = host.read_link(path).ok()?;
    let name = target.rsplit('/').next()?;
    let version = name.strip_prefix("libc-")?.strip_suffix(".so")?.parse().ok()?;
    Some(fact("glibc", Some(version), "file", Evidence::file(path.as_str(), format!("link to {name}"))))
}

fn from_header(host: &dyn ReadFiles) -> Option<Fact<Libc>> {
    let multiarch = match host.platform().arch {
        Arch::X86_64 => "/usr/include/x86_64-linux-gnu/features.h",
        Arch::Aarch64 => "/usr/include/aarch64-linux-gnu/features.h",
    };
    ["/usr/include/features.h", multiarch].iter().find_map(|path| {
        let version = parse_header(&host.read_text(&host.path(path)).ok()?)?;
        let evidence = Evidence::file(
            *path,
            format!("__GLIBC__ {}, __GLIBC_MINOR__ {}", version.major(), version.minor()),
        );
        Some(fact("glibc", Some(version), "header", evidence))
    })
}

fn from_recorded_program(host: &dyn RunPrograms, argv: &[&str]) -> Option<Fact<Libc>> {
    let command = Command::new(argv[0], Duration::from_secs(5)).args(argv[1..].iter().copied());
    let output = host.recorded_output(&command)?;
    // musl's `ldd` prints its version on standard error and fails.
    let text = format!("{}\n{}", output.stdout, output.stderr);
    let family = if text.contains("musl") { "musl" } else { "glibc" };
    let version = parse_program(&text)?;
    let first = text.trim().lines().next().unwrap_or_default().to_owned();
    Some(fact(family, Some(version), "exec", Evidence::new(EvidenceKind::Exec, argv.join(" "), first)))
}

/// Searches the version banner piece by piece from the end of the file: the library is large, and the banner is among the constants
/// near its end.
fn banner(host: &dyn ReadFiles, path: &HostPath) -> Option<Version> {
    const PIECE: usize = 64 << 10;
    let size = usize::try_from(host.stat(path).ok()?.size).ok()?;
    let starts = (0..size).step_by(PIECE);
    starts.rev().find_map(|start| {
        let bytes = host.read_part(path, start as u64, PIECE + LONGEST_BANNER).ok()?;
        parse_banner(&bytes)
    })
}

/// Upper bound for the length of a version banner, in bytes.
const LONGEST_BANNER: usize = 200;

/// Parses the version in the banner of `libc.so.6`: `GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.`
fn parse_banner(library: &[u8]) -> Option<Version> {
    const BANNER: &[u8] = b"GNU C Library (";
    const VERSION: &str = "version ";
    let start = memchr::memmem::find(library, BANNER)?;
    let line = &library[start..library.len().min(start + LONGEST_BANNER)];
    let line = String::from_utf8_lossy(line);
    let after = &line[line.find(VERSION)? + VERSION.len()..];
    let end = after.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(after.len());
    after[..end].trim_end_matches('.').parse().ok()
}

/// Finds the version in musl's loader. It prints `Version 1.2.4`, but the file contains the number separately.
fn parse_musl(library: &[u8]) -> Option<Version> {
    let text = String::from_utf8_lossy(library);
    text.lines()
        .find_map(|line| line.trim().strip_prefix("Version ")?.split_whitespace().next()?.parse().ok())
}

/// Parses the version of musl in Alpine's list of installed packages.
fn parse_apk(text: &str) -> Option<Version> {
    let package = text.split("\n\n").find(|package| package.lines().any(|line| line == "P:musl"))?;
    let version = package.lines().find_map(|line| line.strip_prefix("V:"))?;
    version.split("-r").next()?.parse().ok()
}

fn parse_header(text: &str) -> Option<Version> {
    let number = |name: &str| {
        text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.next() == Some("#define") && words.next() == Some(name)).then(|| words.next()).flatten()
        })
    };
    format!("{}.{}", number("__GLIBC__")?, number("__GLIBC_MINOR__")?).parse().ok()
}

/// Parses the output of such a program: `ldd (Debian GLIBC 2.36-9+deb12u10) 2.36`, `glibc 2.36`, `Version 1.2.4`. Uses the last word of
/// the first line that ends with a version.
fn parse_program(text: &str) -> Option<Version> {
    text.lines().find_map(|line| Version::find_in(line.split_whitespace().last()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use gpubuild_host::recorded::RecordedHostBuilder;
    use gpubuild_host::{HostInfo, RecordedHost};

    fn linux() -> RecordedHostBuilder {
        RecordedHost::builder(Os::Linux, Arch::X86_64)
    }

    fn check(host: RecordedHostBuilder, expected: Option<(&str, &str)>) {
        let host = host.env("PATH", "/usr/bin").build();
        let fact = probe(&host);
        let found = fact.as_ref().map(|fact| (fact.value.label(), fact.found_via.clone()));
        assert_eq!(found, expected.map(|(label, via)| (label.to_owned(), via.to_owned())));
        assert_eq!(host.counts().processes, 0, "no process may be started");
    }

    #[test]
    fn the_library_is_the_first_source_of_the_version() {
        let banner = b"constants\0GNU C Library (Debian GLIBC 2.36-9+deb12u13) stable release version 2.36.\nCopyright\0";
        check(
            linux()
                .bytes("/usr/lib/x86_64-linux-gnu/libc.so.6", banner)
                .link("/lib", "usr/lib")
                .file("/usr/include/features.h", "#define\t__GLIBC__ 2\n#define __GLIBC_MINOR__ 99\n"),
            Some(("glibc-2.36", "file")),
        );
        check(
            linux()
                .opaque("/lib/x86_64-linux-gnu/libc-2.31.so")
                .link("/lib/x86_64-linux-gnu/libc.so.6", "libc-2.31.so"),
            Some(("glibc-2.31", "file")),
        );
    }

    #[test]
    fn headers_are_the_next_source_and_recorded_output_the_last() {
        check(
            linux().opaque("/lib64/libc.so.6").file(
                "/usr/include/features.h",
                "# define __GNU__ 1\n#define\t__GLIBC__\t2\n#define\t__GLIBC_MINOR__\t39\n",
            ),
            Some(("glibc-2.39", "header")),
        );
        check(
            linux().opaque("/lib64/libc.so.6").command(
                &["ldd", "--version"],
                "ldd (Ubuntu GLIBC 2.35-0ubuntu3.8) 2.35\nCopyright (C) 2022 Free Software Foundation, Inc.\n",
            ),
            Some(("glibc-2.35", "exec")),
        );
        check(
            linux().command(&["getconf", "GNU_LIBC_VERSION"], "glibc 2.28\n"),
            Some(("glibc-2.28", "exec")),
        );
        check(linux().opaque("/lib64/libc.so.6"), Some(("glibc", "file")));
        check(linux(), None);
    }

    #[test]
    fn musl_is_detected_by_its_loader() {
        let installed = "C:Q1\nP:busybox\nV:1.36.1-r0\n\nC:Q2\nP:musl\nV:1.2.4-r2\nA:x86_64\n\n";
        check(
            linux().opaque("/lib/ld-musl-x86_64.so.1").file("/lib/apk/db/installed", installed),
            Some(("musl-1.2.4", "file")),
        );
        check(linux().opaque("/lib/ld-musl-x86_64.so.1"), Some(("musl", "file")));
        // A glibc system with musl installed as well.
        check(
            linux()
                .opaque("/lib/ld-musl-x86_64.so.1")
                .file("/lib64/libc.so.6", "GNU C Library (GNU libc) stable release version 2.40.\n"),
            Some(("glibc-2.40", "file")),
        );
    }

    #[test]
    fn an_invalid_banner_has_no_version() {
        assert_eq!(parse_banner(b"GNU C Library ("), None);
        assert_eq!(parse_banner(b"GNU C Library (x) version .\xff"), None);
        assert_eq!(parse_banner(b""), None);
    }
}
