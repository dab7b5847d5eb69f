//! Finds libclang, which bindgen loads.

use gpubuild_host::{HostPath, Os, ReadFiles, glob};

/// Returns the path of libclang, or the value of `LIBCLANG_PATH` if it is set and contains no libclang.
#[must_use]
pub fn find(host: &dyn ReadFiles) -> (Option<HostPath>, Option<HostPath>) {
    let is_library = |name: &str| {
        let name = name.to_ascii_lowercase();
        match host.platform().os {
            Os::Windows => name == "libclang.dll" || name == "clang.dll",
            Os::Macos => name == "libclang.dylib",
            Os::Linux => {
                // Matches `libclang-14.so.1`, but not `libclang-cpp.so.14`, which is a different library.
                let numbered = name.strip_prefix("libclang-");
                name.starts_with("libclang.so")
                    || numbered.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
            }
        }
    };
    let in_folder = |folder: &HostPath| {
        let names = host.list(folder).unwrap_or_default();
        names.iter().find(|name| is_library(name)).map(|name| folder.join(name))
    };
    if let Some(value) = host.env().get("LIBCLANG_PATH") {
        let place = host.path(value.trim_end_matches(['/', '\\']));
        let found = if host.is_file(&place) { Some(place.clone()) } else { in_folder(&place) };
        return match found {
            Some(found) => (Some(found), None),
            None => (None, Some(place)),
        };
    }
    let mut patterns: Vec<String> = Vec::new();
    for name in ["CONDA_PREFIX", "LLVM_HOME", "LLVM_PATH"] {
        if let Some(prefix) = host.env().get(name) {
            patterns.extend(["lib", "bin", "Library/bin"].map(|folder| format!("{prefix}/{folder}")));
        }
    }
    match host.platform().os {
        Os::Linux => {
            let multiarch = format!("/usr/lib/{}-linux-gnu", host.platform().arch.id());
            patterns.push(multiarch);
            let plain = [
                "/usr/lib/llvm*/lib",
                "/usr/lib64",
                "/usr/lib64/llvm*/lib",
                "/usr/lib64/llvm*/lib64",
                "/usr/lib",
                "/usr/local/lib",
                "/usr/local/llvm*/lib",
                "/usr/lib/llvm/*/lib64",
                "/run/current-system/sw/lib",
            ];
            patterns.extend(plain.map(str::to_owned));
        }
        Os::Windows => {
            let program_files = host.env().get("ProgramFiles").unwrap_or(r"C:\Program Files");
            let folders = ["LLVM/bin", "Microsoft Visual Studio/*/*/VC/Tools/Llvm/x64/bin"];
            patterns.extend(folders.map(|folder| format!("{program_files}/{folder}")));
            patterns.extend(
                [r"C:\LLVM\bin", r"C:\msys64\mingw64\bin", r"C:\msys64\ucrt64\bin"].map(str::to_owned),
            );
            let path = host.env().get("PATH").unwrap_or_default();
            patterns.extend(path.split(';').map(|folder| folder.trim_matches('"').to_owned()));
        }
        Os::Macos => {
            let folders = [
                "/Library/Developer/CommandLineTools/usr/lib",
                "/Applications/Xcode.app/Contents/Developer/Toolchains/XcodeDefault.xctoolchain/usr/lib",
                "/opt/homebrew/opt/llvm*/lib",
                "/usr/local/opt/llvm*/lib",
            ];
            patterns.extend(folders.map(str::to_owned));
        }
    }
    let folders = patterns
        .iter()
        .filter(|pattern| host.path(pattern).is_absolute())
        .flat_map(|pattern| glob(host, pattern));
    (folders.into_iter().find_map(|folder| in_folder(&folder)), None)
}

#[cfg(test)]
mod tests {
    use gpubuild_host::{Arch, Os, RecordedHost};

    #[test]
    fn libclang_is_found_by_variable_and_in_known_folders() {
        let linux = || RecordedHost::builder(Os::Linux, Arch::X86_64);
        let found = |host: gpubuild_host::recorded::RecordedHostBuilder| {
            let (found, dead) = super::find(&host.build());
            (found.map(|path| path.to_string()), dead.is_some())
        };
        let debian = linux().opaque("/usr/lib/llvm-14/lib/libclang-14.so.1");
        assert_eq!(found(debian), (Some("/usr/lib/llvm-14/lib/libclang-14.so.1".into()), false));
        let cpp = linux().opaque("/usr/lib/x86_64-linux-gnu/libclang-cpp.so.14");
        assert_eq!(found(cpp), (None, false));
        assert_eq!(found(linux().env("LIBCLANG_PATH", "/gone")), (None, true));
        let windows = RecordedHost::builder(Os::Windows, Arch::X86_64);
        let windows = windows.opaque(r"C:\Program Files\LLVM\bin\libclang.dll");
        assert_eq!(found(windows), (Some(r"C:\Program Files\LLVM\bin\libclang.dll".into()), false));
        assert_eq!(found(linux()), (None, false));
    }
}
