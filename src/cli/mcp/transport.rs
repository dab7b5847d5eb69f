//! Messages of the protocol: one per line on standard input and output.

use std::collections::HashSet;
use std::future::{pending, ready};
use std::io::{self, BufRead, BufReader, Read};

use gpubuild_detect::json;
use gpubuild_host::standard_input_stream;
use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    ClientJsonRpcMessage, ClientNotification, JsonRpcMessage, RequestId, ServerJsonRpcMessage,
};
use rmcp::transport::Transport;
use serde::Deserialize as _;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::cli::Printer;

/// The longest message of a client in bytes.
const LONGEST_MESSAGE: usize = 16 << 20;

/// Number of requests that are processed at once. The client waits with others.
const REQUESTS: usize = 8;

/// Standard input and output of this process. It reports the end of the input when all requests are answered.
pub(super) struct StandardStreams {
    messages: Receiver<ClientJsonRpcMessage>,
    printer: Printer,
    /// The requests without an answer.
    open: HashSet<RequestId>,
}

impl StandardStreams {
    /// Starts to read standard input.
    pub(super) fn open(printer: &Printer) -> io::Result<Self> {
        let (sender, messages) = channel(1);
        let on_thread = printer.clone();
        let read = move || read(standard_input_stream(), &sender, &on_thread);
        std::thread::Builder::new().name("input".to_owned()).spawn(read)?;
        Ok(Self { messages, printer: printer.clone(), open: HashSet::new() })
    }
}

impl Transport<RoleServer> for StandardStreams {
    type Error = io::Error;

    fn send(
        &mut self,
        message: ServerJsonRpcMessage,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        match &message {
            JsonRpcMessage::Response(response) => drop(self.open.remove(&response.id)),
            JsonRpcMessage::Error(error) => drop(error.id.as_ref().map(|id| self.open.remove(id))),
            _ => {}
        }
        ready(self.printer.json_line(&message))
    }

    /// The server calls this again after each message that it has sent.
    async fn receive(&mut self) -> Option<ClientJsonRpcMessage> {
        if self.open.len() >= REQUESTS {
            return pending().await;
        }
        let message = self.messages.recv().await;
        match &message {
            None if !self.open.is_empty() => return pending().await,
            Some(JsonRpcMessage::Request(request)) => drop(self.open.insert(request.id.clone())),
            // A cancelled request gets no answer.
            Some(JsonRpcMessage::Notification(notification)) => {
                if let ClientNotification::CancelledNotification(cancelled) = &notification.notification
                    && let Some(id) = &cancelled.params.request_id
                {
                    self.open.remove(id);
                }
            }
            _ => {}
        }
        message
    }

    async fn close(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads messages until the input or the server ends, and answers those that are invalid.
fn read(input: impl Read, sender: &Sender<ClientJsonRpcMessage>, printer: &Printer) {
    let mut input = BufReader::with_capacity(64 << 10, input);
    loop {
        let answer = match next_line(&mut input) {
            Ok(Line::End) => return,
            Ok(Line::TooLong) => Some(too_long()),
            Ok(Line::Complete(line)) => match parse(&line) {
                Ok(message) => {
                    if sender.blocking_send(message).is_err() {
                        return;
                    }
                    None
                }
                Err(answer) => answer.map(|answer| *answer),
            },
            Err(error) => {
                log::debug!("failed to read standard input: {error}");
                return;
            }
        };
        if let Some(answer) = answer
            && printer.json_line(&answer).is_err()
        {
            return;
        }
    }
}

fn too_long() -> ServerJsonRpcMessage {
    let text = format!(
        "the message has more than {} MiB; pass a large log as a file (`path`)",
        LONGEST_MESSAGE >> 20
    );
    ServerJsonRpcMessage::error(ErrorData::invalid_request(text, None), None)
}

/// A line of the input.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Complete(Vec<u8>),
    /// It has more than [`LONGEST_MESSAGE`] bytes, which are skipped.
    TooLong,
    /// The input has ended.
    End,
}

/// Reads a line that is not empty. The last one may lack the line break.
fn next_line(input: &mut impl BufRead) -> io::Result<Line> {
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let part = match input.fill_buf() {
            Ok(part) => part,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let end = part.iter().position(|byte| *byte == b'\n');
        let (count, is_end) = end.map_or((part.len(), part.is_empty()), |end| (end + 1, true));
        if line.len() + count > LONGEST_MESSAGE {
            is_too_long = true;
            line.clear();
        }
        if !is_too_long {
            line.extend_from_slice(&part[..count]);
        }
        input.consume(count);
        if !is_end {
            continue;
        }
        if is_too_long {
            return Ok(Line::TooLong);
        }
        if !line.trim_ascii().is_empty() {
            return Ok(Line::Complete(line));
        }
        if count == 0 {
            return Ok(Line::End);
        }
        line.clear();
    }
}

/// Parses a message. The error is the answer; an invalid notification gets none.
fn parse(line: &[u8]) -> Result<ClientJsonRpcMessage, Option<Box<ServerJsonRpcMessage>>> {
    let value = std::str::from_utf8(line).ok().and_then(json::parse);
    let (error, id) = match &value {
        None => (ErrorData::parse_error("invalid JSON, or too many values", None), None),
        Some(value) => {
            if let Ok(message) = ClientJsonRpcMessage::deserialize(value) {
                return Ok(message);
            }
            if value.get("method").is_some() && value.get("id").is_none() {
                return Err(None);
            }
            let id = value.get("id").and_then(|id| RequestId::deserialize(id).ok());
            (ErrorData::invalid_request("not a message of the Model Context Protocol", None), id)
        }
    };
    Err(Some(Box::new(ServerJsonRpcMessage::error(error, id))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut input: &[u8]) -> Vec<Line> {
        let mut lines = Vec::new();
        while let line = next_line(&mut input).unwrap()
            && line != Line::End
        {
            lines.push(line);
        }
        lines
    }

    #[test]
    fn lines_are_limited() {
        let complete = |text: &str| Line::Complete(text.as_bytes().to_vec());
        assert_eq!(lines(b""), []);
        assert_eq!(lines(b"\n \r\na\r\n\nb"), [complete("a\r\n"), complete("b")]);
        let longest = vec![b'x'; LONGEST_MESSAGE];
        assert_eq!(lines(&longest), [Line::Complete(longest.clone())]);
        let text = [longest.as_slice(), b"\nb\n"].concat();
        assert_eq!(lines(&text), [Line::TooLong, complete("b\n")]);
        assert_eq!(lines(&text[..=LONGEST_MESSAGE]), [Line::TooLong]);
    }

    fn answer(text: &str) -> Option<String> {
        let answer = parse(text.as_bytes()).err().unwrap_or_else(|| panic!("`{text}` is valid"));
        answer.map(|answer| serde_json::to_string(&answer).unwrap())
    }

    #[test]
    fn invalid_messages_are_answered() {
        assert!(parse(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).is_ok());
        assert!(parse(br#"{"jsonrpc":"2.0","method":"notifications/unknown"}"#).is_ok());
        assert_eq!(answer(r#"{"method":"notifications/cancelled"}"#), None);
        assert!(answer("{").unwrap().contains(r#""code":-32700"#));
        for text in ["[".repeat(1 << 20), format!("[{}0]", "0,".repeat(1 << 20)), "\u{fffd}[".to_owned()] {
            assert!(answer(&text).unwrap().contains(r#""code":-32700"#));
        }
        for text in ["[]", "1", r#"{"id":7}"#] {
            assert!(answer(text).unwrap().contains(r#""code":-32600"#), "{text}");
        }
        assert!(answer(r#"{"id":7}"#).unwrap().contains(r#""id":7"#));
    }
}
