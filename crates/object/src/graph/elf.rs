//! Linux: `RPATH`, `RUNPATH`, their placeholders, and the load order of glibc and musl.

use gpubuild_host::HostPath;
use gpubuild_host::library::search::{ElfRequest, LibraryLookup, LinuxLoader, Match, Via};

use super::{EdgeTarget, GraphEdge, GraphWalk, opened};
use crate::NeededObject;

/// Folders of the loaders of distributions. A loader elsewhere searches only its own folder.
const LOADER_FOLDERS: [&str; 9] = [
    "/lib",
    "/lib64",
    "/lib32",
    "/libx32",
    "/usr/lib",
    "/usr/lib64",
    "/usr/lib32",
    "/system/bin",
    "/usr/libx32",
];

/// Resolves all dependencies breadth-first, as glibc and musl do.
pub(super) fn walk(walk: &mut GraphWalk<'_>) {
    find_loader(walk);
    let mut at = 0;
    while at < walk.graph.objects.len() {
        let needed = walk.graph.objects[at].binary().map(|binary| binary.needed.clone()).unwrap_or_default();
        for needed in needed {
            link(walk, at, needed);
        }
        at += 1;
        if at == walk.graph.objects.len() {
            // Only when everything is loaded is it known which libraries open others.
            for (from, name) in walk.opened_later() {
                let known = |link: &GraphEdge| link.from == from && link.needed.name == name;
                if !walk.graph.links.iter().any(known) {
                    link(walk, from, opened(&name));
                }
            }
        }
    }
}

/// Determines the loader, and whether the host contains its system libraries.
fn find_loader(walk: &mut GraphWalk<'_>) {
    let host = walk.host;
    let named = walk.graph.objects[0].binary().and_then(|binary| binary.interpreter.clone());
    let is_musl = |name: &str| name.starts_with("ld-musl");
    let loader = match named.as_deref().and_then(|path| path.rsplit('/').next()) {
        Some(name) if is_musl(name) => LinuxLoader::Musl,
        Some(_) => LinuxLoader::Glibc,
        None => walk.loader.default_loader(),
    };
    walk.graph.loader = Some(loader);
    walk.graph.interpreter = named.map(|path| {
        let path = host.path(&path);
        let found = host.is_file(&path);
        (path, found)
    });
    let own_folder = own_folder(walk);
    let request = ElfRequest { own_folder, ..ElfRequest::plain(host.platform().arch, loader) };
    let has = |name: &str| walk.loader.elf(name, &request).usable.first().cloned();
    walk.graph.knows_system = match loader {
        // A recorded host may contain libc for its version, but not libm, although both are in one package.
        LinuxLoader::Glibc => has("libc.so.6").is_some() && has("libm.so.6").is_some(),
        LinuxLoader::Musl => {
            let path = format!("/lib/ld-musl-{}.so.1", host.platform().arch.id());
            host.read_start(&host.path(&path), 4).is_ok_and(|start| start == b"\x7fELF")
        }
    };
}

fn link(walk: &mut GraphWalk<'_>, from: usize, needed: NeededObject) {
    let lookup = search(walk, from, &needed.name);
    let first = lookup.usable.first().cloned();
    let known = walk.known(&needed.name).or_else(|| loaded_musl(walk, &needed.name));
    let (target, own) = match (known, first) {
        (Some(index), first) => {
            let own = first.map(|found| walk.copy(found));
            let loaded = walk.graph.objects[index].real.key();
            (EdgeTarget::Loaded(index), own.filter(|own| own.real.key() != loaded))
        }
        (None, Some(found)) => match walk.load(&found, &needed.name, from) {
            Some(index) => (EdgeTarget::Loaded(index), None),
            None => (EdgeTarget::Unknown, None),
        },
        (None, None) if is_loader_library(walk, &needed.name) => (EdgeTarget::System, None),
        (None, None) => (walk.absent(&needed.name, lookup.foreign), None),
    };
    let later = lookup.usable.into_iter().skip(1).map(|found| walk.copy(found)).collect();
    walk.graph.links.push(GraphEdge { from, needed, target, own, later });
}

/// Whether a name refers to the loader itself, or to a library that is part of musl's loader.
fn is_loader_library(walk: &GraphWalk<'_>, name: &str) -> bool {
    let interpreter = walk.graph.interpreter.as_ref().filter(|(_, found)| *found);
    interpreter.is_some_and(|(path, _)| path.file_name() == Some(name)) || is_musl_name(walk, name)
}

/// Whether a name refers to musl, which includes libm, libpthread and so on under any version number.
fn is_musl_name(walk: &GraphWalk<'_>, name: &str) -> bool {
    const PARTS: [&str; 7] = ["c", "pthread", "rt", "m", "dl", "util", "xnet"];
    let is_musl = walk.graph.loader == Some(LinuxLoader::Musl);
    let part = name.strip_prefix("lib").and_then(|rest| rest.split('.').next());
    is_musl && part.is_some_and(|part| PARTS.contains(&part)) && name.contains('.')
}

fn loaded_musl(walk: &GraphWalk<'_>, name: &str) -> Option<usize> {
    is_musl_name(walk, name)
        .then(|| {
            let is_loader = |name: &str| name.starts_with("libc.musl-") || name.starts_with("ld-musl-");
            let mut objects = walk.graph.objects.iter();
            objects.position(|object| object.names.iter().any(|name| is_loader(name)))
        })
        .flatten()
}

/// Searches a library for an object.
fn search(walk: &GraphWalk<'_>, from: usize, name: &str) -> LibraryLookup {
    if name.contains('/') {
        let path = expand(walk, from, name);
        let found = path.filter(|path| path.is_absolute() && walk.host.is_file(path));
        let usable = found.into_iter().map(|path| Match { path, via: Via::Path }).collect();
        return LibraryLookup { usable, foreign: Vec::new() };
    }
    walk.loader.elf(name, &request(walk, from))
}

fn request(walk: &GraphWalk<'_>, from: usize) -> ElfRequest {
    let loader = walk.graph.loader.unwrap_or(LinuxLoader::Glibc);
    let machine = walk.graph.objects[0].binary().map(|binary| &binary.machine);
    let machine = machine
        .map_or((0, true), |machine| (u16::try_from(machine.number).unwrap_or_default(), machine.wide));
    let mut rpath = Vec::new();
    let mut runpath = Vec::new();
    if let Some(binary) = walk.graph.objects[from].binary() {
        runpath = folders(walk, from, &binary.runpath);
    }
    // RPATH is inherited from the loading objects, unless the object has RUNPATH. musl inherits both.
    if runpath.is_empty() || loader == LinuxLoader::Musl {
        let mut at = Some(from);
        let mut steps = walk.graph.objects.len();
        while let (Some(index), 1..) = (at, steps) {
            if let Some(binary) = walk.graph.objects[index].binary() {
                rpath.extend(folders(walk, index, &binary.rpath));
                if loader == LinuxLoader::Musl {
                    rpath.extend(folders(walk, index, &binary.runpath));
                }
            }
            at = walk.graph.objects[index].parent;
            steps -= 1;
        }
    }
    ElfRequest { loader, machine, rpath, runpath, own_folder: own_folder(walk) }
}

/// The folder of the loader, if it is not one of [`LOADER_FOLDERS`].
fn own_folder(walk: &GraphWalk<'_>) -> Option<HostPath> {
    let (interpreter, _) = walk.graph.interpreter.as_ref()?;
    interpreter.parent().filter(|folder| !LOADER_FOLDERS.contains(&folder.as_str()))
}

fn folders(walk: &GraphWalk<'_>, owner: usize, list: &[String]) -> Vec<HostPath> {
    list.iter().filter_map(|folder| expand(walk, owner, folder)).filter(HostPath::is_absolute).collect()
}

/// Expands the placeholders; `None` if one is unknown.
fn expand(walk: &GraphWalk<'_>, owner: usize, text: &str) -> Option<HostPath> {
    let object = &walk.graph.objects[owner];
    // The origin of a program is its real path, that of a library the path where it was found.
    let path = if owner == 0 { &object.real } else { &object.path };
    let origin = path.parent()?;
    let platform = walk.host.platform().arch.id();
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        filled.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let (name, end) = if let Some(inner) = after.strip_prefix('{') {
            let length = inner.find('}')?;
            (&inner[..length], length + 2)
        } else {
            let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let length = after.find(|c| !is_name(c)).unwrap_or(after.len());
            (&after[..length], length)
        };
        match name {
            "ORIGIN" => filled.push_str(origin.as_str()),
            "LIB" => filled.push_str(walk.loader.lib()),
            "PLATFORM" => filled.push_str(platform),
            _ => return None,
        }
        rest = &after[end..];
    }
    filled.push_str(rest);
    Some(walk.host.path(&filled))
}
