//! Restores the objects of single targets before a tree is built, and saves new ones afterwards.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_host::HostPath;

use super::{BuildStart, Reuse, objects_path, reused_path};
use crate::cmake::file_api::FileApiReply;
use crate::event::BuildEvent;
use crate::exec::collect;
use crate::exec::error::{BuildError, has_no_space};
use crate::exec::objects::{self, CompiledTarget, OBJECTS, ObjectContext};
use crate::store::contents::FileTrait;
use crate::store::entry::{self, EntryDraft, EntryInputs, StoreEntry};
use crate::store::key::KeyParts;
use crate::store::outputs::{self, StoredOutput};
use crate::store::settings::Store;

impl Reuse<'_> {
    /// Restores the objects of targets that are in the store, and writes the CMake script that uses them. Returns whether
    /// there are any.
    pub(in crate::exec) fn restore_objects(
        &mut self,
        ninja: Option<&HostPath>,
        reply: &FileApiReply,
    ) -> Result<bool, BuildError> {
        let (host, tree) = (self.job.host, self.tree);
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else { return Ok(false) };
        // With restored objects the list of compile commands would be incomplete.
        let is_on = |name: &str| tree.cache.get(name).is_some_and(|value| value == "ON");
        if self.start == BuildStart::Incremental || is_on("CMAKE_EXPORT_COMPILE_COMMANDS") {
            return Ok(false);
        }
        let (Some(steps), Some(all)) =
            (self.ninja_tool(ninja, &["compdb"]), self.ninja_tool(ninja, &["targets", "all"]))
        else {
            return Ok(false);
        };
        self.outputs = objects::outputs(&all, &tree.build);
        let needed = collect::targets_to_build(tree, reply);
        let mut all = objects::compiled(reply, &objects::steps(&steps), &tree.source, &tree.build);
        all.retain(|compiled| needed.contains(&compiled.target));
        let keyed: Vec<(CompiledTarget, KeyParts)> = {
            let mut context = ObjectContext {
                host,
                roots: &self.roots,
                sources: &self.sources,
                contents: &self.contents,
                external: &mut self.external,
                tree: &parts,
                outputs: &self.outputs,
                layouts: BTreeMap::new(),
                without_file: BTreeSet::new(),
            };
            let parts = |one: CompiledTarget| context.parts(&one).map(|parts| (one, parts));
            all.into_iter().filter_map(parts).collect()
        };
        for (compiled, parts) in keyed {
            if self.restore_target(store, &parts)? {
                self.native |= parts.0.contains_key("processor");
                self.also_read.extend(compiled.units.iter().map(|unit| unit.source.clone()));
                self.restored.push(compiled);
            } else {
                self.to_compile.push((compiled, parts));
            }
        }
        if self.restored.is_empty() {
            return Ok(false);
        }
        let text = objects::script(&self.restored, &objects_path(tree));
        let path = reused_path(tree);
        host.write(&path, text.as_bytes()).map_err(|error| BuildError::io("write", &path, &error))?;
        Ok(true)
    }

    fn restore_target(&mut self, store: &Store, parts: &KeyParts) -> Result<bool, BuildError> {
        let host = self.job.host;
        for folder in entry::candidates(store, OBJECTS, &parts.key(), &self.roots) {
            let serving =
                StoreEntry::read_usable(host, &folder, &parts.key(), &self.roots, &mut self.external);
            let Ok((entry, inputs)) = serving else { continue };
            match entry.restore(host, &folder, &self.roots) {
                Ok(()) => {}
                Err(error) if has_no_space(&error) => {
                    return Err(BuildError::io("write into", &self.tree.build, &error));
                }
                // The entry was removed while it was being copied.
                Err(_) => continue,
            }
            self.also_read.extend(inputs.read.iter().map(|path| self.roots.path(path).to_string()));
            if self.writable {
                entry::record_use(host, &folder);
            }
            return Ok(true);
        }
        Ok(false)
    }

    /// Whether CMake's link lines and artifacts are unchanged with the restored objects. If not, discards the objects.
    pub(in crate::exec) fn keeps_objects(
        &mut self,
        before: &FileApiReply,
        after: Option<&FileApiReply>,
    ) -> Result<bool, BuildError> {
        let probe =
            |reply: &FileApiReply| reply.target(crate::cmake::inject::PROBE).map(|probe| probe.link.clone());
        let same = after.is_some_and(|after| {
            let artifacts = |reply: &FileApiReply| -> BTreeMap<String, Vec<String>> {
                reply.targets.iter().map(|target| (target.name.clone(), target.artifacts.clone())).collect()
            };
            probe(before) == probe(after) && artifacts(before) == artifacts(after)
        });
        if same {
            let left = self.to_compile.iter().map(|(compiled, _)| compiled.units.len()).sum();
            (self.job.sink)(&BuildEvent::ObjectsTaken {
                tree: self.tree.id.clone(),
                targets: self.restored.iter().map(|compiled| compiled.target.clone()).collect(),
                objects: self.restored.iter().map(|compiled| compiled.units.len()).sum(),
                left,
            });
            return Ok(true);
        }
        self.restored.clear();
        self.also_read.clear();
        let path = reused_path(self.tree);
        self.job.host.remove(&path).map_err(|error| BuildError::io("remove", &path, &error))?;
        Ok(false)
    }

    /// The sources and headers of the restored objects.
    pub(in crate::exec) fn also_read(&self) -> impl Iterator<Item = String> {
        self.also_read.iter().cloned()
    }

    /// Saves the objects of the targets that were compiled.
    pub(super) fn publish_objects(
        &mut self,
        store: &Store,
        ninja: Option<&HostPath>,
        seconds: f64,
    ) -> std::io::Result<()> {
        let left = std::mem::take(&mut self.to_compile);
        if left.is_empty() {
            return Ok(());
        }
        let deps = objects::deps(&self.ninja_tool(ninja, &["deps"]).unwrap_or_default(), &self.tree.build);
        let units: usize = left.iter().map(|(compiled, _)| compiled.units.len()).sum();
        for (compiled, parts) in left {
            let Some(closure) = objects::closure(&compiled, &deps, &self.outputs) else { continue };
            if closure
                .iter()
                .filter_map(|path| self.contents.files.get(path))
                .any(|file| file.has(FileTrait::Embeds))
            {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "an estimate")]
            let seconds = seconds * compiled.units.len() as f64 / units as f64;
            self.publish_target(store, &compiled, parts, closure, seconds)?;
        }
        Ok(())
    }

    fn publish_target(
        &mut self,
        store: &Store,
        compiled: &CompiledTarget,
        parts: KeyParts,
        closure: BTreeSet<String>,
        seconds: f64,
    ) -> std::io::Result<()> {
        let (host, key) = (self.job.host, parts.key());
        // Skips the target if another process is saving the same entry.
        let Some(_lock) = entry::lock_file(host, &entry::lock_path(store, &key), gpubuild_host::Wait::No)?
        else {
            return Ok(());
        };
        let folder = objects_path(self.tree).join(&compiled.target);
        let outputs: Option<Vec<StoredOutput>> = compiled
            .units
            .iter()
            .map(|unit| {
                let output = outputs::read(host, &host.path(&unit.object), &self.roots)?;
                Some(StoredOutput { destination: folder.join(&unit.name), ..output })
            })
            .collect();
        let paths: Vec<String> = closure.into_iter().collect();
        let hashes: Option<Vec<String>> = self.external.hashes(&paths).into_iter().collect();
        let (Some(outputs), Some(hashes)) = (outputs, hashes) else { return Ok(()) };
        let named = |path: &String| self.roots.with_placeholders(path);
        let label = format!("{} {} {}", self.job.project, self.tree.id, compiled.target);
        let entry = StoreEntry::new(host, &self.roots, OBJECTS, key, label, &outputs, seconds);
        let inputs = EntryInputs {
            parts,
            origin: self.tree.source.to_string(),
            outside: paths.iter().map(named).zip(hashes).collect(),
            read: paths.iter().map(named).collect(),
            ..EntryInputs::default()
        };
        let draft = EntryDraft { entry, inputs, outputs: &outputs, links: &[] };
        entry::publish(host, store, &self.roots, draft).map(drop)
    }
}
