//! Limits the time of one read of a response's body.
//!
//! ureq limits each read of the connection, and reads it again until a byte of the body arrives. A server that sends chunk extensions or
//! trailers without end would therefore never time out.

use std::cell::Cell;
use std::io::{self, Read};
use std::time::{Duration, Instant};

use ureq::Timeout;
use ureq::unversioned::transport::time::Duration as Wait;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, NextTimeout, Transport};

thread_local! {
    /// When the read of a body that is in progress on this thread has to end.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[expect(clippy::disallowed_methods, reason = "host interface: the clock")]
fn now() -> Instant {
    Instant::now()
}

/// Reads a part of a body within the time limit, over a connection of [`LimitedReads`].
pub(super) fn read_within(time: Duration, body: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    DEADLINE.set(now().checked_add(time));
    let outcome = body.read(buffer);
    DEADLINE.set(None);
    outcome
}

/// Applies the time limit of [`read_within`] to connections.
#[derive(Debug)]
pub(super) struct LimitedReads;

impl<Inner: Transport> Connector<Inner> for LimitedReads {
    type Out = LimitedTransport<Inner>;

    fn connect(
        &self,
        _: &ConnectionDetails<'_>,
        connection: Option<Inner>,
    ) -> Result<Option<Self::Out>, ureq::Error> {
        Ok(connection.map(LimitedTransport))
    }
}

/// A connection whose reads end in time.
#[derive(Debug)]
pub(super) struct LimitedTransport<Inner>(Inner);

impl<Inner: Transport> Transport for LimitedTransport<Inner> {
    fn buffers(&mut self) -> &mut dyn Buffers {
        self.0.buffers()
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), ureq::Error> {
        self.0.transmit_output(amount, timeout)
    }

    fn await_input(&mut self, mut timeout: NextTimeout) -> Result<bool, ureq::Error> {
        if let Some(deadline) = DEADLINE.get() {
            let left = deadline.saturating_duration_since(now());
            if left.is_zero() {
                return Err(ureq::Error::Timeout(Timeout::PerRead));
            }
            if Wait::Exact(left) < timeout.after {
                (timeout.after, timeout.reason) = (Wait::Exact(left), Timeout::PerRead);
            }
        }
        self.0.await_input(timeout)
    }

    fn is_open(&mut self) -> bool {
        self.0.is_open()
    }

    fn is_tls(&self) -> bool {
        self.0.is_tls()
    }
}
