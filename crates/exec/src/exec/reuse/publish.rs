//! Saves the result of a complete tree in the build store.

use std::collections::{BTreeMap, BTreeSet};

use gpubuild_core::isa::is_machine_flag;
use gpubuild_core::order::CollectSorted as _;
use gpubuild_core::secret;
use gpubuild_host::{FileLock, HostPath};
use gpubuild_plan::artifacts::BuiltTree;
use serde_json::Value;

use super::{BuildStart, Reuse, TREES};
use crate::cmake::file_api::FileApiReply;
use crate::event::BuildEvent;
use crate::exec::editor::EditorInfo;
use crate::exec::stamp::BuildStamp;
use crate::store::entry::{self, EntryDraft, EntryInputs, StoreEntry};
use crate::store::key::KeyParts;
use crate::store::settings::Store;
use crate::store::{implicit_inputs, maintain, outputs};

/// Estimated number of bytes that are copied to the store per second.
const COPIED_PER_SECOND: f64 = 100e6;

/// A result is stored only if building takes at least this many times longer than copying it.
const WORTH: f64 = 4.0;

impl Reuse<'_> {
    /// Saves the result in the store. Failures are reported as an event and do not fail the build.
    pub(in crate::exec) fn publish(
        &mut self,
        lock: Option<FileLock>,
        ninja: Option<&HostPath>,
        reply: &FileApiReply,
        stamp: &BuildStamp,
        seconds: f64,
    ) {
        let (Some(store), Some(parts)) = (&self.job.store, self.parts.clone()) else { return };
        self.save_parts(&parts);
        if !self.writable || self.start != BuildStart::Empty {
            return;
        }
        let mut stored = None;
        let objects = self.publish_objects(store, ninja, seconds);
        match objects.and_then(|()| self.draft(store, &parts, reply, stamp, seconds)) {
            Ok(Some(entry)) => {
                let (tree, key) = (self.tree.id.clone(), entry.key.clone());
                let name = entry::name(&entry.key, entry.place.as_deref());
                stored = Some((store, entry::folder(store, TREES).join(&name), entry.key.clone()));
                (self.job.sink)(&BuildEvent::Stored { tree, key, bytes: entry.bytes });
                self.external.write();
            }
            Ok(None) => {}
            Err(error) => self.report_unused(format!("the result is not stored: {error}")),
        }
        drop(lock);
        if let Some((store, folder, key)) = stored {
            self.push(store, &folder, &key);
        }
    }

    fn draft(
        &mut self,
        store: &Store,
        parts: &KeyParts,
        reply: &FileApiReply,
        stamp: &BuildStamp,
        seconds: f64,
    ) -> std::io::Result<Option<StoreEntry>> {
        let (host, tree) = (self.job.host, self.tree);
        let native = self.native || outputs::is_for_this_processor(host, tree, reply);
        let processor = if native { implicit_inputs::processor(host) } else { None };
        // The result is specific to a processor that cannot be identified.
        if native && processor.is_none() {
            return Ok(None);
        }
        let Some(outputs) = outputs::gather(host, tree, reply, &stamp.built, &self.roots) else {
            return Ok(None);
        };
        let bytes: u64 = outputs.files.iter().map(|file| file.bytes).sum();
        #[expect(clippy::cast_precision_loss, reason = "an estimate")]
        if bytes > store.limit || seconds < WORTH * bytes as f64 / COPIED_PER_SECOND {
            return Ok(None);
        }
        // A build that restores the result uses the options of its plan.
        let promises = promises(&stamp.built);
        let built = BuiltTree { cache: BTreeMap::new(), promises, ..stamp.built.clone() };
        let result = serde_json::to_value(&built).map_err(std::io::Error::other)?;
        // Definitions of the interface cannot be redacted, because a build that restores the result needs their values.
        if self.contains_secret(&result) {
            return Ok(None);
        }
        let sources = self.sources_for_editors(reply)?;
        let Some(outside) = self.outside(reply, stamp) else { return Ok(None) };
        let label = format!("{} {}", self.job.project, tree.id);
        let entry = StoreEntry::new(host, &self.roots, TREES, parts.key(), label, &outputs.files, seconds);
        let named = |(path, hash): (&String, &String)| (self.roots.with_placeholders(path), hash.clone());
        let inputs = EntryInputs {
            parts: parts.clone(),
            origin: tree.source.to_string(),
            outside,
            programs: stamp.asked.programs.clone(),
            path_names: (!reply.unfound.is_empty()).then(|| entry::path_names(host)),
            processor,
            variables: self.outside_variables(reply),
            beside: stamp.asked.beside.iter().map(named).collect(),
            read: stamp.read.iter().map(|path| self.roots.with_placeholders(path)).collect(),
            result: self.roots.with_placeholders_in(result),
            sources: self.roots.with_placeholders_in(sources),
        };
        let draft = EntryDraft { entry, inputs, outputs: &outputs.files, links: &outputs.links };
        let entry = entry::publish(host, store, &self.roots, draft)?;
        let limits = maintain::StoreLimits { size: Some(store.limit), ..maintain::StoreLimits::default() };
        maintain::prune(host, store, limits)?;
        Ok(Some(entry))
    }

    /// The sources with their flags, without flags from environment variables, which may be private. `null` if a secret
    /// remains.
    fn sources_for_editors(&self, reply: &FileApiReply) -> std::io::Result<Value> {
        let sources = EditorInfo::of(self.job.host, self.tree, reply).to_store(self.job.host.env());
        let sources = serde_json::to_value(&sources).map_err(std::io::Error::other)?;
        Ok(if self.contains_secret(&sources) { Value::Null } else { sources })
    }

    /// Whether a string in the result is a secret or contains one from the environment.
    fn contains_secret(&self, result: &Value) -> bool {
        let env = self.job.host.env();
        let mut known: Vec<String> = env.iter().flat_map(|(_, value)| secret::values(value)).collect();
        let named =
            env.iter().filter(|(name, value)| secret::names_secret(name) && secret::is_distinct(value));
        known.extend(named.map(|(_, value)| value.to_owned()));
        let mut waiting = vec![result];
        while let Some(value) = waiting.pop() {
            match value {
                Value::String(text) if !secret::redact_known(text, &known).kinds.is_empty() => return true,
                Value::Array(items) => waiting.extend(items),
                Value::Object(items) => waiting.extend(items.values()),
                _ => {}
            }
        }
        false
    }

    /// Returns the hashes of external files that the build read. `None` if a file no longer exists.
    fn outside(&mut self, reply: &FileApiReply, stamp: &BuildStamp) -> Option<BTreeMap<String, String>> {
        let host = self.job.host;
        let mut paths: BTreeSet<String> = stamp.outside.keys().cloned().collect_set();
        for value in reply.cache.values() {
            let path = host.path(value);
            let is_internal = path.is_inside(&self.tree.build) || self.sources.contains_key(value);
            if !is_internal && path.is_absolute() && host.is_file(&path) {
                paths.insert(value.clone());
            }
        }
        let paths: Vec<String> = paths.into_iter().collect();
        let hashes = self.external.hashes(&paths);
        let named =
            paths.iter().zip(hashes).map(|(path, hash)| Some((self.roots.with_placeholders(path), hash?)));
        named.collect()
    }
}

/// The promises of a tree, reduced to machine flags: `CMAKE_C_FLAGS` also contains all of `CFLAGS`.
fn promises(built: &BuiltTree) -> BTreeMap<String, String> {
    let is_promise = |word: &&str| is_machine_flag(word);
    let kept = |(name, value): (&String, &String)| {
        let value = if name.starts_with("CMAKE_") && name.ends_with("_FLAGS") {
            value.split_ascii_whitespace().filter(is_promise).collect::<Vec<_>>().join(" ")
        } else {
            value.clone()
        };
        (!value.is_empty()).then(|| (name.clone(), value))
    };
    built.promises.iter().filter_map(kept).collect()
}
