//! Installs a toolkit from packages into a temporary folder, then renames it to its final name.

use std::io;

use gpubuild_core::version::Version;
use gpubuild_detect::facts::Facts;
use gpubuild_exec::event::{BuildEvent, Sink};
use gpubuild_exec::python::Network;
use gpubuild_exec::store;
use gpubuild_host::folders::INSTALLED;
use gpubuild_host::{Host, HostPath, Wait};
use gpubuild_plan::offer::installed;
use gpubuild_plan::packages::{self, ManagerKind, PackageOffer};
use gpubuild_plan::plan::bytes;

use super::relocate;
use super::request::{DOWNLOADED, LISTS, PackageRequest, distribution, existing, version_of};
use super::source::{self, SourceContext};
use super::target::LibraryFolders;
use crate::provision::files;
use crate::provision::state::{self, PrefixPlace, PrefixRecord};
use crate::provision::{
    InstallChange, InstalledToolkit, PREFIX, PackageError, Prefix, ProvisionError, UnpackedPackage, runs,
};

/// Installs a toolkit unless it is already installed. If another process installs one from packages, waits for that process.
///
/// # Errors
/// See [`ProvisionError`]. A failed installation leaves only the partial folder, whose downloads the next call uses.
pub fn install(
    host: &dyn Host,
    facts: &Facts,
    request: &PackageRequest,
    sink: Sink<'_>,
) -> Result<InstalledToolkit, ProvisionError> {
    let offer = packages::offer(facts, &request.toolkit).map_err(PackageError::NotHere)?;
    let distribution = distribution(facts);
    let names = request.names(&offer)?;
    if let Some(installation) = existing(host, &offer, request, &distribution, &names) {
        return Ok(unchanged(installation));
    }
    let all = installed::folder(host, request.triple()).ok_or(ProvisionError::NoCache)?;
    let lock_file = all.join(".packages.lock");
    source::check_tools(&request.source(host, &offer, None, None)?)?;
    host.create_dir_all(&all).map_err(|error| ProvisionError::of_io(&error))?;
    let failed = |error: io::Error| ProvisionError::of_io(&error);
    let lock = host.lock(&lock_file, Wait::No).map_err(failed)?;
    let _lock = if let Some(lock) = lock {
        lock
    } else {
        sink(&BuildEvent::WaitingForInstall { what: request.toolkit.clone(), lock: lock_file.to_string() });
        host.lock(&lock_file, Wait::Yes).map_err(failed)?.ok_or(ProvisionError::Interrupted)?
    };
    if let Some(installation) = existing(host, &offer, request, &distribution, &names) {
        return Ok(unchanged(installation));
    }
    let request = &request.with_installed(host, &offer, &distribution);
    let names = request.names(&offer)?;
    PackageInstall { host, offer, request, names, distribution, all, lock: lock_file, sink }.run()
}

fn unchanged(installation: Prefix) -> InstalledToolkit {
    InstalledToolkit { installation, change: InstallChange::Unchanged, wheel_bytes: 0, notes: Vec::new() }
}

/// The name of a package's file in the distribution's archive, where names lack the epoch that apt adds:
/// `libpci3_3.9.0-4_amd64.deb` for `libpci3_1%3a3.9.0-4_amd64.deb`.
fn archive_name(file: &str) -> String {
    match file.split_once('_') {
        Some((name, rest)) => {
            let rest = rest.split_once("%3a").map_or(rest, |(_epoch, rest)| rest);
            format!("{name}_{rest}")
        }
        None => file.to_owned(),
    }
}

/// A running installation.
struct PackageInstall<'a> {
    host: &'a dyn Host,
    offer: PackageOffer<'a>,
    request: &'a PackageRequest,
    /// The packages of the set and of its requested components.
    names: Vec<String>,
    distribution: String,
    all: HostPath,
    lock: HostPath,
    sink: Sink<'a>,
}

impl PackageInstall<'_> {
    fn run(&self) -> Result<InstalledToolkit, ProvisionError> {
        let system = self.context(None)?;
        match self.resolved(&system) {
            Ok(packages) => match self.install(&system, packages) {
                // A mirror no longer has the packages that old lists name.
                Err(ProvisionError::Packages(PackageError::Download { message }))
                    if message.contains("404") =>
                {
                    self.with_new_lists(PackageError::Download { message })
                }
                done => done,
            },
            Err(ProvisionError::Packages(error @ PackageError::Missing { .. })) => self.with_new_lists(error),
            Err(error) => Err(error),
        }
    }

    fn context(&self, lists: Option<HostPath>) -> Result<SourceContext<'_>, PackageError> {
        self.request.source(self.host, &self.offer, Some(&self.lock), lists)
    }

    fn resolved(&self, context: &SourceContext<'_>) -> Result<Vec<UnpackedPackage>, ProvisionError> {
        let packages = source::resolve(context, &self.offer, &self.names)?;
        let lacks = |name: &&String| packages.iter().all(|one| one.name != **name);
        match self.names.iter().find(lacks) {
            Some(name) => {
                let message = format!("the package manager offers no file of the package `{name}`");
                Err(PackageError::Missing { message, update: None }.into())
            }
            None => Ok(packages),
        }
    }

    /// Tries again with separate package lists: those of the system are missing, as in many containers, or old.
    fn with_new_lists(&self, error: PackageError) -> Result<InstalledToolkit, ProvisionError> {
        if self.offer.kind != ManagerKind::Apt {
            return Err(error.into());
        }
        let lists = self.all.join(LISTS);
        if self.request.network == Network::Offline {
            return self.with_earlier_lists(error, lists);
        }
        let what = "package lists".to_owned();
        (self.sink)(&BuildEvent::Installing { what, done: 0, total: 0 });
        let own = self.context(Some(lists))?;
        let updated = source::update(&own);
        if let Err(ProvisionError::Interrupted) = updated {
            return Err(ProvisionError::Interrupted);
        }
        // apt reports an error if one of several sources fails; the others may have the packages.
        let packages = self.resolved(&own).map_err(|error| match (error, &updated) {
            (ProvisionError::Packages(PackageError::Missing { message, .. }), Err(update)) => {
                PackageError::Missing { message, update: Some(update.to_string()) }.into()
            }
            (error, _) => error,
        })?;
        self.install(&own, packages)
    }

    /// Tries again with the separate package lists of an earlier call.
    fn with_earlier_lists(
        &self,
        error: PackageError,
        lists: HostPath,
    ) -> Result<InstalledToolkit, ProvisionError> {
        if self.host.is_dir(&lists) {
            let own = self.context(Some(lists))?;
            return self.install(&own, self.resolved(&own)?);
        }
        Err(match &self.request.target {
            Some(target) => {
                PackageError::Offline { files: format!("package lists for {}", target.triple) }.into()
            }
            None => error.into(),
        })
    }

    fn install(
        &self,
        context: &SourceContext<'_>,
        mut packages: Vec<UnpackedPackage>,
    ) -> Result<InstalledToolkit, ProvisionError> {
        let host = self.host;
        let version = version_of(&self.offer, &packages).ok_or_else(|| {
            let name = self.offer.row.version.clone().unwrap_or_default();
            PackageError::Missing {
                message: format!("the version of `{name}` is not a number"),
                update: None,
            }
        })?;
        let place = PrefixPlace::new(&self.all, &self.request.toolkit, &version);
        let _lock = place.lock(host, &|| {})?;
        place
            .recover(host)
            .and_then(|()| self.keep_downloads(&place.partial))
            .map_err(|error| ProvisionError::of_io(&error))?;
        let download = packages.iter().map(|one| one.size).sum::<u64>();
        let disk = download * (self.offer.row.growth(self.offer.set, &self.request.with) + 1);
        let free = host.free_space(&self.all);
        self.refuse_full_disk(disk, free)?;
        (self.sink)(&BuildEvent::Provisioning {
            toolkit: self.request.toolkit.clone(),
            version: version.to_string(),
            into: place.published.to_string(),
            download,
            disk,
            free,
        });
        let folder = place.partial.join(DOWNLOADED);
        host.create_dir_all(&folder).map_err(|error| ProvisionError::of_io(&error))?;
        self.fetch(context, &packages, &folder)?;
        self.check(&mut packages, &folder)?;
        let record = self.make_prefix(context, &place, version, packages)?;
        self.publish(&place, &record)?;
        let installation = Prefix::read(host, &place.published).ok_or_else(|| ProvisionError::Broken {
            what: self.request.toolkit.clone(),
            message: "its record cannot be read".to_owned(),
        })?;
        (self.sink)(&BuildEvent::Installing { what: String::new(), done: download, total: download });
        Ok(InstalledToolkit {
            installation,
            change: InstallChange::Installed,
            wheel_bytes: download,
            notes: Vec::new(),
        })
    }

    /// Removes what an earlier attempt left, except for its downloads.
    fn keep_downloads(&self, partial: &HostPath) -> io::Result<()> {
        if !self.host.is_dir(partial) {
            return Ok(());
        }
        let names = self.host.list(partial)?;
        names
            .iter()
            .filter(|name| *name != DOWNLOADED)
            .try_for_each(|name| self.host.remove(&partial.join(name)))
    }

    fn refuse_full_disk(&self, disk: u64, free: Option<u64>) -> Result<(), ProvisionError> {
        match free {
            Some(free) if free < disk => Err(ProvisionError::NoRoom {
                what: self.request.toolkit.clone(),
                needs: bytes::show(disk),
                free: bytes::show(free),
                folder: self.all.to_string(),
            }),
            _ => Ok(()),
        }
    }

    /// Uses packages of earlier attempts and of the folders of `--find-links`, and downloads the missing ones.
    fn fetch(
        &self,
        context: &SourceContext<'_>,
        packages: &[UnpackedPackage],
        folder: &HostPath,
    ) -> Result<(), ProvisionError> {
        let host = self.host;
        let mut missing = Vec::new();
        for one in packages {
            let own = folder.join(&one.file);
            let names = [one.file.clone(), archive_name(&one.file)];
            let given = (self.request.find_links.iter())
                .flat_map(|links| names.each_ref().map(|name| links.join(name)));
            let mut usable = std::iter::once(own.clone())
                .chain(given)
                .filter(|path| source::is_package(context, one, path));
            match usable.next() {
                Some(path) if path == own => {}
                Some(path) => host.copy(&path, &own).map_err(|error| ProvisionError::of_io(&error))?,
                None => missing.push(one),
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let names =
            |separator: &str| missing.iter().map(|one| one.name.as_str()).collect::<Vec<_>>().join(separator);
        if self.request.network == Network::Offline {
            let files = missing.iter().map(|one| one.file.as_str()).collect::<Vec<_>>().join(", ");
            return Err(PackageError::Offline { files }.into());
        }
        let total = missing.iter().map(|one| one.size).sum();
        (self.sink)(&BuildEvent::Installing { what: names(", "), done: 0, total });
        source::download(context, &missing, folder)
    }

    /// Compares every file with the hash in the lists, and notes its hash and size.
    fn check(&self, packages: &mut [UnpackedPackage], folder: &HostPath) -> Result<(), ProvisionError> {
        for one in packages {
            let path = folder.join(&one.file);
            let (found, size) = store::hash_file(self.host, &path).map_err(|error| {
                PackageError::Download { message: format!("`{}` was not downloaded: {error}", one.file) }
            })?;
            if !one.sha256.is_empty() && one.sha256 != found {
                let _ = self.host.remove(&path);
                return Err(PackageError::Changed { file: one.file.clone() }.into());
            }
            (one.sha256, one.size) = (found, size);
        }
        Ok(())
    }

    fn make_prefix(
        &self,
        context: &SourceContext<'_>,
        place: &PrefixPlace,
        version: Version,
        packages: Vec<UnpackedPackage>,
    ) -> Result<PrefixRecord, ProvisionError> {
        let host = self.host;
        let (unpacked, prefix) = (place.partial.join("unpacked"), place.partial.join(PREFIX));
        let of_io = |error: io::Error| ProvisionError::of_io(&error);
        host.remove(&unpacked).and_then(|()| host.remove(&prefix)).map_err(of_io)?;
        host.create_dir_all(&unpacked).map_err(of_io)?;
        for one in &packages {
            let file = place.partial.join(DOWNLOADED).join(&one.file);
            source::unpack(context, &file, &unpacked)?;
        }
        if !host.is_dir(&unpacked.join("usr")) {
            let message = "the packages have no folder `usr`".to_owned();
            return Err(PackageError::Unpack { file: unpacked.to_string(), message }.into());
        }
        let folders =
            LibraryFolders::new(host, self.offer.manager, self.request.target.as_ref()).map_err(of_io)?;
        relocate::make(host, &self.offer, &folders, &unpacked, &prefix).map_err(of_io)?;
        runs(host, &self.offer.set.verify, &prefix).map_err(|message| {
            // Remove the packages too, so that the next attempt starts from scratch.
            let _ = host.remove(&place.partial);
            ProvisionError::Broken { what: self.request.toolkit.clone(), message }
        })?;
        let (hashes, bytes) = files::hash(host, &prefix).map_err(of_io)?;
        store::write_json(host, &place.partial.join(files::FILES), &hashes).map_err(of_io)?;
        Ok(PrefixRecord {
            schema: state::SCHEMA.to_owned(),
            toolkit: self.request.toolkit.clone(),
            release: version.clone(),
            version,
            components: std::iter::once("base".to_owned()).chain(self.request.with.clone()).collect(),
            wheels: Vec::new(),
            target: self.request.triple().map(str::to_owned),
            stub: false,
            bytes,
            files: hashes.files.len() as u64,
            distribution: Some(self.distribution.clone()),
            lib: Some(folders.linked),
            packages,
        })
    }

    fn publish(&self, place: &PrefixPlace, record: &PrefixRecord) -> Result<(), ProvisionError> {
        let (host, partial) = (self.host, &place.partial);
        let done = host
            .remove(&partial.join("unpacked"))
            .and_then(|()| self.remove_downloads(partial))
            .and_then(|()| store::write_json(host, &partial.join(INSTALLED), record))
            .and_then(|()| place.publish(host))
            .and_then(|()| self.remove_leftovers());
        done.map_err(|error| ProvisionError::of_io(&error))
    }

    /// Removes the packages, unless components can be added: an installation with them needs the same packages.
    fn remove_downloads(&self, partial: &HostPath) -> io::Result<()> {
        let has = |id: &String| self.request.with.contains(id);
        if self.offer.row.optional.keys().all(has) {
            return self.host.remove(&partial.join(DOWNLOADED));
        }
        Ok(())
    }

    /// Removes incomplete installations of other versions: this process holds the lock of all of them.
    fn remove_leftovers(&self) -> io::Result<()> {
        let start = format!(".{}-", self.request.toolkit);
        for name in self.host.list(&self.all)? {
            if name.starts_with(&start) && name.ends_with(".partial") {
                self.host.remove(&self.all.join(&name))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_upstreams() {
        let set = packages::set_of("vulkan").unwrap();
        let row = &set.distributions[0];
        let offer =
            PackageOffer { set, row, kind: ManagerKind::Apt, manager: packages::manager(ManagerKind::Apt) };
        let of = |version: &str| {
            let one = UnpackedPackage {
                name: "libvulkan-dev".to_owned(),
                version: version.to_owned(),
                file: String::new(),
                sha256: String::new(),
                size: 0,
            };
            version_of(&offer, &[one]).map(|version| version.to_string())
        };
        for (version, expected) in [
            ("1.3.239.0-1", Some("1.3.239.0")),
            ("1:15.0.6-4+b1", Some("15.0.6")),
            ("3.0~2023.02.06-1", Some("3.0")),
            ("5.2.3+dfsg-1", Some("5.2.3")),
            ("git", None),
        ] {
            assert_eq!(of(version).as_deref(), expected, "{version}");
        }
        assert_eq!(archive_name("libpci3_1%3a3.9.0-4_amd64.deb"), "libpci3_3.9.0-4_amd64.deb");
        assert_eq!(archive_name("glslc_2023.2-1_amd64.deb"), "glslc_2023.2-1_amd64.deb");
    }
}
