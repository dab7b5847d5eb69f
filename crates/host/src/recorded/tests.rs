use std::io::ErrorKind;
use std::time::Duration;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn linux() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Linux, Arch::X86_64)
}

fn windows() -> RecordedHostBuilder {
    RecordedHost::builder(Os::Windows, Arch::X86_64)
}

fn parse(body: &str) -> Result<RecordedHost, RecordingError> {
    parse_as("linux", body)
}

fn parse_as(os: &str, body: &str) -> Result<RecordedHost, RecordingError> {
    let text = format!("schema = \"gpubuild.host/1\"\n[platform]\nos = \"{os}\"\narch = \"x86_64\"\n{body}");
    RecordedHost::parse("some.toml", &text)
}

fn canonical(host: &RecordedHost, path: &str) -> String {
    match host.canonical(&host.path(path)) {
        Ok(path) => path.as_str().to_owned(),
        Err(error) => format!("{error}"),
    }
}

#[test]
fn only_recorded_files_and_their_parent_folders_exist() {
    let host = linux().file("/usr/include/x.h", "x").build();
    assert!(host.is_dir(&host.path("/usr/include")));
    assert!(host.is_dir(&host.path("/")));
    assert!(!host.exists(&host.path("/usr/lib")));
    assert_eq!(host.list(&host.path("/usr")).unwrap(), ["include"]);
    assert_eq!(host.list(&host.path("/usr/include/x.h")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(host.stat(&host.path("/usr/include/x.h/y")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(host.read(&host.path("/usr")).unwrap_err().kind(), ErrorKind::IsADirectory);
    assert_eq!(host.read(&host.path("/nothing")).unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(host.read_start(&host.path("/usr/include/x.h"), 0).unwrap(), b"");
}

#[test]
fn links_are_followed() {
    let host = linux()
        .file("/usr/lib/libcuda.so.580.65.06", "elf")
        .link("/lib", "usr/lib")
        .link("/usr/lib/libcuda.so.1", "libcuda.so.580.65.06")
        .link("/usr/lib/libcuda.so", "/lib/libcuda.so.1")
        .link("/usr/local/up", "../lib/../lib")
        .link("/dangling", "/nowhere")
        .link("/a", "/b")
        .link("/b", "/a")
        .link("/self", "self/below")
        .build();
    let real = "/usr/lib/libcuda.so.580.65.06";
    for path in [
        "/lib/libcuda.so",
        "/usr/lib/./libcuda.so.1",
        "/usr/local/up/libcuda.so.1",
        "/lib/../lib//libcuda.so",
    ] {
        assert_eq!(canonical(&host, path), real);
        assert_eq!(host.read_text(&host.path(path)).unwrap(), "elf");
    }
    assert_eq!(canonical(&host, "/dangling"), "`/dangling` does not exist");
    assert_eq!(host.read_link(&host.path("/dangling")).unwrap(), "/nowhere");
    assert_eq!(host.read_link(&host.path("/lib/libcuda.so")).unwrap(), "/lib/libcuda.so.1");
    assert_eq!(host.read_link(&host.path("/usr/lib")).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert_eq!(canonical(&host, "/a"), "the links of `/a` form a loop");
    assert_eq!(canonical(&host, "/self"), "the links of `/self` form a loop");
    // `..` is relative to the link's target, not to the folder of the link.
    assert_eq!(canonical(&host, "/lib/.."), "/usr");
    let names = host.list(&host.path("/lib")).unwrap();
    assert_eq!(names, ["libcuda.so", "libcuda.so.1", "libcuda.so.580.65.06"]);
}

#[test]
fn files_recorded_below_a_link_are_at_its_target() {
    let host = linux()
        .file("/usr/local/cuda/bin/nvcc", "x")
        .link("/usr/local/cuda", "/etc/alternatives/cuda")
        .link("/etc/alternatives/cuda", "/usr/local/cuda-12.4")
        .build();
    assert_eq!(canonical(&host, "/usr/local/cuda/bin/nvcc"), "/usr/local/cuda-12.4/bin/nvcc");
    assert!(host.is_file(&host.path("/usr/local/cuda-12.4/bin/nvcc")));
}

#[test]
fn windows_paths_have_drives_and_shares_and_ignore_case() {
    let host = windows()
        .file(r"C:\Program Files\NVIDIA\nvcc.exe", "x")
        .file(r"\\server\share\tool.txt", "y")
        .link(r"C:\cuda", r"Program Files/NVIDIA")
        .build();
    assert!(host.is_file(&host.path("c:/program files/nvidia/NVCC.EXE")));
    assert_eq!(canonical(&host, "c:/CUDA/nvcc.exe"), r"C:\Program Files\NVIDIA\nvcc.exe");
    assert_eq!(host.read_text(&host.path(r"\\SERVER\share\TOOL.TXT")).unwrap(), "y");
    assert!(!host.exists(&host.path(r"D:\")));
    assert!(host.stat(&host.path(r"C:\cuda\nvcc.exe")).unwrap().executable);
    assert!(!host.stat(&host.path(r"\\server\share\tool.txt")).unwrap().executable);
}

#[test]
fn opening_a_device_has_the_recorded_result() {
    let host = parse(
        "[[file]]\npath = \"/dev/kfd\"\nkind = \"device\"\nopen_error = \"permission-denied\"\nowner = { uid = 0, gid = 109 }\n\
         [[file]]\npath = \"/dev/nvidia0\"\nkind = \"device\"\nopen_error = \"no-such-device\"\n\
         [[file]]\npath = \"/dev/dri/renderD128\"\nkind = \"device\"\n\
         [[file]]\npath = \"/etc/secret\"\nopen_error = \"permission-denied\"\n\
         [process]\nuid = 1000\ngroups = [1000, 27]\n",
    )
    .unwrap();
    let open =
        |path: &str| host.open_device(&host.path(path)).map_err(|error| (error.kind(), error.to_string()));
    assert_eq!(open("/dev/kfd").unwrap_err().0, ErrorKind::PermissionDenied);
    assert_eq!(
        open("/dev/nvidia0").unwrap_err(),
        (ErrorKind::Other, "failed to open `/dev/nvidia0`: no such device".into())
    );
    assert_eq!(open("/dev/dri/renderD128"), Ok(()));
    assert_eq!(host.stat(&host.path("/dev/kfd")).unwrap().owner.unwrap().gid, 109);
    assert_eq!(host.stat(&host.path("/dev/kfd")).unwrap().kind, FileKind::Device);
    assert_eq!(host.read(&host.path("/etc/secret")).unwrap_err().kind(), ErrorKind::PermissionDenied);
    assert_eq!(host.identity(), &Identity { uid: Some(1000), groups: vec![1000, 27] });
}

#[test]
fn files_have_text_binary_or_no_content() {
    let host = parse(
        "[[file]]\npath = \"/bytes\"\nbase64 = '''\nAAEC\n/w==\n'''\n\
         [[file]]\npath = \"/script\"\nkind = \"executable\"\ntext = \"#!/bin/sh\"\n\
         [[file]]\npath = \"/program\"\nkind = \"executable\"\n",
    )
    .unwrap();
    assert_eq!(host.read(&host.path("/bytes")).unwrap(), [0, 1, 2, 255]);
    assert_eq!(host.read_start(&host.path("/bytes"), 2).unwrap(), [0, 1]);
    assert_eq!(host.read_text(&host.path("/script")).unwrap(), "#!/bin/sh");
    assert!(host.stat(&host.path("/script")).unwrap().executable);
    assert!(host.stat(&host.path("/program")).unwrap().executable);
    assert_eq!(host.read(&host.path("/program")).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn commands_are_found_by_every_name_of_their_program() {
    let host = linux()
        .env("PATH", "/usr/local/cuda/bin:/usr/bin")
        .executable("/usr/local/cuda-12.4/bin/nvcc")
        .link("/usr/local/cuda", "cuda-12.4")
        .executable("/usr/bin/gcc-12")
        .link("/usr/bin/gcc", "gcc-12")
        .command(&["/usr/local/cuda-12.4/bin/nvcc", "--version"], "release 12.4")
        .command(&["gcc", "-dumpversion"], "12")
        .command(&["ldd", "--version"], "ldd (GNU libc) 2.36")
        .command_result(&["gcc", "-hang"], CommandResult::Hangs)
        .command_result(
            &["gcc", "-die"],
            CommandResult::Ended(CommandOutput { signal: Some(11), ..CommandOutput::default() }),
        )
        .build();
    let run = |argv: &[&str]| host.run(&Command::new(argv[0], SECOND).args(argv[1..].iter().copied()));
    for program in ["nvcc", "/usr/local/cuda/bin/nvcc", "/usr/local/cuda-12.4/bin/nvcc"] {
        assert_eq!(run(&[program, "--version"]).unwrap().stdout, "release 12.4");
    }
    assert_eq!(run(&["/usr/bin/gcc-12", "-dumpversion"]).unwrap().stdout, "12");
    assert_eq!(run(&["ldd", "--version"]).unwrap().stdout, "ldd (GNU libc) 2.36");
    assert_eq!(run(&["gcc"]), Err(RunError::NotFound { program: "gcc".into() }));
    assert_eq!(run(&["cc", "-dumpversion"]), Err(RunError::NotFound { program: "cc".into() }));
    assert_eq!(run(&["gcc", "-hang"]), Err(RunError::Timeout { program: "gcc".into(), deadline: SECOND }));
    assert_eq!(run(&["gcc", "-die"]).unwrap().signal, Some(11));
    assert_eq!(host.counts().processes, 7);

    let mut lines = Vec::new();
    host.run_lines(&Command::new("nvcc", SECOND).arg("--version"), &mut |line| {
        lines.push(line.text.to_owned());
    })
    .unwrap();
    assert_eq!(lines, ["release 12.4"]);
}

#[test]
fn windows_commands_ignore_case_and_extension() {
    let host = windows()
        .env("Path", r"C:\CUDA\bin")
        .executable(r"C:\CUDA\bin\nvcc.exe")
        .command(&[r"C:\CUDA\bin\nvcc.exe", "--version"], "release 12.4")
        .build();
    for program in ["nvcc", "NVCC.exe", r"c:\cuda\BIN\nvcc.EXE", "c:/cuda/bin/nvcc"] {
        let output = host.run(&Command::new(program, SECOND).arg("--version"));
        assert_eq!(output.unwrap().stdout, "release 12.4", "{program}");
    }
}

#[test]
fn probes_have_the_recorded_result() {
    let host = parse(
        "[[probe]]\nid = \"cuda\"\nstatus = \"ok\"\nanswer = '{\"devices\": []}'\n\
         [[probe]]\nid = \"rocm\"\nstatus = \"crashed\"\nerror = \"signal 11\"\n",
    )
    .unwrap();
    assert_eq!(host.probe("cuda", SECOND).answer, "{\"devices\": []}");
    assert_eq!(host.probe("rocm", SECOND).status, ProbeStatus::Crashed);
    assert_eq!(host.probe("vulkan", SECOND).status, ProbeStatus::Failed);
}

#[test]
fn registry_keys_are_case_insensitive_and_have_parents() {
    let host = parse_as(
        "windows",
        "[[registry]]\nkey = 'HKLM\\SOFTWARE\\Khronos\\Vulkan\\Drivers'\nname = 'C:\\nv-vk64.json'\nvalue = \"0\"\ntype = \"dword\"\n\
         [[registry]]\nkey = 'HKEY_LOCAL_MACHINE\\Software\\NVIDIA'\nname = ''\nvalue = \"default\"\n\
         [[registry]]\nkey = 'HKLM\\SOFTWARE\\Multi'\nname = 'list'\nvalue = \"a\\nb\"\ntype = \"multi-sz\"\n\
         [[registry]]\nkey = 'HKLM\\SOFTWARE\\Empty'\n",
    )
    .unwrap();
    assert_eq!(host.registry_keys(r"hklm\software"), ["Empty", "Khronos", "Multi", "NVIDIA"]);
    let driver = host.registry_value(r"hklm\software\KHRONOS\vulkan\drivers", r"c:\NV-VK64.json").unwrap();
    assert_eq!((driver.kind, driver.text.as_str()), (super::super::RegistryType::Dword, "0"));
    assert_eq!(host.registry_value(r"HKLM\SOFTWARE\NVIDIA", "").unwrap().text, "default");
    assert_eq!(host.registry_values(r"HKLM\SOFTWARE\Multi")[0].1.text, "a\nb");
    assert_eq!(host.registry_value(r"HKLM\SOFTWARE\Absent", ""), None);
    assert!(host.registry_values(r"HKLM\SOFTWARE\Empty").is_empty());
}

#[test]
fn every_write_fails() {
    let host = linux().file("/x", "").build();
    let path = host.path("/x");
    for result in [
        host.write(&path, b""),
        host.remove(&path),
        host.rename(&path, &path),
        host.copy(&path, &path),
        host.create_dir_all(&path),
        host.set_executable(&path),
        host.temporary_dir(&path).map(drop),
        host.lock(&path, Wait::No).map(drop),
    ] {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    }
}

#[test]
fn an_error_shows_the_line_with_a_caret() {
    let error = parse("[[file]]\npath = \"/x\"\ncontents = \"y\"\n").unwrap_err();
    let expected = "unknown field `contents`, expected one of `path`, `kind`, `text`, `base64`, `link`, `open_error`, `owner`
 --> some.toml:7:1
  |
7 | contents = \"y\"
  | ^^^^^^^^
hint: docs/reference/recorded-hosts.md describes every key; `gpubuild host record FILE` writes a complete recording";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn deep_paths_are_refused() {
    let deep = "/a".repeat(20_000);
    for entry in [format!("path = \"{deep}\""), format!("path = \"/x\"\nlink = \"{deep}\"")] {
        let error = parse(&format!("[[file]]\n{entry}\n")).unwrap_err().to_string();
        assert!(error.contains("at most 200 names"), "{error:.300}");
    }
}

/// Asserts the line of the error in an invalid recording, and that its message contains `what`.
fn check_bad(text: &str, line: usize, what: &str) {
    let error = RecordedHost::parse("bad.toml", text).expect_err(text);
    assert_eq!(error.place.as_ref().map(|place| place.line), Some(line), "{error}");
    assert!(error.what.contains(what), "{error}");
    assert!(!error.hint.is_empty());
    let first = error.what.chars().next().unwrap();
    assert!(!first.is_uppercase(), "{error}");
}

#[test]
fn invalid_recordings_are_rejected_with_a_position() {
    check_bad("", 1, "`schema` is missing");
    check_bad("schema = \"gpubuild.host/2\"\nnew_key = 1\n", 1, "format 2 is too new");
    check_bad("schema = \"other/1\"\n", 1, "not a recorded-host format");
    check_bad("schema = 1\n", 1, "expected a string");
    check_bad("schema = \"gpubuild.host/1\"\n[platform\nos = \"linux\"\n", 2, "");
    check_bad("schema = \"gpubuild.host/1\"\n[env]\nA = \"never closed\n", 3, "");
    let head = "schema = \"gpubuild.host/1\"\n[platform]\nos = \"linux\"\narch = \"x86_64\"\n";
    for (body, line, what) in [
        ("[[files]]\npath = \"/x\"\n", 5, "unknown field `files`"),
        ("[env]\nA = 1\n", 6, "expected a string"),
        ("[[file]]\npath = \"relative\"\n", 6, "not an absolute path on linux"),
        ("[[file]]\npath = 'C:\\x'\n", 6, "not an absolute path on linux"),
        ("[[file]]\npath = \"/a/../b\"\n", 6, "contains `..`"),
        ("[[file]]\npath = \"/x\"\nkind = \"socket\"\n", 7, "unknown variant `socket`"),
        ("[[file]]\ntext = \"no path\"\n", 5, "missing field `path`"),
        ("[[file]]\npath = \"/x\"\ntext = \"\"\nbase64 = \"\"\n", 5, "both `text` and `base64`"),
        ("[[file]]\npath = \"/x\"\nbase64 = \"no base64!\"\n", 7, "invalid base64"),
        ("[[file]]\npath = \"/x\"\nlink = \"/y\"\ntext = \"\"\n", 5, "entry has other keys"),
        ("[[file]]\npath = \"/x\"\nlink = \"\"\n", 5, "`link` is empty"),
        ("[[file]]\npath = \"/x\"\nkind = \"device\"\ntext = \"\"\n", 5, "only files can have"),
        ("[[file]]\npath = \"/x\"\n[[file]]\npath = \"/x/y\"\n", 8, "a path above it is a file"),
        ("[[file]]\npath = \"/x/y\"\n[[file]]\npath = \"/x\"\ntext = \"\"\n", 8, "it is also a folder"),
        ("[[file]]\npath = \"/x\"\ntext = \"1\"\n[[file]]\npath = \"/x\"\ntext = \"2\"\n", 9, "twice"),
        ("[[file]]\npath = \"/a\"\nlink = \"/a\"\n[[file]]\npath = \"/a/x\"\n", 9, "form a loop"),
        ("[[command]]\nargv = []\n", 6, "`argv` has no program"),
        ("[[command]]\nargv = \"nvcc --version\"\n", 6, "expected a sequence"),
        ("[[command]]\nargv = [\"x\"]\nexit = 1\nsignal = 11\n", 5, "can have only one of"),
        ("[[probe]]\nid = \"cpu\"\nstatus = \"ok\"\n", 6, "not a backend with a probe"),
        ("[[probe]]\nid = \"cuda\"\nstatus = \"fine\"\n", 7, "unknown variant `fine`"),
        (
            "[[probe]]\nid = \"cuda\"\nstatus = \"ok\"\n[[probe]]\nid = \"cuda\"\nstatus = \"ok\"\n",
            9,
            "twice",
        ),
        ("[[registry]]\nkey = 'HKLM\\X'\n", 5, "linux has no registry"),
        ("[process]\nuid = -1\n", 6, ""),
        ("[process]\nname = \"me\"\n", 6, "unknown field `name`"),
    ] {
        check_bad(&format!("{head}{body}"), line, what);
    }
    let windows = head.replace("linux", "windows");
    for (body, line, what) in [
        ("[[file]]\npath = \"/usr\"\n", 6, "not an absolute path on windows"),
        ("[[file]]\npath = 'C:\\x'\ntext = \"1\"\n[[file]]\npath = 'c:\\X'\ntext = \"2\"\n", 9, "twice"),
        ("[[registry]]\nkey = 'HKLM\\X'\nname = \"a\"\n", 5, "has no `value`"),
        ("[[registry]]\nkey = 'HKLM\\X'\nname = \"a\"\nvalue = \"x\"\ntype = \"dword\"\n", 8, "not a number"),
        (
            "[[registry]]\nkey = 'HKLM\\X'\nname = \"a\"\nvalue = \"1\"\n[[registry]]\nkey = 'hklm\\x'\nname = \"A\"\nvalue = \"2\"\n",
            10,
            "twice",
        ),
    ] {
        check_bad(&format!("{windows}{body}"), line, what);
    }
}

#[test]
fn errors_for_missing_and_binary_files_have_no_position() {
    let files = linux().bytes("/bad.toml", b"schema = \"\xff\"").build();
    let error = RecordedHost::load(&files, &files.path("/absent.toml")).unwrap_err();
    assert!(error.to_string().starts_with("failed to read the recorded host: "), "{error}");
    let error = RecordedHost::load(&files, &files.path("/bad.toml")).unwrap_err();
    assert!(error.what.contains("not valid UTF-8 at byte 10"), "{error}");
}

/// Lines, and a line, that are several times as large in memory as in the file.
#[test]
fn large_recordings_are_refused() {
    let load = |content: &str| {
        let host = linux().file("/h.toml", content).build();
        RecordedHost::load(&host, &host.path("/h.toml")).unwrap_err().to_string()
    };
    let error = load(&"#\n".repeat(9 << 20));
    assert!(error.starts_with("failed to read the recorded host: it is larger than 16 MiB"), "{error}");
    let error = load(&"#\n".repeat(7 << 20));
    assert!(error.starts_with("it has too many values or lines"), "{error}");
    let error = load(&format!("a = {}", "b".repeat(15 << 20)));
    assert!(error.contains("\n--> /h.toml:1:5\nhint: ") && error.len() < 1000, "{}", error.len());
}
