#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests make the files that they read")]
use std::io::ErrorKind;
use std::thread;

use super::*;
use crate::Stream;
use crate::interrupt::SIGINT;

const LONG: Duration = Duration::from_secs(60);

fn shell(script: &str, deadline: Duration) -> Command {
    Command::new("/bin/sh", deadline).args(["-c", script])
}

struct TestFolder {
    // Removes the folder when dropped.
    _folder: tempfile::TempDir,
    path: HostPath,
}

fn folder(host: &RealHost) -> TestFolder {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = host.path(folder.path().to_str().expect("a path in UTF-8"));
    TestFolder { _folder: folder, path }
}

#[test]
fn output_and_status_are_returned() {
    let host = RealHost::new();
    let output = host.run(&shell("echo out; echo err >&2; exit 3", LONG)).unwrap();
    assert_eq!((output.stdout.as_str(), output.stderr.as_str(), output.exit), ("out\n", "err\n", Some(3)));
    let output = host.run(&shell("kill -9 $$", LONG)).unwrap();
    assert_eq!((output.exit, output.signal), (None, Some(9)));
    assert_eq!(host.counts().processes, 2);
}

#[test]
fn standard_input_is_empty_and_variables_and_folder_are_set() {
    let host = RealHost::new();
    let folder = folder(&host);
    let command = shell("cat; echo $SOME_VALUE; pwd -P; echo ${HOME-unset}", LONG)
        .env("SOME_VALUE", "a b")
        .env_remove("HOME")
        .current_dir(folder.path.clone());
    let here = host.canonical(&folder.path).unwrap();
    assert_eq!(host.run(&command).unwrap().stdout, format!("a b\n{here}\nunset\n"));
}

#[test]
fn a_bare_name_is_searched_on_path_of_the_child() {
    let host = RealHost::new();
    let folder = folder(&host);
    let tool = folder.path.join("some-tool");
    host.write(&tool, b"#!/bin/sh\necho found\n").unwrap();
    host.set_executable(&tool).unwrap();
    let command = Command::new("some-tool", LONG);
    assert_eq!(host.run(&command), Err(RunError::NotFound { program: "some-tool".into() }));
    let command = command.env("PATH", folder.path.as_str());
    assert_eq!(host.run(&command).unwrap().stdout, "found\n");
    let relative = Command::new("./some-tool", LONG).current_dir(folder.path.clone());
    assert_eq!(host.run(&relative).unwrap().stdout, "found\n");
    assert!(matches!(host.run(&Command::new("/no/such", LONG)), Err(RunError::NotFound { .. })));
    host.write(&folder.path.join("text"), b"not a program").unwrap();
    let text = Command::new(folder.path.join("text").as_str(), LONG);
    assert!(matches!(host.run(&text), Err(RunError::Start { .. })));
}

/// Runs a script that writes the process id of a grandchild to a file and then hangs. Asserts that no process of its group is alive
/// after the deadline.
fn check_group_ends(script: &str) {
    let host = RealHost::new();
    let folder = folder(&host);
    let pid_file = folder.path.join("pid");
    let command = shell(script, Duration::from_secs(3)).env("PID_FILE", pid_file.as_str());
    let started = host.elapsed();
    let ended = host.run(&command);
    assert!(matches!(ended, Err(RunError::Timeout { .. })), "{ended:?}");
    assert!(host.elapsed().saturating_sub(started) < Duration::from_secs(20));
    let pid = host.read_text(&pid_file).expect("the script wrote its grandchild's id");
    let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw).expect("a process id");
    // A killed process remains as a zombie until its new parent reaps it.
    let ended = (0..1000).any(|_| {
        let state = host.read_text(&host.path(&format!("/proc/{pid}/stat"))).unwrap_or_default();
        let zombie = state.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'));
        thread::sleep(Duration::from_millis(10));
        zombie || rustix::process::test_kill_process(pid).is_err()
    });
    assert!(ended, "grandchild {pid} is alive after the deadline");
}

#[test]
fn grandchildren_are_terminated_at_the_deadline() {
    check_group_ends("sleep 1000 & echo $! > $PID_FILE; wait");
}

#[test]
fn a_program_that_ignores_sigterm_is_killed_at_the_deadline() {
    check_group_ends(
        "trap '' TERM; sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo $! > $PID_FILE; while :; do sleep 1; done",
    );
}

/// Runs a script that prints the process id of a process which it leaves behind. Returns that id and the output.
fn leave_behind(script: &str) -> (rustix::process::Pid, CommandOutput) {
    let host = RealHost::new();
    let started = host.elapsed();
    let output = host.run(&shell(script, LONG)).unwrap();
    assert!(host.elapsed().saturating_sub(started) < Duration::from_secs(20));
    assert_eq!(output.exit, Some(0));
    // What was left behind may have printed something before.
    let pid = output.stdout.lines().find_map(|line| line.trim().parse().ok());
    (pid.and_then(rustix::process::Pid::from_raw).expect("a process id"), output)
}

/// Whether a process is running; a zombie is not.
fn is_running(pid: rustix::process::Pid) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = status.rsplit(')').next().unwrap_or_default().trim_start();
    rustix::process::test_kill_process(pid).is_ok() && !state.starts_with('Z')
}

#[test]
fn background_processes_end_with_the_program_that_started_them() {
    for script in [
        "sleep 1000 & echo $!",
        "sleep 1000 >/dev/null 2>&1 & echo $!",
        "(trap '' TERM; while :; do sleep 1; done) & echo $!",
        "(trap '' TERM; while :; do echo noise; done) & echo $!",
    ] {
        let (pid, _) = leave_behind(script);
        let ended = (0..500).any(|_| {
            thread::sleep(Duration::from_millis(10));
            !is_running(pid)
        });
        assert!(ended, "{script}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_daemon_with_its_own_session_keeps_running_and_delays_nothing() {
    let (pid, _) = leave_behind("setsid sh -c 'echo $$; exec sleep 1000' & sleep 0.3");
    assert!(is_running(pid));
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn large_output_is_read_completely() {
    let host = RealHost::new();
    let (mut out, mut err) = (0_usize, 0_usize);
    let script = "i=0; while [ $i -lt 20000 ]; do echo \"line $i of many, long enough to fill a pipe\"; echo e >&2; i=$((i+1)); done";
    let output = host
        .run_lines(&shell(script, LONG), &mut |line| match line.stream {
            Stream::Stdout => out += 1,
            Stream::Stderr => err += 1,
        })
        .unwrap();
    assert_eq!((out, err), (20_000, 20_000));
    assert_eq!(output.stdout.lines().count(), 20_000);
}

#[test]
fn lines_are_reported_while_the_child_runs() {
    let host = RealHost::new();
    let mut seen = Vec::new();
    let ended = host.run_lines(
        &shell("printf '10%%\\r20%%\\r'; printf 'caf\\351\\nrest'; sleep 1000", Duration::from_secs(3)),
        &mut |line| {
            seen.push(line.text.to_owned());
        },
    );
    assert!(matches!(ended, Err(RunError::Timeout { .. })));
    assert_eq!(seen, ["10%", "20%", "caf\u{fffd}"]);
}

#[test]
fn an_interrupt_terminates_running_children_and_prevents_new_ones() {
    let host = RealHost::new();
    let interrupt = host.interrupt_handle();
    let mut handle = None;
    let started = host.elapsed();
    let ended = host.run_lines(&shell("echo started; sleep 1000", LONG), &mut |_| {
        let interrupt = Arc::clone(&interrupt);
        handle = Some(thread::spawn(move || interrupt.trigger(15)));
    });
    assert_eq!(ended, Err(RunError::Interrupted));
    assert!(host.elapsed().saturating_sub(started) < Duration::from_secs(20));
    assert!(handle.unwrap().join().unwrap(), "a child was running");
    assert_eq!(host.run(&shell("true", LONG)), Err(RunError::Interrupted));
    assert_eq!(host.counts().processes, 2);
    assert!(!interrupt.trigger(SIGINT));
    assert_eq!((interrupt.requests(), interrupt.signal()), (2, Some(15)), "the first signal counts");
}

/// As a build tool starts a compiler: in a group of its own. Both ignore termination requests.
#[cfg(target_os = "linux")]
#[test]
fn an_interrupt_leaves_no_descendants() {
    let script = "set -m; trap '' TERM; (trap '' TERM; echo $BASHPID; while :; do sleep 1; done) & wait";
    for requests in [1, 2] {
        let host = RealHost::new();
        let interrupt = host.interrupt_handle();
        let (mut compiler, mut handle) = (0, None);
        let ended = host.run_lines(&Command::new("bash", LONG).args(["-c", script]), &mut |line| {
            compiler = line.text.parse().unwrap();
            let interrupt = Arc::clone(&interrupt);
            handle = Some(thread::spawn(move || (0..requests).all(|_| interrupt.trigger(SIGINT))));
        });
        assert_eq!(ended, Err(RunError::Interrupted));
        assert!(handle.unwrap().join().unwrap(), "the shell was running");
        assert!(
            compiler > 0 && family::processes().iter().all(|one| one.id != compiler),
            "{requests} requests"
        );
    }
}

#[test]
fn files_are_replaced_atomically_without_leftovers() {
    let host = RealHost::new();
    let folder = folder(&host);
    let path = folder.path.join("made/on/the/way/file");
    host.write(&path, b"one").unwrap();
    host.write(&path, b"two").unwrap();
    assert_eq!(host.read_text(&path).unwrap(), "two");
    assert_eq!(host.list(&path.parent().unwrap()).unwrap(), ["file"]);
    let copy = folder.path.join("copy");
    host.set_executable(&path).unwrap();
    host.copy(&path, &copy).unwrap();
    assert!(host.stat(&copy).unwrap().executable);
    host.rename(&copy, &path).unwrap();
    assert!(!host.exists(&copy));
    host.remove(&copy).unwrap();
    host.remove(&folder.path.join("made")).unwrap();
    assert!(host.list(&folder.path).unwrap().is_empty());
    let temporary = host.temporary_dir(&folder.path.join("new")).unwrap();
    assert!(host.is_dir(&temporary));
}

#[test]
fn the_error_of_a_failed_write_contains_the_path() {
    let host = RealHost::new();
    let folder = folder(&host);
    host.write(&folder.path.join("file"), b"").unwrap();
    let below = folder.path.join("file/below");
    let error = host.write(&below, b"").unwrap_err();
    assert!(error.to_string().starts_with(&format!("failed to write `{below}`: ")), "{error}");
    let error = host.rename(&folder.path.join("absent"), &folder.path.join("new")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn links_devices_and_folders_are_distinguished() {
    let host = RealHost::new();
    let folder = folder(&host);
    host.write(&folder.path.join("target"), b"12345").unwrap();
    let link = folder.path.join("link");
    std::os::unix::fs::symlink("target", link.as_std()).unwrap();
    assert_eq!(host.stat(&link).unwrap().size, 5);
    assert!(!host.stat(&link).unwrap().executable);
    assert_eq!(host.canonical(&link).unwrap(), host.canonical(&folder.path).unwrap().join("target"));
    assert_eq!(host.stat(&host.path("/dev/null")).unwrap().kind, crate::FileKind::Device);
    assert!(host.open_device(&host.path("/dev/null")).is_ok());
    assert_eq!(host.read_start(&link, 2).unwrap(), b"12");
    assert_eq!(host.stat(&folder.path.join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(host.counts().files, 2);
    assert!(host.free_space(&folder.path.join("not/there/yet")).unwrap() > 0);
}

#[test]
fn a_lock_is_exclusive_until_it_is_dropped() {
    let host = RealHost::new();
    let folder = folder(&host);
    let path = folder.path.join("lock");
    let lock = host.lock(&path, Wait::No).unwrap().unwrap();
    assert!(host.lock(&path, Wait::No).unwrap().is_none());
    host.interrupt().trigger(SIGINT);
    assert_eq!(host.lock(&path, Wait::Yes).unwrap_err().kind(), ErrorKind::Interrupted);
    drop(lock);
    assert!(host.lock(&path, Wait::Yes).unwrap().is_some());
}

#[cfg(unix)]
#[test]
fn a_lock_on_a_replaced_file_is_exclusive() {
    let host = RealHost::new();
    let folder = folder(&host);
    let path = folder.path.join("lock");
    let first = host.lock(&path, Wait::No).unwrap().unwrap();
    let second = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| host.lock(&path, Wait::Yes).unwrap().unwrap());
        // By now, the thread should wait for the lock on the old file. If it is late, it opens the new file, which is also correct.
        std::thread::sleep(Duration::from_millis(200));
        host.remove(&path).unwrap();
        drop(first);
        waiting.join().unwrap()
    });
    assert!(host.lock(&path, Wait::No).unwrap().is_none(), "the second lock must be on the new file");
    drop(second);
    assert!(host.lock(&path, Wait::No).unwrap().is_some());
}

#[cfg(unix)]
#[test]
fn a_symbolic_link_is_refused_as_a_lock_file() {
    let host = RealHost::new();
    let folder = folder(&host);
    let (path, target) = (folder.path.join("lock"), folder.path.join("target"));
    host.symlink(target.as_str(), &path).unwrap();
    assert!(host.lock(&path, Wait::No).is_err());
    assert!(!host.exists(&target));
}

#[cfg(target_os = "linux")]
#[test]
fn a_link_is_refused_even_if_its_target_is_not_utf8() {
    use std::os::unix::ffi::OsStrExt;
    let host = RealHost::new();
    let folder = folder(&host);
    let path = folder.path.join("link");
    assert!(crate::links::refuse_link(&host, &path).is_ok());
    std::os::unix::fs::symlink(std::ffi::OsStr::from_bytes(b"/tmp/\xff"), path.as_std()).unwrap();
    assert!(crate::links::refuse_link(&host, &path).is_err());
}

#[test]
fn probes_fail_unless_the_program_supports_them() {
    let host = RealHost::new();
    assert_eq!(host.probe("cuda", LONG).status, ProbeStatus::Failed);
    assert_eq!(host.counts().processes, 0);
}

#[cfg(target_os = "linux")]
#[test]
fn paths_that_are_not_utf8_are_refused_instead_of_replaced() {
    use std::os::unix::ffi::OsStrExt as _;
    let host = RealHost::new();
    let folder = folder(&host);
    let named = folder.path.as_std().join(std::ffi::OsStr::from_bytes(b"caf\xe9"));
    std::fs::create_dir(&named).unwrap();
    let link = folder.path.join("link");
    std::os::unix::fs::symlink(&named, link.as_std()).unwrap();
    assert!(host.is_dir(&link));
    let error = host.canonical(&link).unwrap_err();
    let cause = crate::path::NotUtf8Path::cause(&error).unwrap();
    assert!(cause.ends_with("caf\\xE9\""), "{cause}");
}

#[test]
fn the_number_of_free_files_is_known_or_not_limited() {
    let host = RealHost::new();
    let folder = folder(&host);
    assert!(host.free_files(&folder.path.join("not/there/yet")).is_none_or(|count| count > 0));
}

#[test]
fn create_fails_for_an_existing_file() {
    let folder = tempfile::tempdir().unwrap();
    let host = RealHost::new();
    let path = host.path(folder.path().to_str().unwrap()).join("new/file");
    let mut file = host.create(&path).unwrap();
    file.write_all(b"first").unwrap();
    file.finish().unwrap();
    assert_eq!(host.create(&path).err().unwrap().kind(), std::io::ErrorKind::AlreadyExists);
    let mut text = String::new();
    host.open(&path).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text, "first");
}

/// All ways to read a file, by name.
fn reads(host: &RealHost, path: &HostPath) -> Vec<(&'static str, std::io::Result<()>)> {
    let copy = path.parent().unwrap().join("copy");
    vec![
        ("read", host.read(path).map(drop)),
        ("read_text", host.read_text(path).map(drop)),
        ("read_up_to", host.read_up_to(path, 9).map(drop)),
        ("read_input", host.read_input(path, 9).map(drop)),
        ("read_start", host.read_start(path, 9).map(drop)),
        ("read_part", host.read_part(path, 1, 9).map(drop)),
        ("open", host.open(path).map(drop)),
        ("copy", host.copy(path, &copy)),
        ("duplicate", host.duplicate(path, &copy)),
        ("flush", host.flush(path)),
        ("append", host.append(path).map(drop)),
    ]
}

#[test]
fn only_regular_files_are_read() {
    let host = RealHost::new();
    let folder = folder(&host);
    let path = |name: &str| folder.path.join(name);
    let made = host.run(&Command::new("mkfifo", LONG).arg(path("pipe").as_str()));
    assert!(made.unwrap().success());
    let _socket = std::os::unix::net::UnixListener::bind(path("socket").as_std()).unwrap();
    host.symlink("/dev/zero", &path("zero")).unwrap();
    host.symlink("loop", &path("loop")).unwrap();
    host.symlink("missing", &path("dangling")).unwrap();
    host.create_dir_all(&path("folder")).unwrap();
    let started = host.elapsed();
    for (name, message) in [
        ("pipe", "pipe"),
        ("socket", "socket"),
        ("zero", "device"),
        ("loop", "symbolic links"),
        ("dangling", "No such file"),
        ("folder", "directory"),
    ] {
        for (way, read) in reads(&host, &path(name)) {
            // A dangling link is created, and a folder can be flushed.
            if [("append", "dangling"), ("flush", "folder")].contains(&(way, name)) {
                continue;
            }
            let error = read.expect_err(&format!("{way} {name}")).to_string();
            let is_clear = error.contains(message) || way == "append" || way == "flush";
            assert!(is_clear, "{way} {name}: {error}");
        }
        assert!(!host.exists(&path("copy")), "{name}");
    }
    assert!(host.elapsed().saturating_sub(started) < Duration::from_secs(10));
}

#[test]
fn large_files_are_refused_before_they_are_read() {
    let host = RealHost::new();
    let folder = folder(&host);
    let path = folder.path.join("large");
    let file = std::fs::File::create(path.as_std()).unwrap();
    file.set_len(crate::DOCUMENT_LIMIT).unwrap();
    assert_eq!(host.read(&path).unwrap().len() as u64, crate::DOCUMENT_LIMIT);
    file.set_len(crate::DOCUMENT_LIMIT + 1).unwrap();
    let error = host.read(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    assert_eq!(error.to_string(), "it is larger than 64 MiB");
    assert_eq!(host.read_up_to(&path, 1 << 27).unwrap().len() as u64, crate::DOCUMENT_LIMIT + 1);
    assert_eq!(host.read_up_to(&path, 1000).unwrap_err().to_string(), "it is larger than 1000 bytes");
}

#[test]
fn an_inherited_pipe_is_read_with_a_limit_and_a_deadline() {
    use std::io::Write as _;
    use std::os::fd::AsRawFd;
    let host = RealHost::new();
    let (read, mut write) = std::io::pipe().unwrap();
    let path = host.path(&format!("/dev/fd/{}", read.as_raw_fd()));
    write.write_all(b"text").unwrap();
    let pipe = |limit, deadline| super::reading::pipe::read(&read, limit, deadline);
    let error = pipe(9, Duration::from_millis(20)).unwrap_err();
    assert_eq!(error.to_string(), "its writer did not close it within 0.02 s");
    write.write_all(b"0123456789").unwrap();
    assert_eq!(pipe(9, LONG).unwrap_err().to_string(), "it is larger than 9 bytes");
    write.write_all(b"complete").unwrap();
    drop(write);
    assert_eq!(host.read_input(&path, 9).unwrap(), b"complete");
    assert!(host.read(&path).unwrap_err().to_string().contains("pipe"));
}

#[test]
fn a_query_that_never_stops_printing_is_killed_and_a_build_that_prints_much_is_not() {
    let host = RealHost::new();
    let endless = shell("exec cat /dev/zero", LONG);
    let message = |result: Result<CommandOutput, RunError>| result.unwrap_err().to_string();
    assert_eq!(message(host.run(&endless)), "`/bin/sh` was stopped because it printed more than 64 MiB");
    let much = shell("echo first; head -c 300000000 /dev/zero; echo; echo last", LONG);
    let mut last = String::new();
    let output = host.run_lines(&much, &mut |line| line.text.clone_into(&mut last)).unwrap();
    assert!(output.success() && last == "last", "{last}");
    assert!(output.stdout.starts_with("first\n") && output.stdout.ends_with("\nlast\n"));
    assert!(output.stdout.contains(" bytes omitted]\n") && output.stdout.len() < 17 << 20);
}

#[test]
fn files_that_are_examined_once_have_the_same_answers() {
    let host = RealHost::new();
    let folder = folder(&host);
    let real = host.canonical(&folder.path).unwrap();
    host.write(&real.join("a/b/file"), b"x").unwrap();
    host.symlink("a/b", &real.join("link")).unwrap();
    host.symlink("nowhere", &real.join("dangling")).unwrap();
    let once = RealHost::new();
    once.examine_files_once();
    for name in
        ["a/b/file", "link/file", "link", "a/b/../b/file", "dangling", "missing", "a/b/file/below", "."]
    {
        let path = real.join(name);
        // Twice, so that the remembered answer is compared too.
        for _ in 0..2 {
            let answers = |host: &RealHost| {
                let kind = |error: std::io::Error| (error.kind(), error.raw_os_error());
                let stat = host.stat(&path).map_err(kind);
                (
                    host.canonical(&path).map_err(kind),
                    stat.map(|stat| stat.kind),
                    host.list(&path).map_err(kind),
                    host.list_matching(&path, "f*").map_err(kind),
                    host.read(&path).map_err(kind),
                )
            };
            assert_eq!(answers(&once), answers(&host), "{name}");
        }
    }
    host.remove(&real.join("a/b/file")).unwrap();
    assert!(once.is_file(&real.join("a/b/file")) && !host.is_file(&real.join("a/b/file")));
}

/// They must not be replaced by a file, which root could do.
#[cfg(target_os = "linux")]
#[test]
fn devices_and_open_files_are_written_to_and_not_replaced() {
    use std::os::fd::AsRawFd as _;

    let host = RealHost::new();
    let folder = folder(&host);
    let target = folder.path.join("target");
    let file = std::fs::File::create(target.as_std()).unwrap();
    host.write(&host.path(&format!("/dev/fd/{}", file.as_raw_fd())), b"text").unwrap();
    assert_eq!(host.read_text(&target).unwrap(), "text");
    for (path, expected) in
        [("/dev/null", true), ("/dev/stdout", true), (target.as_str(), false), ("/dev/shm", false)]
    {
        assert_eq!(files::is_device_or_open_file(&host.path(path)), expected, "{path}");
    }
}
