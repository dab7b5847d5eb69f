//! The store from the side of a build: what is taken from it in place of building, what is put into it afterwards, and what
//! of an earlier build in the same folder cannot be relied on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::error::BuildError;
use super::event::Event;
use super::objects::{self, Compiled, OBJECTS, Scene};
use super::stamp::{self, Stamp};
use super::{Job, collect};
use crate::artifacts::BuiltTree;
use crate::cmake;
use crate::cmake::file_api::Reply;
use crate::host::{Command, Host, HostPath, Lock};
use crate::plan::Tree;
#[cfg(feature = "cli")]
use crate::report::cache::TreeDocument;
use crate::store::contents::Contents;
use crate::store::entry::{self, Draft, Entry, Inputs, Miss};
use crate::store::files::{self, Snapshot};
use crate::store::key::{Difference, Parts};
use crate::store::outputs::{self, Output};
use crate::store::places::Places;
use crate::store::settings::Store;
use crate::store::surroundings::{self, Elsewhere};
use crate::store::{maintain, tree_key};

/// Kind of the entries that hold whole trees.
const TREES: &str = "trees";

/// Bytes that a store copies in a second, about: what is built faster than it is stored a few times is not stored.
const COPIED_PER_SECOND: f64 = 100e6;

/// How much longer building has to take than storing.
const WORTH: f64 = 4.0;

/// What lies in a build folder because it was taken from a store. Ninja knows nothing of it.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Taken {
    files: Vec<String>,
}

/// A tree between the look at its sources and its stamp.
pub(super) struct Reuse<'a> {
    job: &'a Job<'a>,
    tree: &'a Tree,
    places: Places,
    /// All files below the source folder before the build.
    sources: Snapshot,
    contents: Contents,
    before: Option<Contents>,
    elsewhere: Elsewhere<'a>,
    /// Everything that the key is made of, where a store is used and the key can be told.
    parts: Option<Parts>,
    /// Whether something may be put into the store.
    writable: bool,
    /// Whether objects may be taken: nothing in the folder was compiled yet, or what was left out before is in again.
    fresh: bool,
    /// Targets whose objects were taken.
    taken: Vec<Compiled>,
    /// Targets that are compiled here, with the parts of their keys.
    left: Vec<(Compiled, Parts)>,
    /// Everything that Ninja makes.
    outputs: BTreeSet<String>,
    /// What the objects that were taken were made of.
    also_read: BTreeSet<String>,
    /// Whether one of them is made for this processor.
    native: bool,
}

/// What came of looking into the store.
pub(super) enum Found {
    /// The result, in its place, and the files that it was made of.
    Hit(Box<BuiltTree>, Vec<String>),
    /// Nothing that serves. The lock is held until the result is stored.
    Miss(Option<Lock>),
}

impl<'a> Reuse<'a> {
    /// Hashes the sources and makes the key.
    pub(super) fn begin(
        job: &'a Job<'a>,
        tree: &'a Tree,
        sources: Snapshot,
        tools: &[(&str, Option<&HostPath>)],
    ) -> Self {
        let host = job.host;
        let places = Places::of(host, tree);
        let before = Contents::read(host, &contents_path(tree));
        let mut contents = Contents::of(host, &sources, before.as_ref());
        // What an earlier build left was made of what was noted then, or there is nothing yet.
        contents.trusted =
            !host.exists(&ninja_log(tree)) || before.as_ref().is_some_and(|before| before.trusted);
        let note =
            job.store.as_ref().filter(|store| store.is_writable()).map(|store| store.root.join("known.json"));
        let mut elsewhere = Elsewhere::new(host, note);
        // Without Ninja it is not known which headers were read.
        let told = job.store.is_some()
            && tree.generator.starts_with("Ninja")
            && contents.files.len() == sources.len();
        let parts =
            told.then(|| tree_key::parts(host, tree, &contents, &places, tools, &mut elsewhere)).flatten();
        let writable = job.store.as_ref().is_some_and(Store::is_writable);
        Self {
            job,
            tree,
            places,
            sources,
            contents,
            before,
            elsewhere,
            parts,
            writable,
            fresh: false,
            taken: Vec::new(),
            left: Vec::new(),
            outputs: BTreeSet::new(),
            also_read: BTreeSet::new(),
            native: false,
        }
    }

    /// The key of what the sources hold.
    pub(super) fn key(&self) -> Option<String> {
        self.parts.as_ref().map(Parts::key)
    }

    /// Whether a stamp is of the same content, though files look different: touched, copied, checked out again.
    pub(super) fn is_same(&self, stamp: &Stamp, key: &str) -> bool {
        stamp.key == key
            && stamp.content.is_some()
            && stamp.content == self.key()
            && stamp.rest_holds(self.job.host)
    }

    /// Takes the result from the store if it is there.
    pub(super) fn take(&mut self) -> Result<Found, BuildError> {
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else {
            return Ok(Found::Miss(None));
        };
        let host = self.job.host;
        let key = parts.key();
        let lock = if self.writable { self.lock(store, &key)? } else { None };
        let place = entry::place_of(&self.places);
        let mut why = Miss::Absent;
        for place in [None, Some(place.as_str())] {
            let folder = entry::folder(store, TREES).join(&entry::name(&key, place));
            match self.look(&folder) {
                Ok((found, inputs, built)) => {
                    self.put(&folder, &found)?;
                    let read = inputs.read.iter().map(|path| self.places.path(path).to_string()).collect();
                    if self.writable {
                        entry::note_use(host, &folder);
                    }
                    self.elsewhere.write();
                    self.tell_hit(&key, &folder);
                    self.note_parts(&parts);
                    return Ok(Found::Hit(Box::new(built), read));
                }
                Err(Miss::Absent) => {}
                Err(miss) => {
                    if let (Miss::Damaged(_), true) = (&miss, self.writable) {
                        // What cannot be removed is replaced when the result is stored.
                        let _ = maintain::discard(host, &folder);
                    }
                    if miss == Miss::Newer {
                        self.writable = false;
                    }
                    why = miss;
                }
            }
        }
        self.tell_miss(store, &key, &parts, &why);
        Ok(Found::Miss(lock))
    }

    /// Whoever makes the same at this moment is waited for: then it is there.
    fn lock(&mut self, store: &Store, key: &str) -> Result<Option<Lock>, BuildError> {
        let (sink, tree) = (self.job.sink, &self.tree.id);
        let waiting = |path: &HostPath| {
            sink(&Event::WaitingForStore { tree: tree.clone(), lock: path.to_string() });
        };
        match entry::lock(self.job.host, store, key, &waiting) {
            Ok(lock) => Ok(lock),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Err(BuildError::Interrupted),
            Err(error) => {
                self.writable = false;
                self.tell_unused(format!("nothing is put into the store: {error}"));
                Ok(None)
            }
        }
    }

    /// The entry in a folder, if it serves.
    fn look(&mut self, folder: &HostPath) -> Result<(Entry, Inputs, BuiltTree), Miss> {
        let host = self.job.host;
        let entry = Entry::read(host, folder)?;
        let inputs = Entry::inputs(host, folder)?;
        inputs.hold(host, &self.places, &mut self.elsewhere)?;
        entry.verify(host, folder)?;
        let built = self.built(&inputs)?;
        Ok((entry, inputs, built))
    }

    /// Puts the files of an entry into their places.
    fn put(&mut self, folder: &HostPath, entry: &Entry) -> Result<(), BuildError> {
        let host = self.job.host;
        let paths = entry.paths(&self.places);
        // From here on the folder is not what CMake and Ninja left: they are told by files that are missing.
        let own = cmake::own_folder(self.tree);
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        for name in ["stamp.json", "configured.json"] {
            host.remove(&own.join(name)).map_err(failed)?;
        }
        let mut taken: Taken = crate::store::read_json(host, &taken_path(self.tree)).unwrap_or_default();
        taken.files.extend(paths);
        taken.files.sort();
        taken.files.dedup();
        crate::store::write_json(host, &taken_path(self.tree), &taken).map_err(failed)?;
        entry.put(host, folder, &self.places).map_err(failed)
    }

    /// The result in the words of this tree.
    fn built(&self, inputs: &Inputs) -> Result<BuiltTree, Miss> {
        let value = self.places.put_into(inputs.result.clone());
        let built: BuiltTree =
            serde_json::from_value(value).map_err(|error| Miss::Damaged(error.to_string()))?;
        Ok(BuiltTree {
            id: self.tree.id.clone(),
            key: stamp::key(self.tree, self.job.host.env()),
            source: self.tree.source.to_string(),
            build: self.tree.build.to_string(),
            cache: self.tree.cache.clone(),
            ..built
        })
    }

    /// Before CMake and Ninja go on with what lies in the build folder: takes away what they cannot see to be old. Ninja
    /// compares times; a file that changed and looks no newer than the last build is newer all the same.
    pub(super) fn settle(&mut self, ninja: Option<&HostPath>) -> Result<(), BuildError> {
        let host = self.job.host;
        let failed = |error: std::io::Error| BuildError::io("write into", &self.tree.build, &error);
        if let Some(taken) = crate::store::read_json::<Taken>(host, &taken_path(self.tree)) {
            for file in &taken.files {
                host.remove(&host.path(file)).map_err(failed)?;
            }
            host.remove(&taken_path(self.tree)).map_err(failed)?;
        }
        // Objects are taken anew each time: which ones can be told only of a tree that compiles all of them.
        let reused = reused_path(self.tree);
        let had_objects = host.exists(&reused);
        if had_objects {
            host.remove(&reused).map_err(failed)?;
            host.remove(&cmake::own_folder(self.tree).join("configured.json")).map_err(failed)?;
        }
        self.fresh = had_objects || !host.exists(&ninja_log(self.tree));
        let unseen = self.unseen_changes();
        if !unseen.is_empty() {
            self.invalidate(&unseen, ninja).map_err(failed)?;
        }
        self.contents.write(host, &contents_path(self.tree)).map_err(failed)
    }

    /// Files that have other content than at the last build and a time at which Ninja takes them for old.
    fn unseen_changes(&self) -> BTreeSet<String> {
        let host = self.job.host;
        let Some(before) = &self.before else { return BTreeSet::new() };
        let Some(last) = host.stat(&ninja_log(self.tree)).ok().and_then(|stat| stat.modified) else {
            return BTreeSet::new();
        };
        let is_unseen = |path: &&String| {
            let (now, was) = (&self.contents.files[*path], before.files.get(*path));
            now.stamp.modified <= last && was.is_some_and(|was| was.sha256 != now.sha256)
        };
        self.contents.files.keys().filter(is_unseen).cloned().collect()
    }

    /// Asks Ninja about the build folder.
    fn ask(&self, ninja: Option<&HostPath>, what: &[&str]) -> Option<String> {
        let command = Command::new(ninja?.as_str(), Duration::from_secs(120));
        let command = command.args(["-C", self.tree.build.as_str(), "-t"]).args(what.iter().copied());
        let output = self.job.host.run(&command).ok().filter(crate::host::Output::success)?;
        Some(output.stdout)
    }

    fn invalidate(&self, unseen: &BTreeSet<String>, ninja: Option<&HostPath>) -> std::io::Result<()> {
        let (host, build) = (self.job.host, &self.tree.build);
        let ask = |what: &[&str]| self.ask(ninja, what);
        let mut left = unseen.clone();
        for (object, paths) in stamp::deps_by_object(&ask(&["deps"]).unwrap_or_default(), build) {
            let used: Vec<&String> = paths.iter().filter(|path| unseen.contains(*path)).collect();
            if !used.is_empty() {
                host.remove(&host.path(&object))?;
            }
            for path in used {
                left.remove(path);
            }
        }
        if left.is_empty() {
            return Ok(());
        }
        // Scripts, and inputs of generators. CMake's and Ninja's own notes are all that holds them back.
        host.remove(&cmake::own_folder(self.tree).join("configured.json"))?;
        let inputs = ask(&["inputs", "all"]).map(|text| {
            let lines = text.lines().map(|line| line.trim().trim_matches('\''));
            lines.map(|line| build.join(line).normalized().to_string()).collect::<BTreeSet<_>>()
        });
        if inputs.is_none_or(|inputs| left.iter().any(|path| inputs.contains(path))) {
            host.remove(&ninja_log(self.tree))?;
        }
        Ok(())
    }

    /// Puts the objects of targets into the build folder that some tree compiled before, and writes the script that has
    /// CMake take them. Says whether there are any.
    pub(super) fn take_objects(
        &mut self,
        ninja: Option<&HostPath>,
        reply: &Reply,
    ) -> Result<bool, BuildError> {
        let (host, tree) = (self.job.host, self.tree);
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else { return Ok(false) };
        // Who wants the commands of all units gets them.
        let lists = |name: &str| tree.cache.get(name).is_some_and(|value| value == "ON");
        if !self.fresh || lists("CMAKE_EXPORT_COMPILE_COMMANDS") {
            return Ok(false);
        }
        let (Some(steps), Some(all)) = (self.ask(ninja, &["compdb"]), self.ask(ninja, &["targets", "all"]))
        else {
            return Ok(false);
        };
        self.outputs = objects::outputs(&all, &tree.build);
        let needed = collect::targets_to_build(tree, reply);
        let mut all = objects::compiled(reply, &objects::steps(&steps), &tree.source, &tree.build);
        all.retain(|compiled| needed.contains(&compiled.target));
        let keyed: Vec<(Compiled, Parts)> = {
            let mut scene = Scene {
                host,
                places: &self.places,
                sources: &self.sources,
                contents: &self.contents,
                elsewhere: &mut self.elsewhere,
                tree: &parts,
                outputs: &self.outputs,
                layouts: BTreeMap::new(),
            };
            let parts = |one: Compiled| scene.parts(&one).map(|parts| (one, parts));
            all.into_iter().filter_map(parts).collect()
        };
        for (compiled, parts) in keyed {
            if self.take_target(store, &parts)? {
                self.native |= parts.0.contains_key("processor");
                self.also_read.extend(compiled.units.iter().map(|unit| unit.source.clone()));
                self.taken.push(compiled);
            } else {
                self.left.push((compiled, parts));
            }
        }
        if self.taken.is_empty() {
            return Ok(false);
        }
        let text = objects::script(&self.taken, &objects_path(tree));
        let path = reused_path(tree);
        host.write(&path, text.as_bytes()).map_err(|error| BuildError::io("write", &path, &error))?;
        Ok(true)
    }

    fn take_target(&mut self, store: &Store, parts: &Parts) -> Result<bool, BuildError> {
        let host = self.job.host;
        let (key, place) = (parts.key(), entry::place_of(&self.places));
        for place in [None, Some(place.as_str())] {
            let folder = entry::folder(store, OBJECTS).join(&entry::name(&key, place));
            let read = Entry::read(host, &folder).and_then(|entry| {
                let inputs = Entry::inputs(host, &folder)?;
                inputs.hold(host, &self.places, &mut self.elsewhere)?;
                entry.verify(host, &folder)?;
                Ok((entry, inputs))
            });
            let Ok((entry, inputs)) = read else { continue };
            match entry.put(host, &folder, &self.places) {
                Ok(()) => {}
                Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                    return Err(BuildError::io("write into", &self.tree.build, &error));
                }
                // Thrown away while it was being taken.
                Err(_) => continue,
            }
            self.also_read.extend(inputs.read.iter().map(|path| self.places.path(path).to_string()));
            if self.writable {
                entry::note_use(host, &folder);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether CMake, told to take the objects, links the same as before. If not, nothing is taken.
    pub(super) fn keeps_objects(
        &mut self,
        before: &Reply,
        after: Option<&Reply>,
    ) -> Result<bool, BuildError> {
        let probe = |reply: &Reply| reply.target(crate::cmake::inject::PROBE).map(|probe| probe.link.clone());
        let same = after.is_some_and(|after| {
            let artifacts = |reply: &Reply| -> BTreeMap<String, Vec<String>> {
                reply.targets.iter().map(|target| (target.name.clone(), target.artifacts.clone())).collect()
            };
            probe(before) == probe(after) && artifacts(before) == artifacts(after)
        });
        if same {
            let left = self.left.iter().map(|(compiled, _)| compiled.units.len()).sum();
            (self.job.sink)(&Event::ObjectsTaken {
                tree: self.tree.id.clone(),
                targets: self.taken.iter().map(|compiled| compiled.target.clone()).collect(),
                objects: self.taken.iter().map(|compiled| compiled.units.len()).sum(),
                left,
            });
            return Ok(true);
        }
        self.taken.clear();
        self.also_read.clear();
        let path = reused_path(self.tree);
        self.job.host.remove(&path).map_err(|error| BuildError::io("remove", &path, &error))?;
        Ok(false)
    }

    /// What was read by whoever compiled the objects that were taken.
    pub(super) fn also_read(&self) -> impl Iterator<Item = String> {
        self.also_read.iter().cloned()
    }

    /// Puts the objects of targets that were compiled here into the store.
    fn publish_objects(
        &mut self,
        store: &Store,
        ninja: Option<&HostPath>,
        seconds: f64,
    ) -> std::io::Result<()> {
        let left = std::mem::take(&mut self.left);
        if left.is_empty() {
            return Ok(());
        }
        let deps = objects::deps(&self.ask(ninja, &["deps"]).unwrap_or_default(), &self.tree.build);
        let units: usize = left.iter().map(|(compiled, _)| compiled.units.len()).sum();
        for (compiled, parts) in left {
            let Some(closure) = objects::closure(&compiled, &deps, &self.outputs) else { continue };
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let seconds = seconds * compiled.units.len() as f64 / units as f64;
            self.publish_target(store, &compiled, parts, closure, seconds)?;
        }
        Ok(())
    }

    fn publish_target(
        &mut self,
        store: &Store,
        compiled: &Compiled,
        parts: Parts,
        closure: BTreeSet<String>,
        seconds: f64,
    ) -> std::io::Result<()> {
        let (host, key) = (self.job.host, parts.key());
        // Somebody else puts the same in at this moment.
        let Some(_lock) = host.lock(&entry::lock_path(store, &key), crate::host::Wait::No)? else {
            return Ok(());
        };
        let folder = objects_path(self.tree).join(&compiled.target);
        let outputs: Option<Vec<Output>> = compiled
            .units
            .iter()
            .map(|unit| {
                let output = outputs::read(host, &host.path(&unit.object), &self.places)?;
                Some(Output { belongs: folder.join(&unit.name), ..output })
            })
            .collect();
        let paths: Vec<String> = closure.into_iter().collect();
        let hashes: Option<Vec<String>> = self.elsewhere.hashes(&paths).into_iter().collect();
        let (Some(outputs), Some(hashes)) = (outputs, hashes) else { return Ok(()) };
        let named = |path: &String| self.places.take_out(path);
        let names_place = outputs.iter().any(|output| output.names_place);
        let entry = Entry {
            schema: entry::SCHEMA,
            kind: OBJECTS.to_owned(),
            key,
            label: format!("{} {} {}", self.job.project, self.tree.id, compiled.target),
            gpubuild: env!("CARGO_PKG_VERSION").to_owned(),
            created: host.now(),
            seconds,
            bytes: 0,
            place: names_place.then(|| entry::place_of(&self.places)),
            files: Vec::new(),
            links: Vec::new(),
        };
        let inputs = Inputs {
            parts,
            origin: self.tree.source.to_string(),
            outside: paths.iter().map(named).zip(hashes).collect(),
            read: paths.iter().map(named).collect(),
            ..Inputs::default()
        };
        let draft = Draft { entry, inputs, outputs: &outputs, links: &[] };
        entry::publish(host, store, &self.places, draft).map(drop)
    }

    /// Compares the sources with what they were before the build, and tells of those that changed meanwhile. The next build
    /// then knows that what was made of them is not to be relied on.
    pub(super) fn note_changes(&mut self) -> Result<Vec<String>, BuildError> {
        let host = self.job.host;
        let after = files::walk(host, &self.tree.source, &self.tree.build)
            .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
        if after == self.sources {
            return Ok(Vec::new());
        }
        let paths: BTreeSet<&String> = after.keys().chain(self.sources.keys()).collect();
        let changed: Vec<String> =
            paths.into_iter().filter(|path| after.get(*path) != self.sources.get(*path)).cloned().collect();
        for path in &changed {
            if let Some(known) = self.contents.files.get_mut(path) {
                known.sha256.clear();
            }
        }
        let path = contents_path(self.tree);
        self.contents.write(host, &path).map_err(|error| BuildError::io("write", &path, &error))?;
        self.parts = None;
        (self.job.sink)(&Event::SourcesChanged { tree: self.tree.id.clone(), files: changed.clone() });
        Ok(changed)
    }

    /// Puts the result into the store. A build is as good without: what goes wrong is told in one line.
    pub(super) fn publish(
        &mut self,
        lock: Option<Lock>,
        ninja: Option<&HostPath>,
        reply: &Reply,
        stamp: &Stamp,
        seconds: f64,
    ) {
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else { return };
        self.note_parts(&parts);
        if !self.writable || !self.contents.trusted {
            return;
        }
        let objects = self.publish_objects(store, ninja, seconds);
        match objects.and_then(|()| self.draft(store, &parts, reply, stamp, seconds)) {
            Ok(Some(entry)) => {
                let (tree, key) = (self.tree.id.clone(), entry.key.clone());
                (self.job.sink)(&Event::Stored { tree, key, bytes: entry.bytes });
                self.elsewhere.write();
            }
            Ok(None) => {}
            Err(error) => self.tell_unused(format!("the result is not stored: {error}")),
        }
        drop(lock);
    }

    fn draft(
        &mut self,
        store: &Store,
        parts: &Parts,
        reply: &Reply,
        stamp: &Stamp,
        seconds: f64,
    ) -> std::io::Result<Option<Entry>> {
        let (host, tree) = (self.job.host, self.tree);
        let native = self.native || outputs::is_for_this_processor(host, tree, reply);
        let processor = if native { surroundings::processor(host) } else { None };
        // Which processor it is made for is not known here.
        if native && processor.is_none() {
            return Ok(None);
        }
        let Some(outputs) = outputs::gather(host, tree, reply, &stamp.built, &self.places) else {
            return Ok(None);
        };
        let bytes: u64 = outputs.files.iter().map(|file| file.bytes).sum();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        if bytes > store.limit || seconds < WORTH * bytes as f64 / COPIED_PER_SECOND {
            return Ok(None);
        }
        let Some((outside, programs)) = self.outside(reply, stamp) else { return Ok(None) };
        let names_place = outputs.files.iter().any(|file| file.names_place);
        let result = serde_json::to_value(&stamp.built).map_err(std::io::Error::other)?;
        let entry = Entry {
            schema: entry::SCHEMA,
            kind: TREES.to_owned(),
            key: parts.key(),
            label: format!("{} {}", self.job.project, tree.id),
            gpubuild: env!("CARGO_PKG_VERSION").to_owned(),
            created: host.now(),
            seconds,
            bytes: 0,
            place: names_place.then(|| entry::place_of(&self.places)),
            files: Vec::new(),
            links: Vec::new(),
        };
        let inputs = Inputs {
            parts: parts.clone(),
            origin: tree.source.to_string(),
            outside,
            programs,
            path_names: (!reply.unfound.is_empty()).then(|| entry::path_names(host)),
            processor,
            read: stamp.read.iter().map(|path| self.places.take_out(path)).collect(),
            result: self.places.take_out_of(result),
        };
        let draft = Draft { entry, inputs, outputs: &outputs.files, links: &outputs.links };
        let entry = entry::publish(host, store, &self.places, draft)?;
        let limits = maintain::Limits { size: Some(store.limit), ..maintain::Limits::default() };
        maintain::prune(host, store, limits)?;
        Ok(Some(entry))
    }

    /// Files that were read elsewhere, with hashes, and programs that were found on PATH. `None` if one is gone already.
    fn outside(
        &mut self,
        reply: &Reply,
        stamp: &Stamp,
    ) -> Option<(BTreeMap<String, String>, BTreeMap<String, String>)> {
        let host = self.job.host;
        let mut paths: BTreeSet<String> = stamp.outside.keys().cloned().collect();
        let mut programs = BTreeMap::new();
        for value in reply.cache.values() {
            let path = host.path(value);
            let is_ours = path.is_inside(&self.tree.build) || self.sources.contains_key(value);
            if is_ours || !path.is_absolute() || !host.is_file(&path) {
                continue;
            }
            paths.insert(value.clone());
            if let Some(name) = path.file_name()
                && crate::host::find_program(host, name).first() == Some(&path)
            {
                programs.insert(name.to_owned(), value.clone());
            }
        }
        let paths: Vec<String> = paths.into_iter().collect();
        let hashes = self.elsewhere.hashes(&paths);
        let named = paths.iter().zip(hashes).map(|(path, hash)| Some((self.places.take_out(path), hash?)));
        Some((named.collect::<Option<_>>()?, programs))
    }

    /// Keeps what the key was made of, so that the next build can say what is different.
    fn note_parts(&self, parts: &Parts) {
        let path = parts_path(self.tree);
        if let Err(error) = crate::store::write_json(self.job.host, &path, parts) {
            tracing::debug!(%path, %error, "failed to note the key");
        }
    }

    fn tell_hit(&self, key: &str, folder: &HostPath) {
        let (tree, key, entry) = (self.tree.id.clone(), key.to_owned(), folder.to_string());
        (self.job.sink)(&Event::Taken { tree, key, entry });
    }

    /// What is different from the last build in this folder, else from the entry that is most like it.
    fn tell_miss(&self, store: &Store, key: &str, parts: &Parts, miss: &Miss) {
        let (since, different) = match miss {
            Miss::Absent => self.compared(store, parts),
            _ => (String::new(), Vec::new()),
        };
        (self.job.sink)(&Event::NotStored {
            tree: self.tree.id.clone(),
            key: key.to_owned(),
            why: miss.to_string(),
            since,
            different,
        });
    }

    fn compared(&self, store: &Store, parts: &Parts) -> (String, Vec<Difference>) {
        let host = self.job.host;
        let last: Option<Parts> = crate::store::read_json(host, &parts_path(self.tree));
        if let Some(last) = last {
            return ("the last build here".to_owned(), parts.since(&last));
        }
        let near = nearest(host, store, parts);
        near.map(|(label, near)| (format!("the stored `{label}`"), parts.since(&near))).unwrap_or_default()
    }

    fn tell_unused(&self, why: String) {
        (self.job.sink)(&Event::StoreUnused { tree: self.tree.id.clone(), why });
    }
}

/// What a build would find in the store for a tree. Changes nothing.
#[cfg(feature = "cli")]
pub(crate) fn explain(job: &Job<'_>, tree: &Tree) -> Result<TreeDocument, BuildError> {
    let host = job.host;
    let sources = files::walk(host, &tree.source, &tree.build)
        .map_err(|(path, error)| BuildError::io("read the folder", &path, &error))?;
    let tools = [("cmake", job.tools.cmake.as_ref()), ("ninja", job.tools.ninja.as_ref())];
    let mut reuse = Reuse::begin(job, tree, sources, &tools);
    let mut document = TreeDocument {
        tree: tree.id.clone(),
        key: reuse.key(),
        hit: false,
        what: "what it depends on cannot be told, so it is always built".to_owned(),
        since: String::new(),
        different: Vec::new(),
        parts: BTreeMap::new(),
    };
    let (Some(store), Some(parts)) = (&job.store, reuse.parts.clone()) else { return Ok(document) };
    document.parts = parts.hashes();
    let place = entry::place_of(&reuse.places);
    let mut why = Miss::Absent;
    for place in [None, Some(place.as_str())] {
        let folder = entry::folder(store, TREES).join(&entry::name(&parts.key(), place));
        match reuse.look(&folder) {
            Ok(_) => return Ok(TreeDocument { hit: true, what: folder.to_string(), ..document }),
            Err(Miss::Absent) => {}
            Err(miss) => why = miss,
        }
    }
    if why == Miss::Absent {
        (document.since, document.different) = reuse.compared(store, &parts);
    }
    Ok(TreeDocument { what: why.to_string(), ..document })
}

/// The entry whose key differs in the fewest parts, and there in the fewest items.
pub(crate) fn nearest(host: &dyn Host, store: &Store, parts: &Parts) -> Option<(String, Parts)> {
    /// So many are looked at, those used last first: each is read whole.
    const MOST: usize = 20;
    let items = maintain::items(host, store).into_iter().filter(|item| item.kind == TREES).take(MOST);
    let read = items.filter_map(|item| {
        let (entry, inputs) = (item.entry.ok()?, Entry::inputs(host, &item.folder).ok()?);
        let different: Vec<Difference> = parts.since(&inputs.parts);
        let items: usize = different.iter().map(|difference| difference.items.len()).sum();
        Some(((different.len(), items), entry.label, inputs.parts))
    });
    read.min_by_key(|(distance, ..)| *distance).map(|(_, label, parts)| (label, parts))
}

/// What the last key of a tree was made of.
#[must_use]
pub(crate) fn parts_path(tree: &Tree) -> HostPath {
    cmake::own_folder(tree).join("key.json")
}

fn contents_path(tree: &Tree) -> HostPath {
    cmake::own_folder(tree).join("contents.json")
}

fn taken_path(tree: &Tree) -> HostPath {
    cmake::own_folder(tree).join("taken.json")
}

/// The script that has CMake take objects.
fn reused_path(tree: &Tree) -> HostPath {
    cmake::own_folder(tree).join("reused.cmake")
}

/// Where objects lie that were taken.
fn objects_path(tree: &Tree) -> HostPath {
    cmake::own_folder(tree).join("objects")
}

fn ninja_log(tree: &Tree) -> HostPath {
    tree.build.join(".ninja_log")
}
