//! S3-compatible object storage. `rusty-s3` signs the URLs; requests are the same as for plain HTTP.

use std::time::Duration;

use gpubuild_host::net::{Method, RequestBody, Response};
use gpubuild_host::{HostInfo, HostPath};
use gpubuild_plan::project::CacheTable;
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::{FetchError, FetchTarget};
use gpubuild_release::manifest::is_sha256;
use gpubuild_release::url::Url;
use rusty_s3::actions::ListObjectsV2;
use rusty_s3::{Bucket, Credentials, S3Action, UrlStyle};

use super::content::Blob;
use super::error::{InvalidRemote, RemoteError};
use super::http::path;
use super::listing::{self, Page};
use super::server::{Call, ListedEntry, Object, Server, ServerRequest};

/// How long a signed URL is valid.
const VALID: Duration = Duration::from_secs(3600);
/// Where the credentials are.
const VARIABLES: &str = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";

/// A bucket and a prefix.
pub(crate) struct S3Server {
    bucket: Bucket,
    /// Empty, or it ends with `/`.
    prefix: String,
    credentials: Option<Credentials>,
}

/// An object whose name is a hash.
struct S3Object {
    name: String,
    size: u64,
    /// Seconds since 1970.
    modified: Option<u64>,
}

impl S3Server {
    /// The store `s3://` + `text`.
    pub(crate) fn new(host: &dyn HostInfo, table: &CacheTable, text: &str) -> Result<Self, InvalidRemote> {
        let invalid = |setting, what: &str| InvalidRemote { setting, what: what.to_owned() };
        let (name, prefix) = text.split_once('/').unwrap_or((text, ""));
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(is_name) {
            return Err(invalid("remote", "write `s3://BUCKET/PREFIX`, without credentials"));
        }
        let prefix = prefix.trim_matches('/');
        if prefix.split('/').any(|part| matches!(part, "." | "..")) || prefix.contains("//") {
            return Err(invalid("remote", "the prefix contains `.`, `..` or an empty part"));
        }
        let env = host.env();
        let first = |names: &[&str]| names.iter().find_map(|name| env.get(name)).map(str::to_owned);
        let region = table.region.clone().or_else(|| first(&["AWS_REGION", "AWS_DEFAULT_REGION"]));
        let region = region.unwrap_or_else(|| "us-east-1".to_owned());
        let endpoint = table.endpoint.clone().or_else(|| first(&["AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"]));
        let path_style = table.path_style.unwrap_or(endpoint.is_some() || name.contains('.'));
        let style = if path_style { UrlStyle::Path } else { UrlStyle::VirtualHost };
        let endpoint = endpoint.unwrap_or_else(|| format!("https://s3.{region}.amazonaws.com"));
        let endpoint = Url::parse(&endpoint).map_err(|error| invalid("endpoint", &error.to_string()))?;
        let endpoint = endpoint.to_string().parse().map_err(|_| invalid("endpoint", "it is not a URL"))?;
        let bucket = Bucket::new(endpoint, style, name.to_owned(), region);
        let (key, secret) = (env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY"));
        let credentials = key.zip(secret).map(|(key, secret)| match env.get("AWS_SESSION_TOKEN") {
            Some(token) if !token.is_empty() => Credentials::new_with_token(key, secret, token),
            _ => Credentials::new(key, secret),
        });
        Ok(Self {
            bucket: bucket.map_err(|error| invalid("endpoint", &error.to_string()))?,
            prefix: if prefix.is_empty() { String::new() } else { format!("{prefix}/") },
            credentials,
        })
    }

    fn target<'a>(&self, url: &'a Url) -> FetchTarget<'a> {
        let is_signed = self.credentials.is_some();
        let scope = if is_signed { CredentialScope::Signed } else { CredentialScope::Unsigned(VARIABLES) };
        FetchTarget { url, scope }
    }

    fn key(&self, object: Object<'_>) -> String {
        format!("{}{}", self.prefix, path(object))
    }

    /// The signed URL of a request for one object.
    fn signed(&self, method: Method, key: &str) -> Result<Url, RemoteError> {
        let (bucket, credentials) = (&self.bucket, self.credentials.as_ref());
        let url = match method {
            Method::Get | Method::Post => bucket.get_object(credentials, key).sign(VALID),
            Method::Head => bucket.head_object(credentials, key).sign(VALID),
            Method::Put => bucket.put_object(credentials, key).sign(VALID),
            Method::Delete => bucket.delete_object(credentials, key).sign(VALID),
        };
        Ok(Url::parse(url.as_str()).map_err(FetchError::Url)?)
    }

    fn put(&self, object: Object<'_>, body: RequestBody, call: &Call<'_>) -> Result<(), RemoteError> {
        let url = self.signed(Method::Put, &self.key(object))?;
        call.succeed(&ServerRequest::new(Method::Put, self.target(&url)).body(body)).map(drop)
    }

    fn delete(&self, key: &str, call: &Call<'_>) -> Result<(), RemoteError> {
        let url = self.signed(Method::Delete, key)?;
        call.succeed(&ServerRequest::new(Method::Delete, self.target(&url))).map(drop)
    }

    /// Lists the objects in a folder below the prefix whose names are hashes.
    fn objects(&self, folder: &str, call: &Call<'_>) -> Result<Vec<S3Object>, RemoteError> {
        let prefix = format!("{}{folder}/", self.prefix);
        listing::all_pages(None, |token| self.page(&prefix, token.as_deref(), call))
    }

    /// A page of the list of objects with a prefix.
    fn page(
        &self,
        prefix: &str,
        token: Option<&str>,
        call: &Call<'_>,
    ) -> Result<Page<S3Object, Option<String>>, RemoteError> {
        let mut list = self.bucket.list_objects_v2(self.credentials.as_ref());
        list.with_prefix(prefix);
        if let Some(token) = token {
            list.with_continuation_token(token);
        }
        let at = Url::parse(list.sign(VALID).as_str()).map_err(FetchError::Url)?;
        let response = call.succeed(&ServerRequest::new(Method::Get, self.target(&at)))?;
        let url = at.shown();
        let bytes = listing::document(&url, response, call)?;
        let page = ListObjectsV2::parse_response(&String::from_utf8_lossy(&bytes))
            .map_err(|error| RemoteError::DamagedList { url: url.clone(), what: error.to_string() })?;
        let objects = page.contents.into_iter().filter_map(|object| {
            let name = object.key.strip_prefix(prefix).filter(|name| is_sha256(name))?.to_owned();
            let modified = object.last_modified.and_then(|time| time.parse::<jiff::Timestamp>().ok());
            let modified = modified.and_then(|time| u64::try_from(time.as_second()).ok());
            Some(S3Object { name, size: object.size.unwrap_or_default(), modified })
        });
        Ok(Page { url, entries: objects.collect(), next: page.next_continuation_token.map(Some) })
    }
}

impl Server for S3Server {
    fn get(
        &self,
        object: Object<'_>,
        from: u64,
        call: &Call<'_>,
    ) -> Result<Option<(String, Response)>, RemoteError> {
        let url = self.signed(Method::Get, &self.key(object))?;
        let found = call.find(&ServerRequest::new(Method::Get, self.target(&url)).from(from))?;
        Ok(found.map(|response| (url.shown(), response)))
    }

    fn has(&self, blob: &Blob, call: &Call<'_>) -> Result<bool, RemoteError> {
        let url = self.signed(Method::Head, &self.key(Object::Blob(blob)))?;
        Ok(call.find(&ServerRequest::new(Method::Head, self.target(&url)))?.is_some())
    }

    fn put_blob(&self, blob: &Blob, file: &HostPath, call: &Call<'_>) -> Result<(), RemoteError> {
        self.put(Object::Blob(blob), RequestBody::File(file.clone()), call)
    }

    fn put_manifest(&self, id: &str, bytes: Vec<u8>, _: &[Blob], call: &Call<'_>) -> Result<(), RemoteError> {
        self.put(Object::Manifest(id), RequestBody::Bytes(bytes), call)
    }

    fn list(&self, call: &Call<'_>) -> Result<Vec<ListedEntry>, RemoteError> {
        let objects = self.objects("ac", call)?.into_iter();
        Ok(objects.map(|S3Object { name: id, modified, .. }| ListedEntry { id, modified }).collect())
    }

    fn remove(&self, id: &str, call: &Call<'_>) -> Result<(), RemoteError> {
        self.delete(&self.key(Object::Manifest(id)), call)
    }

    fn remove_unused_blobs(
        &self,
        keep: &std::collections::BTreeSet<String>,
        call: &Call<'_>,
    ) -> Result<(usize, u64), RemoteError> {
        /// A younger blob may belong to an entry that is being saved.
        const MIN_AGE: u64 = 24 * 3600;
        let now = call.host().now();
        let (mut count, mut bytes) = (0, 0_u64);
        for S3Object { name, size, modified } in self.objects("cas", call)? {
            let is_old = modified.is_some_and(|time| now.saturating_sub(time) > MIN_AGE);
            if is_old && !keep.contains(&name) {
                self.delete(&self.key(Object::Blob(&Blob { sha256: name, bytes: size })), call)?;
                (count, bytes) = (count + 1, bytes.saturating_add(size));
            }
        }
        Ok((count, bytes))
    }
}
