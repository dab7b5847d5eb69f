//! The progress bar for loading a model: shown on a terminal, and nowhere else.

use crate::requirements::skip;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::process::{Command, Output, Stdio};
use std::thread;

/// Starts the program with stderr on a terminal of 80 columns; the output has the terminal's content as
/// stderr.
fn on_a_terminal(args: &[&str]) -> Output {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    tcsetwinsize(&master, Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 }).unwrap();
    let path = ptsname(&master, Vec::new()).unwrap();
    let slave = OpenOptions::new().read(true).write(true).open(path.to_str().unwrap()).unwrap();
    let mut child = command(args)
        .env("TERM", "xterm")
        .env_remove("NO_COLOR")
        .stdout(Stdio::piped())
        .stderr(slave)
        .spawn()
        .unwrap();
    let reader = thread::spawn(move || {
        let (mut master, mut seen, mut piece) = (File::from(master), Vec::new(), [0; 4096]);
        // After the other side is closed, reading returns an error on Linux, and nothing elsewhere.
        while let Ok(count @ 1..) = master.read(&mut piece) {
            seen.extend(&piece[..count]);
        }
        seen
    });
    let mut stdout = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    let status = child.wait().unwrap();
    Output { status, stdout, stderr: reader.join().unwrap() }
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_infer"));
    command.args(args).env_remove("INFER_BACKEND").env_remove("INFER_THREADS").stdin(Stdio::null());
    command
}

/// Finds "1.2 MiB of 3.4 MiB".
fn has_bar(stderr: &[u8]) -> bool {
    let stderr = String::from_utf8_lossy(stderr);
    stderr.contains("B of ") && stderr.contains("left")
}

#[test]
fn progress_bar_is_drawn_on_a_terminal_only() {
    if infer::gk::linked().next().is_none() {
        skip("cpu", "no kernels are linked");
        return;
    }
    let run = ["run", "--backend", "ref", "--tokens", "2"];
    let seen = on_a_terminal(&run);
    let stderr = String::from_utf8_lossy(&seen.stderr);
    assert!(seen.status.success(), "{stderr}");
    assert!(has_bar(&seen.stderr), "{stderr:?}");
    // The bar is cleared before the permanent lines.
    let (bar, after) = stderr.rsplit_once("left").unwrap();
    assert!(
        bar.contains("memory: ") && after.contains("loaded `") && after.contains("\u{1b}[2K"),
        "{stderr:?}"
    );

    let plain = command(&run).output().unwrap();
    assert_eq!(plain.stdout, seen.stdout, "the answer is the same");
    assert!(!has_bar(&plain.stderr) && !plain.stderr.contains(&0x1b), "{plain:?}");
    assert!(String::from_utf8_lossy(&plain.stderr).contains("loaded `"), "{plain:?}");

    let quiet = on_a_terminal(&[&run[..], &["--quiet"]].concat());
    assert_eq!(String::from_utf8_lossy(&quiet.stderr), "");
}
