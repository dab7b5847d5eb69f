//! The body of a blob, which continues with another request if the connection ends early.

use std::io::{self, Read};

use gpubuild_host::net::{NetError, Response};
use gpubuild_release::fetch::{FetchError, TransferRate, rest_of_range};

use super::content::{Blob, transfer_error};
use super::error::RemoteError;
use super::server::{Call, Object, Server};

/// The number of further requests for one blob.
const MAX_REQUESTS: usize = 50;

/// The bytes of a blob.
pub(crate) struct BlobBody<'a> {
    server: &'a dyn Server,
    blob: &'a Blob,
    call: &'a Call<'a>,
    body: Box<dyn Read + Send>,
    /// The number of bytes that were read.
    received: u64,
    /// The number of bytes that were read before the current request.
    before: u64,
    requests: usize,
    /// The rate of all requests together.
    rate: TransferRate<'a>,
    /// The URL for messages.
    url: String,
}

impl<'a> BlobBody<'a> {
    /// The blob in this response.
    pub(crate) fn new(
        server: &'a dyn Server,
        blob: &'a Blob,
        call: &'a Call<'a>,
        (url, response): (String, Response),
    ) -> Self {
        let (body, rate) = (response.body, call.rate());
        Self { server, blob, call, body, received: 0, before: 0, requests: 0, rate, url }
    }

    /// Requests the rest. A name on the server is the hash of the content, so the content cannot have changed.
    fn resume(&mut self) -> Result<(), RemoteError> {
        let from = self.received;
        let found = self.server.get(Object::Blob(self.blob), from, self.call)?;
        let damaged = |url: String, what: &str| RemoteError::Damaged { url, what: what.to_owned() };
        let (url, response) = found.ok_or_else(|| damaged(self.blob.sha256.clone(), "a file is missing"))?;
        if response.status == 206 {
            let range = response.header("content-range").unwrap_or_default().trim();
            let end = self.blob.bytes;
            if rest_of_range(range, from) != Some(end) {
                let what =
                    format!("it continues with `{range}`, but bytes from {from} of {end} were requested");
                return Err(damaged(url, &what));
            }
        }
        let is_part = response.status == 206;
        self.body = response.body;
        if !is_part {
            // The server sends everything again.
            if self.skip(from).map_err(|error| transfer_error(&url, error))? < from {
                return Err(damaged(url, "it became shorter"));
            }
        }
        (self.before, self.requests) = (from, self.requests + 1);
        log::debug!("continued {} at byte {from}", self.blob.sha256);
        Ok(())
    }

    /// Skips at most this many bytes. Returns their number.
    fn skip(&mut self, count: u64) -> io::Result<u64> {
        let (mut skipped, mut body) = (0, (&mut self.body).take(count));
        let mut piece = vec![0; 16 << 10];
        loop {
            match body.read(&mut piece) {
                Ok(0) => return Ok(skipped),
                Ok(count) => {
                    skipped += count as u64;
                    self.rate.add(count as u64, || self.url.clone()).map_err(slow)?;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a read error is an early end that another request can continue. Each request has to receive something.
    fn can_resume(&self, error: &io::Error) -> bool {
        let net = error.get_ref().and_then(|inner| inner.downcast_ref::<NetError>());
        matches!(net, Some(NetError::Cut(_))) && self.received > self.before && self.requests < MAX_REQUESTS
    }
}

impl Read for BlobBody<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.body.read(into) {
                Ok(count) => {
                    self.received += count as u64;
                    self.rate.add(count as u64, || self.url.clone()).map_err(slow)?;
                    return Ok(count);
                }
                Err(error) if self.can_resume(&error) => {
                    match self.resume() {
                        Ok(()) => {}
                        // The first error is the cause.
                        Err(RemoteError::Fetch(FetchError::Net { .. })) => return Err(error),
                        Err(refused) => return Err(io::Error::other(refused)),
                    }
                }
                Err(error) => return Err(error),
            }
        }
    }
}

fn slow(error: FetchError) -> io::Error {
    io::Error::other(RemoteError::from(error))
}
