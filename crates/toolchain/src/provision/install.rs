//! Installs a toolkit from its wheels or archives into a temporary folder, then renames it to its final name.

use std::io;
use std::time::Duration;

use gpubuild_detect::facts::Facts;
use gpubuild_exec::event::{BuildEvent, Sink};
use gpubuild_exec::python::{self, InstallTarget, WheelAccess};
use gpubuild_exec::store;
use gpubuild_host::folders::INSTALLED;
use gpubuild_host::{Command, Host, HostInfo, HostPath, ReadFiles, RunPrograms, WriteFiles};
use gpubuild_plan::offer::installed;
use gpubuild_plan::offer::simulate::libc;
use gpubuild_plan::plan::bytes;
use gpubuild_plan::wheels::lock::{self, SelectError, WheelLock};
use gpubuild_plan::wheels::tag::{TagFit, WheelLibc};
use gpubuild_plan::wheels::{PinnedFile, PinnedWheel};

use super::error::ProvisionError;
use super::kit::{self, ToolkitLayout};
use super::state::{self, Prefix, PrefixPlace, PrefixRecord, wheel_folder};
use super::{InstallRequest, PREFIX, files, prefix, record, stub};

/// The folder of downloads in the partial installation.
const DOWNLOADS: &str = "downloads";

/// A preview of an installation.
#[derive(Debug, Clone)]
pub struct Preview {
    /// The lock that defines the wheels or archives.
    pub lock: WheelLock,
    /// Components to install, including `base`.
    pub components: Vec<String>,
    /// Their wheels or archives, each with the one file for this machine.
    pub wheels: Vec<PinnedWheel>,
    /// The final folder.
    pub into: HostPath,
    /// Size in bytes of the missing wheels: those that are neither installed nor left from an incomplete attempt.
    pub download: u64,
    /// Required disk space in bytes, estimated.
    pub disk: u64,
    /// Free disk space in bytes, if known.
    pub free: Option<u64>,
    /// The existing installation, if it already satisfies the request.
    pub installed: Option<Prefix>,
}

/// Whether an installation was necessary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum InstallChange {
    /// The toolkit was already installed.
    Unchanged,
    /// The toolkit was installed.
    Installed,
}

/// The result of an installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledToolkit {
    /// The installation.
    pub installation: Prefix,
    /// Whether it was necessary to install.
    pub change: InstallChange,
    /// Total size in bytes of the installed wheels or archives, whether downloaded or from a cache.
    pub wheel_bytes: u64,
    /// Notes for the user, one line each.
    pub notes: Vec<String>,
}

/// An archive to unpack.
#[derive(Debug, Clone, Copy)]
pub struct ArchiveRequest<'a> {
    /// Its path below the vendor's URL, hash and size.
    pub file: &'a PinnedFile,
    /// The vendor's URL, with a final `/`.
    pub url: &'a str,
    /// Folders that may contain it.
    pub find_links: &'a [HostPath],
    /// The folder for its download, which may contain the start of it.
    pub downloads: &'a HostPath,
    /// The folder to unpack its top folder into.
    pub into: &'a HostPath,
}

/// Access to archives. Passed in, because the code for downloads and archives is in a crate above.
pub trait ArchiveAccess {
    /// Downloads, verifies and unpacks an archive of the vendor.
    ///
    /// # Errors
    /// The download fails, or the archive is not the pinned one.
    fn fetch(&self, request: &ArchiveRequest<'_>) -> Result<(), ProvisionError>;

    /// Unpacks a file of a verified wheel into a folder.
    ///
    /// # Errors
    /// It is not an archive that can be unpacked there.
    fn unpack(&self, archive: &HostPath, into: &HostPath) -> Result<(), ProvisionError>;
}

/// Computes what an installation would do. Also works on recorded hosts.
///
/// # Errors
/// The request cannot be satisfied on this machine.
pub fn preview(
    host: &dyn WriteFiles,
    facts: &Facts,
    request: &InstallRequest,
) -> Result<Preview, ProvisionError> {
    let (kit, lock) = offered(request)?;
    let all = folder(host, request)?;
    let place = PrefixPlace::new(&all, &lock.toolkit, &lock.release);
    let existing = Prefix::read(host, &place.published);
    let mut with = request.with.clone();
    if let Some(existing) = &existing {
        // Keep components that were added before, unless this lock does not have them.
        with.extend(existing.record.components.iter().filter(|id| lock.component(id).is_some()).cloned());
    }
    let (libc, target) = (libc(facts), request.target.as_ref());
    let wheels = lock
        .select_for(&with, host.platform(), &libc, target)
        .map_err(|error| refusal(host, &lock, &libc, error))?;
    let components = lock.closure(&with).unwrap_or_default().iter().map(|one| one.id.clone()).collect();
    let missing = wheels.iter().filter(|wheel| {
        let folder = wheel_folder(wheel);
        let in_old = existing.as_ref().is_some_and(|existing| existing.record.wheels.contains(wheel));
        !in_old && !host.is_dir(&place.partial.join(&folder))
    });
    let download = missing.map(PinnedWheel::size).sum::<u64>();
    let installed = existing.filter(|existing| {
        let stub_possible = kit.stub.as_ref().is_some_and(|stub| stub.on.contains(&host.platform().os))
            && stub::compiler(host, target).is_some();
        wheels.iter().all(|wheel| existing.record.wheels.contains(wheel))
            && (existing.record.stub || !stub_possible)
    });
    Ok(Preview {
        components,
        wheels,
        download,
        disk: download
            * kit.archives.as_ref().filter(|_| lock.has_archives()).map_or(kit.grows, |one| one.grows),
        free: host.free_space(&all),
        installed,
        into: place.published,
        lock,
    })
}

/// Installs a toolkit unless it is already installed. If another process installs it, waits for that process.
///
/// # Errors
/// See [`ProvisionError`]. A failed installation leaves only the partial folder, which the next call resumes.
pub fn install(
    host: &dyn Host,
    facts: &Facts,
    request: &InstallRequest,
    access: WheelAccess<'_>,
    archives: &dyn ArchiveAccess,
    sink: Sink<'_>,
) -> Result<InstalledToolkit, ProvisionError> {
    let mut first = preview(host, facts, request)?;
    let all = folder(host, request)?;
    let place = PrefixPlace::new(&all, &first.lock.toolkit, &first.lock.release);
    // An installation that was killed at its end left the one before it, which takes as much space.
    if !host.exists(&place.old)
        && let Some(installation) = first.installed.take()
    {
        return Ok(unchanged(installation));
    }
    refuse_full_disk(&first, &all)?;
    let what = format!("{} {}", first.lock.toolkit, first.lock.release);
    host.create_dir_all(&all).map_err(|error| ProvisionError::of_io(&error))?;
    let _lock = place.lock(host, &|| {
        sink(&BuildEvent::WaitingForInstall { what: what.clone(), lock: place.lock.to_string() });
    })?;
    place.recover(host).map_err(|error| ProvisionError::of_io(&error))?;
    let preview = preview(host, facts, request)?;
    if let Some(installation) = preview.installed {
        return Ok(unchanged(installation));
    }
    sink(&BuildEvent::Provisioning {
        toolkit: preview.lock.toolkit.clone(),
        version: preview.lock.version.to_string(),
        into: preview.into.to_string(),
        download: preview.download,
        disk: preview.disk,
        free: preview.free,
    });
    let kit = &kit::embedded().kits[&preview.lock.toolkit];
    InstallWork { host, kit, preview: &preview, place: &place, access, archives, request, sink }.run()
}

fn unchanged(installation: Prefix) -> InstalledToolkit {
    InstalledToolkit { installation, change: InstallChange::Unchanged, wheel_bytes: 0, notes: Vec::new() }
}

/// The folder with the installation of a request.
fn folder(host: &dyn HostInfo, request: &InstallRequest) -> Result<HostPath, ProvisionError> {
    let target = request.target.as_ref().map(|target| target.triple.as_str());
    installed::folder(host, target).ok_or(ProvisionError::NoCache)
}

/// The kit and the lock for a request.
fn offered(request: &InstallRequest) -> Result<(&'static ToolkitLayout, WheelLock), ProvisionError> {
    let toolkit = request.toolkit.as_str();
    let kit = kit::of(toolkit)?;
    if let Some(lock) = request.lock.as_ref().filter(|lock| lock.toolkit == toolkit) {
        return Ok((kit, lock.clone()));
    }
    let locks = lock::offered(toolkit);
    let by_version = |lock: &&&WheelLock| lock.version == request.release;
    let found = locks.get(&request.release).or_else(|| locks.values().find(by_version));
    let lock = found.copied().cloned().ok_or_else(|| ProvisionError::UnknownRelease {
        toolkit: toolkit.to_owned(),
        asked: request.release.to_string(),
        offered: locks.keys().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    })?;
    Ok((kit, lock))
}

fn refusal(host: &dyn HostInfo, lock: &WheelLock, libc: &WheelLibc, error: SelectError) -> ProvisionError {
    let (toolkit, release) = (lock.toolkit.clone(), lock.release.to_string());
    match error {
        SelectError::UnknownComponent(asked) => {
            let offered = lock.optional().collect::<Vec<_>>().join(", ");
            ProvisionError::UnknownComponent { toolkit, release, asked, offered }
        }
        SelectError::Platform { package, fit: TagFit::NeedsNewerGlibc(needs) } => {
            let has = match libc {
                WheelLibc::Glibc(Some(version)) => version.to_string(),
                _ => "another C library".to_owned(),
            };
            ProvisionError::OldGlibc { package, needs: needs.to_string(), has }
        }
        SelectError::Platform { fit: TagFit::NeedsGlibc, .. } => ProvisionError::Musl { toolkit, release },
        SelectError::Platform { .. } => {
            let platform = host.platform();
            let platform = format!("{} on {}", platform.os.label(), platform.arch.id());
            ProvisionError::Platform { toolkit, release, platform }
        }
    }
}

fn refuse_full_disk(preview: &Preview, all: &HostPath) -> Result<(), ProvisionError> {
    match preview.free {
        Some(free) if free < preview.disk => Err(ProvisionError::NoRoom {
            what: format!("{} {}", preview.lock.toolkit, preview.lock.release),
            needs: bytes::show(preview.disk),
            free: bytes::show(free),
            folder: all.to_string(),
        }),
        _ => Ok(()),
    }
}

/// A running installation.
struct InstallWork<'a> {
    host: &'a dyn Host,
    kit: &'a ToolkitLayout,
    preview: &'a Preview,
    place: &'a PrefixPlace,
    access: WheelAccess<'a>,
    archives: &'a dyn ArchiveAccess,
    request: &'a InstallRequest,
    sink: Sink<'a>,
}

impl InstallWork<'_> {
    fn run(&self) -> Result<InstalledToolkit, ProvisionError> {
        let partial = &self.place.partial;
        self.reuse().map_err(|error| ProvisionError::of_io(&error))?;
        let wheel_bytes = self.install_wheels()?;
        let (notes, record) = self.make_prefix()?;
        self.verify(&partial.join(PREFIX))?;
        let write = store::write_json(self.host, &partial.join(INSTALLED), &record);
        write.and_then(|()| self.publish()).map_err(|error| ProvisionError::of_io(&error))?;
        let installation = Prefix::read(self.host, &self.place.published).ok_or_else(|| {
            ProvisionError::Broken { what: self.what(), message: "its record cannot be read".to_owned() }
        })?;
        Ok(InstalledToolkit { installation, change: InstallChange::Installed, wheel_bytes, notes })
    }

    fn what(&self) -> String {
        format!("{} {}", self.preview.lock.toolkit, self.preview.lock.release)
    }

    /// Links the wheels that the existing installation already has into the partial folder. Removes what an earlier attempt left
    /// there, except for complete wheels and downloads.
    fn reuse(&self) -> io::Result<()> {
        if self.host.is_dir(&self.place.partial) {
            for name in self.host.list(&self.place.partial)? {
                let path = self.place.partial.join(&name);
                let is_kept =
                    ["wheels", DOWNLOADS].contains(&name.as_str()) && self.host.read_link(&path).is_err();
                if !is_kept {
                    self.host.remove(&path)?;
                }
            }
        }
        let Some(existing) = Prefix::read(self.host, &self.place.published) else { return Ok(()) };
        for wheel in self.preview.wheels.iter().filter(|wheel| existing.record.wheels.contains(wheel)) {
            let to = self.place.partial.join(&wheel_folder(wheel));
            if self.host.is_dir(&to) {
                continue;
            }
            let from = existing.wheel(wheel);
            let unpacking = self.place.partial.join("unpacking");
            let tree = files::walk(self.host, &from)?;
            for file in &tree.files {
                self.host.link(&from.join(file), &unpacking.join(file))?;
            }
            for (link, target) in &tree.links {
                self.host.symlink(target, &unpacking.join(link))?;
            }
            self.host.create_dir_all(&self.place.partial.join("wheels"))?;
            self.host.rename(&unpacking, &to)?;
        }
        Ok(())
    }

    /// Installs each missing wheel into a separate folder, so that complete wheels are kept if a later one fails.
    fn install_wheels(&self) -> Result<u64, ProvisionError> {
        let (host, partial) = (self.host, &self.place.partial);
        let missing: Vec<&PinnedWheel> = self
            .preview
            .wheels
            .iter()
            .filter(|wheel| !host.is_dir(&partial.join(&wheel_folder(wheel))))
            .collect();
        let total = missing.iter().map(|wheel| wheel.size()).sum();
        let mut done = 0;
        for wheel in missing {
            (self.sink)(&BuildEvent::Installing { what: wheel.package.clone(), done, total });
            let unpacking = partial.join("unpacking").join(&wheel.package);
            let to = partial.join(&wheel_folder(wheel));
            let prepare = host
                .remove(&unpacking)
                .and_then(|()| host.create_dir_all(&partial.join("unpacking")))
                .and_then(|()| host.create_dir_all(&partial.join("wheels")));
            prepare.map_err(|error| ProvisionError::of_io(&error))?;
            self.unpack(wheel, &unpacking)?;
            host.rename(&unpacking, &to).map_err(|error| ProvisionError::of_io(&error))?;
            done += wheel.size();
        }
        (self.sink)(&BuildEvent::Installing { what: String::new(), done, total });
        Ok(total)
    }

    fn unpack(&self, wheel: &PinnedWheel, into: &HostPath) -> Result<(), ProvisionError> {
        let find_links = &self.request.find_links;
        if let (true, [file], Some(layout)) = (wheel.is_archive(), &*wheel.files, &self.kit.archives) {
            let (url, downloads) = (&layout.url, &self.place.partial.join(DOWNLOADS));
            return self.archives.fetch(&ArchiveRequest { file, url, find_links, downloads, into });
        }
        // uv and pip refuse wheels for another platform.
        if let (Some(target), Some(direct)) = (&self.request.target, self.access.direct)
            && !target.programs.contains(&wheel.package)
        {
            direct.unpack(wheel, find_links, into).map_err(ProvisionError::of_installer)?;
            return record::check(self.host, &wheel.package, into);
        }
        let index = self.preview.lock.index.as_deref();
        // Without Python, wheels come from the usual index only.
        let direct = self.access.direct.filter(|_| index.is_none());
        let access = WheelAccess { index, direct, ..self.access };
        let one = std::slice::from_ref(wheel);
        python::install(self.host, access, one, InstallTarget::Folder(into), find_links, &|_| {})
            .map_err(ProvisionError::of_installer)?;
        record::check(self.host, &wheel.package, into)?;
        self.unpack_inner(into)
    }

    /// Unpacks the archives in a wheel. They are removed, because the prefix has their files.
    fn unpack_inner(&self, wheel: &HostPath) -> Result<(), ProvisionError> {
        for archive in
            self.kit.inner.iter().map(|path| wheel.join(path)).filter(|path| self.host.is_file(path))
        {
            self.archives.unpack(&archive, wheel)?;
            self.host.remove(&archive).map_err(|error| ProvisionError::of_io(&error))?;
        }
        Ok(())
    }

    fn make_prefix(&self) -> Result<(Vec<String>, PrefixRecord), ProvisionError> {
        let (host, lock) = (self.host, &self.preview.lock);
        let root = self.place.partial.join(PREFIX);
        let folders: Vec<HostPath> =
            self.preview.wheels.iter().map(|wheel| self.place.partial.join(&wheel_folder(wheel))).collect();
        let wheels = self.preview.wheels.iter().zip(&folders).filter(|(wheel, _)| !wheel.is_archive());
        let wheels: Vec<_> = wheels.map(|(wheel, folder)| (wheel.package.as_str(), folder.clone())).collect();
        record::check_names(host, &self.kit.trees, &wheels)?;
        let archives = self.preview.wheels.iter().zip(&folders).filter(|(wheel, _)| wheel.is_archive());
        let mut roots: Vec<HostPath> = archives.map(|(_, folder)| folder.clone()).collect();
        roots.extend(prefix::roots(host, self.kit, &folders));
        let made = host
            .remove(&root)
            .and_then(|()| prefix::make(host, self.kit, &lock.version, &roots, &root))
            .and_then(|()| prefix::link_roots(host, self.kit, &roots, &root))
            .and_then(|()| size(host, &folders));
        let (files, bytes) = made.map_err(|error| ProvisionError::of_io(&error))?;
        let mut notes = Vec::new();
        let mut has_stub = false;
        if let Some(description) = self.kit.stub.as_ref().filter(|stub| stub.on.contains(&host.platform().os))
        {
            let exists = host.is_file(&root.join(&description.library));
            let target = self.request.target.as_ref();
            match if exists { Ok(()) } else { stub::make(host, description, &root, target) } {
                Ok(()) => has_stub = true,
                Err(why) => notes.push(format!(
                    "the stub library `{}` was not built ({why}); install a {} and run the same command again",
                    description.library,
                    stub::compiler_name(target)
                )),
            }
        }
        if lock.has_archives() || !self.kit.inner.is_empty() {
            let list = self.place.partial.join(files::FILES);
            let written =
                files::hash(host, &root).and_then(|(hashes, _)| store::write_json(host, &list, &hashes));
            written.map_err(|error| ProvisionError::of_io(&error))?;
        }
        let record = PrefixRecord {
            schema: state::SCHEMA.to_owned(),
            toolkit: lock.toolkit.clone(),
            release: lock.release.clone(),
            version: lock.version.clone(),
            components: self.preview.components.clone(),
            wheels: self.preview.wheels.clone(),
            target: self.request.target.as_ref().map(|target| target.triple.clone()),
            stub: has_stub,
            bytes,
            files,
            distribution: None,
            lib: None,
            packages: Vec::new(),
        };
        Ok((notes, record))
    }

    fn verify(&self, root: &HostPath) -> Result<(), ProvisionError> {
        runs(self.host, &self.kit.verify, root).map_err(|message| {
            // Remove everything, including the wheels, so that the next attempt starts from scratch.
            let _ = self.host.remove(&self.place.partial);
            ProvisionError::Broken { what: self.what(), message }
        })
    }

    /// Removes the wheels and downloads that the installation does not need, and publishes it.
    fn publish(&self) -> io::Result<()> {
        let (host, place) = (self.host, self.place);
        host.remove(&place.partial.join("unpacking"))?;
        host.remove(&place.partial.join(DOWNLOADS))?;
        let wheels = place.partial.join("wheels");
        for name in host.list(&wheels)? {
            let is_used = |wheel: &PinnedWheel| wheel_folder(wheel) == format!("wheels/{name}");
            if !self.preview.wheels.iter().any(is_used) {
                host.remove(&wheels.join(&name))?;
            }
        }
        place.publish(host)
    }
}

/// The number and total size in bytes of all files in folders.
fn size(host: &dyn ReadFiles, folders: &[HostPath]) -> io::Result<(u64, u64)> {
    let (mut count, mut bytes) = (0, 0);
    for folder in folders {
        for file in prefix::files(host, folder)? {
            count += 1;
            bytes += host.stat(&folder.join(&file))?.size;
        }
    }
    Ok((count, bytes))
}

/// Runs the verification program of a toolkit. An error contains its output.
pub(crate) fn runs(host: &dyn RunPrograms, verify: &[String], root: &HostPath) -> Result<(), String> {
    let Some((program, arguments)) = verify.split_first() else { return Ok(()) };
    let program = root.join(&kit::on(program, host.platform().os));
    let command = Command::new(program.as_str(), Duration::from_secs(60)).args(arguments.iter().cloned());
    let output = host.run(&command).map_err(|error| error.to_string())?;
    if output.success() {
        return Ok(());
    }
    let output_text = python::installer_output::error_summary(&output);
    Err(if output_text.is_empty() { format!("`{program}` failed") } else { output_text })
}
