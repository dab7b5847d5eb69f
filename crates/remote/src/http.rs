//! Plain HTTP: `PREFIX/ac/ID` for manifests and `PREFIX/cas/SHA256` for blobs, with GET, HEAD and PUT. These are the paths of
//! bazel-remote and other caches; nginx with DAV and Artifactory accept any path.

use gpubuild_host::HostPath;
use gpubuild_host::net::{Method, RequestBody, Response};
use gpubuild_release::auth::CredentialScope;
use gpubuild_release::fetch::FetchTarget;
use gpubuild_release::url::Url;

use super::content::Blob;
use super::error::RemoteError;
use super::server::{Call, ListedEntry, Object, Server, ServerRequest};

/// The path of an object below the URL of the store.
pub(crate) fn path(object: Object<'_>) -> String {
    match object {
        Object::Manifest(id) => format!("ac/{id}"),
        Object::Blob(blob) => format!("cas/{}", blob.sha256),
    }
}

/// A server for plain HTTP.
pub(crate) struct HttpServer {
    pub(crate) root: Url,
}

impl HttpServer {
    fn put(&self, object: Object<'_>, body: RequestBody, call: &Call<'_>) -> Result<(), RemoteError> {
        let url = self.root.below(&path(object));
        let request = ServerRequest::new(Method::Put, target(&url)).body(body);
        call.succeed(&request.header("content-type", "application/octet-stream")).map(drop)
    }
}

fn target(url: &Url) -> FetchTarget<'_> {
    FetchTarget { url, scope: CredentialScope::Server }
}

impl Server for HttpServer {
    fn get(
        &self,
        object: Object<'_>,
        from: u64,
        call: &Call<'_>,
    ) -> Result<Option<(String, Response)>, RemoteError> {
        let url = self.root.below(&path(object));
        let found = call.find(&ServerRequest::new(Method::Get, target(&url)).from(from))?;
        Ok(found.map(|response| (url.shown(), response)))
    }

    fn has(&self, blob: &Blob, call: &Call<'_>) -> Result<bool, RemoteError> {
        let url = self.root.below(&path(Object::Blob(blob)));
        Ok(call.find(&ServerRequest::new(Method::Head, target(&url)))?.is_some())
    }

    fn put_blob(&self, blob: &Blob, file: &HostPath, call: &Call<'_>) -> Result<(), RemoteError> {
        self.put(Object::Blob(blob), RequestBody::File(file.clone()), call)
    }

    fn put_manifest(&self, id: &str, bytes: Vec<u8>, _: &[Blob], call: &Call<'_>) -> Result<(), RemoteError> {
        self.put(Object::Manifest(id), RequestBody::Bytes(bytes), call)
    }

    fn list(&self, _: &Call<'_>) -> Result<Vec<ListedEntry>, RemoteError> {
        Err(RemoteError::NotListable(self.root.shown()))
    }

    fn remove(&self, id: &str, call: &Call<'_>) -> Result<(), RemoteError> {
        let url = self.root.below(&path(Object::Manifest(id)));
        call.succeed(&ServerRequest::new(Method::Delete, target(&url))).map(drop)
    }
}
