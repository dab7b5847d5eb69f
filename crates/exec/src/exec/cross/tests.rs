use super::*;

#[test]
fn programs_name_zig_relative_to_their_folder() {
    let text = program(Os::Linux, "cc", "aarch64-linux-gnu.2.28");
    let version = gpubuild_plan::planning::cross::zig_wheel().version;
    assert!(text.contains(&format!("zig=\"$here/../../zig-{version}/ziglang/zig\"")), "{text}");
    assert!(text.contains("exec \"$zig\" cc -target aarch64-linux-gnu.2.28 "), "{text}");
    let text = program(Os::Windows, "ar", "x86_64-windows-gnu");
    assert!(text.ends_with(&format!("\\zig-{version}\\ziglang\\zig.exe\" ar %*\n")), "{text}");
    for (_, command) in PROGRAMS {
        let both = program(Os::Linux, command, "t") + &program(Os::Windows, command, "t");
        assert!(
            !both.contains("@folder@") && !both.contains("@program@") && !both.contains("@target@"),
            "{both}"
        );
    }
}

/// Runs the program that starts Zig with a program in place of Zig that prints its arguments, one per line.
#[cfg(unix)]
mod translated {
    use std::collections::BTreeMap;

    use super::*;
    use gpubuild_host::{RealHost, RunPrograms, WriteFiles};

    struct Printer(tempfile::TempDir);

    impl Printer {
        fn new() -> Self {
            Self(tempfile::tempdir().unwrap())
        }

        fn host_path(&self, host: &RealHost, name: &str) -> HostPath {
            host.path(self.0.path().to_str().unwrap()).join(name)
        }

        fn run(&self, zig: &str, arguments: &[&str]) -> Vec<String> {
            let host = RealHost::new();
            let wheel = gpubuild_plan::planning::cross::zig_wheel();
            let fake = self.host_path(&host, &format!("zig-{}/ziglang/zig", wheel.version));
            let script = self.host_path(&host, "programs/target/cc");
            let print = "#!/bin/sh\nfor word; do case $word in @*) cat \"${word#@}\" ;; *) printf '%s\\n' \"$word\" ;; esac; done\n";
            for (path, text) in [(&fake, print.to_owned()), (&script, program(Os::Linux, "cc", zig))] {
                host.write(path, text.as_bytes()).unwrap();
                host.set_executable(path).unwrap();
            }
            let command =
                Command::new(script.as_str(), Duration::from_secs(60)).args(arguments.iter().copied());
            // A process that another test started at the same moment may still have the file open for writing.
            let mut runs = std::iter::repeat_with(|| host.run(&command).unwrap()).take(1000);
            let output = runs.find(|output| !output.stderr.contains("Text file busy")).unwrap();
            assert!(output.success(), "{}", output.stderr);
            let words: Vec<String> = output.stdout.lines().map(str::to_owned).collect();
            let start = ["cc", "-target", zig, "-fno-sanitize=undefined"];
            assert_eq!(words[..4], start, "{words:?}");
            // Debug information is requested by an argument, or disabled.
            let requests_debug = words[4..].iter().any(|word| word.starts_with("-g") && word != "-g0");
            assert_eq!(words.get(4).is_some_and(|word| word == "-g0"), !requests_debug, "{words:?}");
            words[if requests_debug { 4 } else { 5 }..].to_vec()
        }
    }

    #[test]
    fn arguments_for_gcc() {
        let printer = Printer::new();
        let cases: BTreeMap<&str, &[(&str, &str)]> = [
            (
                "aarch64-linux-gnu",
                &[
                    ("-lgcc_s", "-lunwind"),
                    ("--target=aarch64-unknown-linux-gnu", ""),
                    ("-march=armv8.2-a+dotprod", "-mcpu=generic+v8_2a+dotprod"),
                    ("-march=armv8-a+simd+fp16", "-mcpu=generic+v8a+neon+fullfp16"),
                    ("-DX=a b", "-DX=a b"),
                    ("-Wl,/x/a b/libc.a", "/x/a b/libc.a"),
                    ("-Wl,/x.a,-z", "-Wl,/x.a,-z"),
                    ("-Wl,--whole-archive", "-Wl,--whole-archive"),
                    ("-lc", "-lc"),
                    ("", ""),
                ][..],
            ),
            (
                "x86_64-linux-musl",
                &[
                    ("/r/self-contained/crt1.o", ""),
                    ("-lc", ""),
                    ("-nostartfiles", ""),
                    ("/r/a.o", "/r/a.o"),
                    ("-march=x86-64-v3", "-march=x86-64-v3"),
                    ("-gdwarf-4", "-gdwarf-4"),
                ],
            ),
            (
                "x86_64-windows-gnu",
                &[
                    ("-lgcc_eh", "-lc++"),
                    ("-l:libpthread.a", ""),
                    ("-Wl,--dynamicbase", ""),
                    ("-Wl,-Bdynamic", "-Wl,-search_paths_first"),
                    ("/t/libcompiler_builtins-1.rlib", ""),
                ],
            ),
        ]
        .into();
        for (zig, pairs) in cases {
            let given: Vec<&str> = pairs.iter().map(|(given, _)| *given).collect();
            let expected: Vec<&str> = pairs
                .iter()
                .filter(|(given, expected)| !expected.is_empty() || given.is_empty())
                .map(|(_, expected)| *expected)
                .collect();
            assert_eq!(printer.run(zig, &given), expected, "{zig}");
        }
    }

    #[test]
    fn arguments_in_a_file_of_rustc() {
        let printer = Printer::new();
        let host = RealHost::new();
        let file = printer.host_path(&host, "linker-arguments");
        host.write(&file, b"-lgcc_s\n/a\\ b.o\n--target=x\n-o\nout").unwrap();
        let words = printer.run("x86_64-linux-gnu.2.28", &[&format!("@{file}"), "-v"]);
        assert_eq!(words, ["-lunwind", "/a\\ b.o", "-o", "out", "-v"]);
    }

    /// They may need a newer C library than the program.
    #[test]
    fn libraries_of_toolkits_may_have_undefined_symbols() {
        let printer = Printer::new();
        let folder = "-L/cache/toolkits/aarch64-unknown-linux-gnu/vulkan-1.3/prefix/lib";
        let words = printer.run("aarch64-linux-gnu.2.28", &[folder, "-lvulkan"]);
        assert_eq!(words, ["-Wl,--allow-shlib-undefined", folder, "-lvulkan"]);
        assert_eq!(printer.run("x86_64-linux-musl", &[folder]), [folder]);
    }
}
