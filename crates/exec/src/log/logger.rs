//! Removes what logging libraries print before a message: the level, the thread, the place in the source.

use super::prefix::{digits, shaped};
use super::text;

/// Maximum length of a frame before the message, in bytes.
const FRAME: usize = 160;
/// Names of levels.
const LEVELS: [&[u8]; 16] = [
    b"TRACE",
    b"DEBUG",
    b"DEBG",
    b"INFO",
    b"NOTICE",
    b"WARN",
    b"WARNING",
    b"ERROR",
    b"ERR",
    b"CRITICAL",
    b"CRIT",
    b"FATAL",
    b"SEVERE",
    b"PANIC",
    b"VERBOSE",
    b"LOG",
];

/// Skips the frame of a logger.
pub(super) fn prefix(line: &[u8]) -> Option<&[u8]> {
    match line.first()? {
        b'I' | b'W' | b'E' | b'F' => glog(line).or_else(|| level(line)),
        b'[' => bracket(line),
        b'{' => field(
            line,
            &[b"\"msg\":\"", b"\"message\":\"", b"\"log\":\"", b"\"msg\": \"", b"\"message\": \""],
        ),
        b't' | b'l' => logfmt(line),
        b'A'..=b'Z' => level(line),
        b'0'..=b'9' => logcat(line).or_else(|| wine(line)),
        _ => None,
    }
}

/// Skips `E0225 13:29:43.176318 13644 file.cc:375] ` of glog and klog, and `I tensorflow/core/x.cc:182] `.
fn glog(line: &[u8]) -> Option<&[u8]> {
    let rest = &line[1..];
    let is_glog = shaped(rest, b"dddd dd:dd:dd").is_some() || rest.starts_with(b" ");
    let end = text::find(&line[..line.len().min(FRAME)], b"] ")?;
    let place = &line[..end];
    let is_place = memchr::memrchr(b':', place).is_some_and(|colon| digits(&place[colon + 1..]) == Some(b""));
    (is_glog && is_place).then(|| &line[end + 2..])
}

/// Skips `[INFO] `, `[ERROR] [launch.py:434:handler] `, `[2026-01-01 20:00:00]: Info: ` and `[DEBUG module::name] `.
fn bracket(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b']', &line[..line.len().min(FRAME)])?;
    let inner = &line[1..end];
    let rest = &line[end + 1..];
    let first = inner.split(|byte| matches!(byte, b' ' | b':')).next()?;
    let is_stamp =
        shaped(inner, b"dddd:dd:dd:dd:dd:dd").is_some() || shaped(inner, b"dddd.dd.dd-dd.dd.dd").is_some();
    let is_level = is_level(first);
    let place: Vec<&[u8]> = inner.splitn(3, |byte| *byte == b':').collect();
    let is_place = place.len() > 1 && place[0].contains(&b'.') && digits(place[1]) == Some(b"");
    let is_frame = is_stamp || is_level || is_place || inner.trim_ascii().iter().all(u8::is_ascii_digit);
    let rest = rest.strip_prefix(b":").unwrap_or(rest);
    (is_frame && !inner.is_empty()).then(|| rest.strip_prefix(b" ").unwrap_or(rest))
}

/// Skips `WARN server::supervisor: src/supervisor.rs:98: ` of Rust's tracing, and `ERROR 12-01 10:00:00 [core.py:700] ` of vLLM.
fn level(line: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b' ', &line[..line.len().min(16)])?;
    let rest = is_level(&line[..end]).then(|| &line[end + 1..])?;
    if let Some(rest) = shaped(rest, b"dd-dd dd:dd:dd ") {
        return bracket(rest);
    }
    let end = text::find(&rest[..rest.len().min(FRAME)], b": ")?;
    let target = &rest[..end];
    let is_target = !target.contains(&b' ') && text::find(target, b"::").is_some();
    is_target.then(|| &rest[end + 2..])
}

/// Skips the fields before the message of logfmt: `time=… level=ERROR source=… msg="`.
fn logfmt(line: &[u8]) -> Option<&[u8]> {
    let is_logfmt = [&b"time="[..], b"level=", b"ts=", b"lvl="].iter().any(|start| line.starts_with(start));
    is_logfmt.then(|| field(line, &[b" msg=\"", b" msg=", b" message=\""]))?
}

/// The text behind the first of some markers.
fn field<'a>(line: &'a [u8], markers: &[&[u8]]) -> Option<&'a [u8]> {
    markers.iter().find_map(|marker| Some(&line[text::find(line, marker)? + marker.len()..]))
}

/// Skips `03-18 23:34:21.320 12255 12255 F DEBUG   : ` and `18799-18918/app E/Tag: ` of Android's log.
fn logcat(line: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = shaped(line, b"dd-dd dd:dd:dd.ddd ") {
        let end = text::find(&rest[..rest.len().min(FRAME)], b": ")?;
        return Some(&rest[end + 2..]);
    }
    let rest = digits(digits(line)?.strip_prefix(b"-")?)?.strip_prefix(b"/")?;
    let end = text::find(&rest[..rest.len().min(FRAME)], b": ")?;
    Some(&rest[end + 2..])
}

/// Skips `1298.028:0114:0118:err:module:` of Wine.
fn wine(line: &[u8]) -> Option<&[u8]> {
    let start = text::find(&line[..line.len().min(FRAME)], b":err:")?;
    let is_wine = line[..start].iter().all(|byte| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.'));
    is_wine.then(|| &line[start + 5..])
}

fn is_level(word: &[u8]) -> bool {
    LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::super::prefix::unprefixed;

    #[test]
    fn frames_of_loggers_are_removed() {
        for (line, expected) in [
            ("time=2025-02-10T20:00:10.000Z level=ERROR source=server.go:596 msg=\"no GPU\"", "no GPU\""),
            ("{\"level\":\"error\",\"ts\":1.5,\"msg\":\"no GPU\"}", "no GPU\"}"),
            ("E0225 13:29:43.176318 13644 file.cc:375] no GPU", "no GPU"),
            ("2023-05-31 10:35:30.456434: W tensorflow/x.cc:38] no GPU", "no GPU"),
            ("[2024-12-15 12:05:30,940] [INFO] [logging.py:128:log_dist] no GPU", "no GPU"),
            ("[2021:06:08:12:07:58]: Fatal: no GPU", "Fatal: no GPU"),
            ("[INFO | aurora::gpu] no GPU", "no GPU"),
            (
                "2025-02-14T11:05:45.083064Z  WARN server::supervisor: src/a.rs:98: no GPU",
                "src/a.rs:98: no GPU",
            ),
            ("(EngineCore_0 pid=123) ERROR 12-01 10:00:00 [core.py:700] no GPU", "no GPU"),
            ("03-18 23:34:21.320 12255 12255 F DEBUG   : no GPU", "no GPU"),
            ("1298.028:0114:0118:err:vkd3d:no GPU", "vkd3d:no GPU"),
            // Messages of tools that begin with a level or a bracket.
            ("ERROR: Failed building wheel for x", "ERROR: Failed building wheel for x"),
            ("[TensorRT] ERROR: no engine", "[TensorRT] ERROR: no engine"),
            ("Warning: no GPU", "Warning: no GPU"),
            ("   - wayland-client", "- wayland-client"),
        ] {
            let found = String::from_utf8_lossy(unprefixed(line.as_bytes())).into_owned();
            assert_eq!(found, expected, "{line}");
        }
    }
}
