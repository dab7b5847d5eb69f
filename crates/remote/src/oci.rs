//! OCI registries: each entry is an image whose tag is its id, whose config is its manifest and whose layers are its blobs. With the
//! credentials of container tools, as for `gpubuild install`.

use std::fmt;

use gpubuild_exec::store::sha256;
use gpubuild_host::HostPath;
use gpubuild_host::net::{Method, RequestBody, Response};
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{FetchError, FetchTarget, RedirectPolicy};
use gpubuild_release::manifest::is_sha256;
use gpubuild_release::oci::{ACCEPT, Reference};
use gpubuild_release::url::Url;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::content::Blob;
use super::error::RemoteError;
use super::listing::{self, Page};
use super::server::{Call, ListedEntry, Object, Server, ServerRequest};

const CONFIG: &str = "application/vnd.gpubuild.store.entry.v1+json";
const LAYER: &str = "application/vnd.gpubuild.store.file.v1+zstd";

/// A repository of a registry.
pub(crate) struct OciServer {
    pub(crate) repository: Reference,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    schema_version: u32,
    media_type: Option<String>,
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
}

#[derive(Deserialize)]
struct Tags {
    #[serde(default, deserialize_with = "ids")]
    tags: Vec<String>,
}

/// Reads the tags that are ids of entries. Others can be long, and there can be many.
fn ids<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    struct Ids;

    impl<'de> Visitor<'de> for Ids {
        type Value = Vec<String>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list of tags")
        }

        /// `null`: a repository without tags.
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(Vec::new())
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut tags: A) -> Result<Self::Value, A::Error> {
            let mut ids = Vec::new();
            while let Some(tag) = tags.next_element::<String>()? {
                ids.extend(Some(tag).filter(|tag| is_sha256(tag)));
            }
            Ok(ids)
        }
    }

    deserializer.deserialize_any(Ids)
}

impl Descriptor {
    fn new(media_type: &str, blob: &Blob) -> Self {
        Self {
            media_type: media_type.to_owned(),
            digest: format!("sha256:{}", blob.sha256),
            size: blob.bytes,
        }
    }
}

impl OciServer {
    fn target<'a>(&'a self, url: &'a Url) -> FetchTarget<'a> {
        FetchTarget { url, scope: CredentialScope::Registry(&self.repository) }
    }

    /// A blob. Registries redirect to their storage; the content is verified, and credentials stay here.
    fn blob(
        &self,
        sha256: &str,
        from: u64,
        call: &Call<'_>,
    ) -> Result<Option<(String, Response)>, RemoteError> {
        let url = self.repository.blob(sha256);
        let mut request = ServerRequest::new(Method::Get, self.target(&url)).from(from);
        request.redirects = RedirectPolicy::Follow;
        Ok(call.find(&request)?.map(|response| (url.shown(), response)))
    }

    /// A page of the list of tags, which starts at `first`. A repository that does not exist has no tags.
    fn page(&self, first: &Url, url: &str, call: &Call<'_>) -> Result<Page<String, String>, RemoteError> {
        let at = first.join(url).map_err(FetchError::Url)?;
        let request = ServerRequest::new(Method::Get, self.target(&at));
        let url = at.shown();
        let response = if at == *first { call.find(&request)? } else { Some(call.succeed(&request)?) };
        let Some(response) = response else { return Ok(Page { url, entries: Vec::new(), next: None }) };
        let damaged = |what: String| RemoteError::DamagedList { url: url.clone(), what };
        let next = listing::next_link(&response).map(|link| at.join(&link));
        let next = next.transpose().map_err(|error| damaged(error.to_string()))?;
        if let Some(next) = next.as_ref().filter(|next| !next.is_same_server(first)) {
            return Err(FetchError::Redirected { from: url, to: next.shown() }.into());
        }
        let tags: Tags = serde_json::from_slice(&listing::document(&url, response, call)?)
            .map_err(|error| damaged(error.to_string()))?;
        Ok(Page { url, entries: tags.tags, next: next.map(|next| next.to_string()) })
    }

    fn upload(&self, blob: &Blob, body: RequestBody, call: &Call<'_>) -> Result<(), RemoteError> {
        let start = self.repository.uploads();
        let response = call.succeed(&ServerRequest::new(Method::Post, self.target(&start)))?;
        let location = response.header("location").unwrap_or_default().to_owned();
        let to = start.join(&location).map_err(FetchError::Url)?;
        if !to.is_same_server(&start) {
            return Err(FetchError::Redirected { from: start.shown(), to: to.shown() }.into());
        }
        let to = to.with_query(&format!("digest=sha256:{}", blob.sha256));
        let request = ServerRequest::new(Method::Put, self.target(&to)).body(body);
        call.succeed(&request.header("content-type", "application/octet-stream")).map(drop)
    }
}

impl Server for OciServer {
    fn get(
        &self,
        object: Object<'_>,
        from: u64,
        call: &Call<'_>,
    ) -> Result<Option<(String, Response)>, RemoteError> {
        let id = match object {
            Object::Blob(blob) => return self.blob(&blob.sha256, from, call),
            Object::Manifest(id) => id,
        };
        let url = self.repository.with_version(id).manifest();
        let request = ServerRequest::new(Method::Get, self.target(&url)).header("accept", ACCEPT);
        let Some(response) = call.find(&request)? else { return Ok(None) };
        let damaged = |what: &str| RemoteError::Damaged { url: url.shown(), what: what.to_owned() };
        let image: Image = serde_json::from_slice(&call.document(&url.shown(), response)?)
            .map_err(|error| damaged(&error.to_string()))?;
        if image.schema_version != 2 || image.config.media_type != CONFIG {
            return Err(damaged("it is another image"));
        }
        let hash = image.config.digest.strip_prefix("sha256:");
        let hash = hash.filter(|hash| is_sha256(hash));
        self.blob(hash.ok_or_else(|| damaged("its digest is not a sha256"))?, 0, call)
    }

    fn has(&self, blob: &Blob, call: &Call<'_>) -> Result<bool, RemoteError> {
        let url = self.repository.blob(&blob.sha256);
        let mut request = ServerRequest::new(Method::Head, self.target(&url));
        request.redirects = RedirectPolicy::Follow;
        Ok(call.find(&request)?.is_some())
    }

    fn put_blob(&self, blob: &Blob, file: &HostPath, call: &Call<'_>) -> Result<(), RemoteError> {
        self.upload(blob, RequestBody::File(file.clone()), call)
    }

    fn put_manifest(
        &self,
        id: &str,
        bytes: Vec<u8>,
        blobs: &[Blob],
        call: &Call<'_>,
    ) -> Result<(), RemoteError> {
        let config = Blob { sha256: sha256(&bytes), bytes: bytes.len() as u64 };
        self.upload(&config, RequestBody::Bytes(bytes), call)?;
        let image = Image {
            schema_version: 2,
            media_type: Some(ACCEPT.to_owned()),
            config: Descriptor::new(CONFIG, &config),
            layers: blobs.iter().map(|blob| Descriptor::new(LAYER, blob)).collect(),
        };
        let image = serde_json::to_vec(&image).map_err(|error| RemoteError::Disk(error.into()))?;
        let url = self.repository.with_version(id).manifest();
        let request = ServerRequest::new(Method::Put, self.target(&url)).body(RequestBody::Bytes(image));
        call.succeed(&request.header("content-type", ACCEPT)).map(drop)
    }

    fn list(&self, call: &Call<'_>) -> Result<Vec<ListedEntry>, RemoteError> {
        let first = self.repository.tags();
        let tags = listing::all_pages(first.to_string(), |url| self.page(&first, url, call))?;
        Ok(tags.into_iter().map(|id| ListedEntry { id, modified: None }).collect())
    }

    fn remove(&self, id: &str, call: &Call<'_>) -> Result<(), RemoteError> {
        // The API removes images by digest only.
        let url = self.repository.with_version(id).manifest();
        let request = ServerRequest::new(Method::Get, self.target(&url)).header("accept", ACCEPT);
        let Some(response) = call.find(&request)? else { return Ok(()) };
        let digest = sha256(&call.document(&url.shown(), response)?);
        let url = self.repository.with_version(&format!("sha256:{digest}")).manifest();
        call.succeed(&ServerRequest::new(Method::Delete, self.target(&url))).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ids_of_entries_are_read_from_a_list_of_tags() {
        let id = "a".repeat(64);
        let read = |text: &str| serde_json::from_str::<Tags>(text).map(|tags| tags.tags);
        for (text, expected) in [
            (format!(r#"{{"name":"x","tags":["latest","{id}","","../x"]}}"#), vec![id.clone()]),
            (r#"{"tags":null}"#.to_owned(), vec![]),
            ("{}".to_owned(), vec![]),
        ] {
            assert_eq!(read(&text).unwrap(), expected);
        }
        for text in [r#"{"tags":5}"#, r#"{"tags":[5]}"#, r#"{"tags":{}}"#, r#"{"tags":["""#] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
