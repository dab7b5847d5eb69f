//! Converts the link line of the probe target, as reported by the file API, to [`LinkItem`]s in the same order.

use gpubuild_host::{HostPath, Os, PathRules};
use gpubuild_plan::artifacts::LinkItem;

use super::file_api::{CmakeTarget, FileApiReply};

/// The context for interpreting a link line.
#[derive(Debug, Clone, Copy)]
pub struct FragmentContext<'a> {
    /// Base folder of relative paths: the top of the build tree.
    pub build: &'a HostPath,
    /// Operating system of the host.
    pub os: Os,
}

/// The link line of the probe target, complete for linking with a C compiler as the driver.
#[must_use]
pub fn link_items(context: FragmentContext<'_>, reply: &FileApiReply, probe: &CmakeTarget) -> Vec<LinkItem> {
    let mut reader = FragmentReader { context, reply, items: Vec::new() };
    for fragment in &probe.link {
        let words = split(&fragment.fragment, context.build.rules());
        reader.read(&words, &fragment.role);
    }
    if probe.link_language.as_deref() != Some("C") {
        reader.add_runtime(probe.link_language.as_deref().unwrap_or_default());
    }
    without_repeats(reader.items)
}

/// Splits a fragment into words and removes the shell quoting that CMake added.
#[must_use]
pub fn split(text: &str, rules: PathRules) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match (character, quote) {
            (' ' | '\t' | '\n', None) => words.extend(word.take()),
            ('"', None | Some('"')) | ('\'', Some('\'')) => {
                quote = if quote.is_some() { None } else { Some(character) };
                word.get_or_insert_default();
            }
            ('\'', None) if rules == PathRules::Unix => {
                quote = Some('\'');
                word.get_or_insert_default();
            }
            ('\\', None | Some('"')) => {
                let escapes = match rules {
                    PathRules::Windows => characters.peek() == Some(&'"'),
                    PathRules::Unix if quote.is_some() => {
                        matches!(characters.peek(), Some('"' | '\\' | '$' | '`'))
                    }
                    PathRules::Unix => characters.peek().is_some(),
                };
                let next = if escapes { characters.next() } else { None };
                word.get_or_insert_default().push(next.unwrap_or(character));
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

struct FragmentReader<'a> {
    context: FragmentContext<'a>,
    reply: &'a FileApiReply,
    items: Vec<LinkItem>,
}

impl FragmentReader<'_> {
    fn read(&mut self, words: &[String], role: &str) {
        let mut rest = words.iter().map(String::as_str);
        while let Some(word) = rest.next() {
            match word {
                "-framework" | "-weak_framework" => self.framework(rest.next()),
                "-L" | "-F" | "-Xlinker" => {
                    if let Some(next) = rest.next() {
                        self.option_with_value(word, next);
                    }
                }
                _ if role == "frameworkPath" => self.argument(word),
                _ if role == "flags" && !is_link_flag(word) => {}
                _ => self.word(word),
            }
        }
    }

    fn option_with_value(&mut self, option: &str, value: &str) {
        match option {
            "-L" => self.search(value),
            "-F" => self.argument(&format!("-F{value}")),
            _ => self.argument(&format!("-Wl,{value}")),
        }
    }

    fn framework(&mut self, name: Option<&str>) {
        if let Some(name) = name {
            self.items.push(LinkItem::Framework { name: name.to_owned() });
        }
    }

    fn word(&mut self, word: &str) {
        let upper = word.to_ascii_uppercase();
        if let Some(name) = word.strip_prefix("-Wl,-framework,") {
            self.framework(Some(name));
        } else if word.starts_with("-Wl,-rpath,") || word.starts_with("-Wl,-rpath=") {
            // Search paths for the project's shared libraries are derived from the library paths. CMake's rpath names folders
            // of the build tree only.
        } else if upper.starts_with("/LIBPATH:") || upper.starts_with("-LIBPATH:") {
            self.search(word.get("/LIBPATH:".len()..).unwrap_or_default());
        } else if let Some(folder) = word.strip_prefix("-L") {
            self.search(folder);
        } else if let Some(name) = word.strip_prefix("-l").filter(|name| !name.starts_with(':')) {
            self.items.push(LinkItem::System { name: name.to_owned() });
        } else if word.starts_with('-') || (self.is_windows() && word.starts_with('/') && !self.is_path(word))
        {
            self.argument(word);
        } else {
            self.file(word);
        }
    }

    fn file(&mut self, word: &str) {
        let name = word.rsplit(['/', '\\']).next().unwrap_or(word);
        let lower = name.to_ascii_lowercase();
        let has_suffix = |suffix: &str| lower.strip_suffix(suffix).is_some();
        let is_lib = has_suffix(".lib");
        if is_lib && name == word && !self.reply_has(&self.absolute(word)) {
            let name = name[..name.len() - ".lib".len()].to_owned();
            return self.items.push(LinkItem::System { name });
        }
        let path = self.absolute(word);
        if let Some(stem) = name.strip_suffix(".framework") {
            if let Some(folder) = self.context.build.join(word).parent() {
                self.argument(&format!("-F{folder}"));
            }
            self.framework(Some(stem));
        } else if has_suffix(".dll.a") || (is_lib && !self.is_static(&path)) || is_shared_name(&lower) {
            // An external `.lib` may be a static or an import library. Linkers handle both in the same way.
            let path = self.development_name(path);
            self.items.push(LinkItem::Shared { path });
        } else if let Some(part) = part_of_libc(name).filter(|_| !self.reply_has(&path)) {
            // Without a `libpthread.so` CMake finds the archive. Passing `-lpthread` lets the linker choose.
            self.items.push(LinkItem::System { name: part.to_owned() });
        } else if is_lib || has_suffix(".a") {
            self.items.push(LinkItem::Static { path });
        } else {
            self.argument(&path);
        }
    }

    /// Returns the unversioned name of a shared library of this project: `libx.so` for `libx.so.1.2`.
    fn development_name(&self, path: String) -> String {
        let Some(end) = path.find(".so.") else { return path };
        let short = path[..end + ".so".len()].to_owned();
        if self.reply_has(&short) { short } else { path }
    }

    fn reply_has(&self, path: &str) -> bool {
        self.reply.targets.iter().any(|target| target.artifacts.iter().any(|artifact| artifact == path))
    }

    fn is_static(&self, path: &str) -> bool {
        let own = self.reply.targets.iter().filter(|target| target.kind == "STATIC_LIBRARY");
        own.flat_map(|target| &target.artifacts).any(|artifact| artifact == path)
    }

    fn absolute(&self, path: &str) -> String {
        self.context.build.join(path).normalized().to_string()
    }

    /// Whether a word with a slash at its start is a path: on a machine other than Windows, unless it is an option such as `/OPT:REF`.
    fn is_path(&self, word: &str) -> bool {
        self.context.build.as_str().starts_with('/') && word.matches('/').count() > 1
    }

    fn is_windows(&self) -> bool {
        self.context.os == Os::Windows
    }

    fn search(&mut self, folder: &str) {
        let path = self.absolute(folder);
        self.items.push(LinkItem::Search { path });
    }

    fn argument(&mut self, text: &str) {
        self.items.push(LinkItem::Argument { text: text.to_owned() });
    }

    /// Adds the libraries that the compiler driver of `language` links implicitly and the C driver does not.
    fn add_runtime(&mut self, language: &str) {
        const C_DRIVER_LIBRARIES: [&str; 6] = ["c", "gcc", "gcc_s", "gcc_eh", "mingw32", "msvcrt"];
        let Some(toolchain) = self.reply.compilers.get(language) else { return };
        // Zig links its own C++ library if the linker gets its name.
        if toolchain.implicit_libraries.iter().any(|path| path.ends_with("/libc++.a")) {
            self.items.push(LinkItem::System { name: "c++".to_owned() });
        }
        for name in &toolchain.implicit_libraries {
            if name.starts_with(['-', '/']) || C_DRIVER_LIBRARIES.contains(&name.as_str()) {
                continue;
            }
            self.items.push(LinkItem::System { name: name.clone() });
        }
    }
}

/// Whether a fragment with the role `flags` affects linking. Other flags affect only how this project is compiled.
fn is_link_flag(word: &str) -> bool {
    const NEEDED: [&str; 8] =
        ["-Wl,", "-fopenmp", "-fsycl", "-pthread", "--hip-link", "--offload", "-L", "-l"];
    NEEDED.iter().any(|start| word.starts_with(start))
}

/// The name of an archive that is a part of the C library: `pthread` for `libpthread.a`.
fn part_of_libc(file: &str) -> Option<&str> {
    const PARTS: [&str; 6] = ["c", "dl", "m", "pthread", "rt", "util"];
    file.strip_prefix("lib")?.strip_suffix(".a").filter(|name| PARTS.contains(name))
}

fn is_shared_name(lower: &str) -> bool {
    let versioned =
        lower.split_once(".so.").is_some_and(|(_, rest)| rest.starts_with(|c: char| c.is_ascii_digit()));
    versioned || [".so", ".dylib", ".tbd"].iter().any(|end| lower.ends_with(end))
}

/// Whether an argument changes the meaning of the following ones. A link line with such an argument must not be reordered.
fn is_positional(text: &str) -> bool {
    ["archive", "start-group", "end-group", "-Bstatic", "-Bdynamic", "push-state", "pop-state"]
        .iter()
        .any(|word| text.contains(word))
}

/// Removes redundant repetitions. Repeated static libraries are kept: CMake repeats them when they depend on each other.
fn without_repeats(items: Vec<LinkItem>) -> Vec<LinkItem> {
    if items.iter().any(|item| matches!(item, LinkItem::Argument { text } if is_positional(text))) {
        return items;
    }
    let mut kept: Vec<LinkItem> = Vec::with_capacity(items.len());
    for (index, item) in items.iter().enumerate() {
        let repeated = match item {
            LinkItem::Static { .. } => kept.last() == Some(item),
            // A shared library must follow every item that needs it, so the last occurrence is kept.
            LinkItem::System { .. } | LinkItem::Shared { .. } => items[index + 1..].contains(item),
            LinkItem::Framework { .. } | LinkItem::Argument { .. } | LinkItem::Search { .. } => {
                kept.contains(item)
            }
        };
        if !repeated {
            kept.push(item.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::super::file_api::{CmakeToolchain, Fragment};
    use super::*;
    use gpubuild_plan::artifacts::Compiler;

    fn target(name: &str, kind: &str, artifact: &str) -> CmakeTarget {
        CmakeTarget {
            includes: Vec::new(),
            name: name.into(),
            kind: kind.into(),
            artifacts: vec![artifact.into()],
            link: Vec::new(),
            link_language: None,
            compile: Vec::new(),
            defines: Vec::new(),
        }
    }

    fn read(
        os: Os,
        build: &str,
        targets: Vec<CmakeTarget>,
        language: &str,
        fragments: &[(&str, &str)],
    ) -> Vec<String> {
        let rules = if os == Os::Windows { PathRules::Windows } else { PathRules::Unix };
        let build = HostPath::new(rules, build);
        let toolchain = CmakeToolchain {
            compiler: Compiler { id: "GNU".into(), version: "12".into(), path: "/usr/bin/c++".into() },
            implicit_includes: Vec::new(),
            implicit_libraries: ["stdc++", "m", "gcc_s", "gcc", "c"].map(String::from).to_vec(),
        };
        let reply = FileApiReply {
            targets,
            compilers: BTreeMap::from([("CXX".to_owned(), toolchain)]),
            ..FileApiReply::default()
        };
        let link =
            fragments.iter().map(|(role, text)| Fragment { fragment: (*text).into(), role: (*role).into() });
        let probe = CmakeTarget {
            link: link.collect(),
            link_language: Some(language.into()),
            compile: Vec::new(),
            ..target("p", "EXECUTABLE", "p")
        };
        link_items(FragmentContext { build: &build, os }, &reply, &probe).iter().map(show).collect()
    }

    fn show(item: &LinkItem) -> String {
        match item {
            LinkItem::Static { path } => format!("static {path}"),
            LinkItem::Shared { path } => format!("shared {path}"),
            LinkItem::System { name } => format!("system {name}"),
            LinkItem::Framework { name } => format!("framework {name}"),
            LinkItem::Argument { text } => format!("argument {text}"),
            LinkItem::Search { path } => format!("search {path}"),
        }
    }

    #[test]
    fn linux_link_line_is_converted() {
        // The fragments of a C and C++ project as reported by CMake 4.4.
        let fragments = [
            ("flags", "-O3 -DNDEBUG"),
            ("libraries", "-Wl,-rpath,/b"),
            ("libraries", "ggml/libggml.a"),
            ("libraries", "ggml/libggml-base.a"),
            ("libraries", "-lm"),
            ("libraries", "-ldl"),
            ("libraries", "/usr/lib/x86_64-linux-gnu/libvulkan.so"),
            ("libraries", "libsh.so.1.2.3"),
            ("libraries", "-lstdc++"),
            ("libraries", "-lm"),
        ];
        let targets = vec![target("sh", "SHARED_LIBRARY", "/b/libsh.so")];
        assert_eq!(
            read(Os::Linux, "/b", targets, "C", &fragments),
            [
                "static /b/ggml/libggml.a",
                "static /b/ggml/libggml-base.a",
                "system dl",
                "shared /usr/lib/x86_64-linux-gnu/libvulkan.so",
                "shared /b/libsh.so",
                "system stdc++",
                "system m",
            ]
        );
    }

    #[test]
    fn cxx_runtime_is_added_for_a_cxx_link_driver() {
        let lines = read(Os::Linux, "/b", Vec::new(), "CXX", &[("libraries", "liba.a")]);
        assert_eq!(lines, ["static /b/liba.a", "system stdc++", "system m"]);
    }

    #[test]
    fn cyclic_static_libraries_stay_repeated() {
        let fragments =
            [("libraries", "a.a"), ("libraries", "b.a"), ("libraries", "a.a"), ("libraries", "a.a")];
        let lines = read(Os::Linux, "/b", Vec::new(), "C", &fragments);
        assert_eq!(lines, ["static /b/a.a", "static /b/b.a", "static /b/a.a"]);
    }

    #[test]
    fn positional_arguments_prevent_reordering() {
        let fragments = [
            ("libraries", "-Wl,--push-state,--whole-archive a.a -Wl,--pop-state"),
            ("libraries", "-lm"),
            ("libraries", "b.a -lm"),
        ];
        let lines = read(Os::Linux, "/b", Vec::new(), "C", &fragments);
        assert_eq!(lines[1], "static /b/a.a");
        assert_eq!(lines[3..], ["system m", "static /b/b.a", "system m"]);
    }

    #[test]
    fn apple_frameworks_and_windows_libraries_are_recognised() {
        let fragments = [
            ("libraries", "-framework Metal"),
            ("libraries", "-Wl,-framework,Foundation"),
            ("libraries", "-framework Metal"),
            ("frameworkPath", "-F/Library/Frameworks"),
            ("libraries", "/opt/homebrew/lib/libomp.dylib"),
        ];
        assert_eq!(
            read(Os::Macos, "/b", Vec::new(), "C", &fragments),
            [
                "framework Metal",
                "framework Foundation",
                "argument -F/Library/Frameworks",
                "shared /opt/homebrew/lib/libomp.dylib",
            ]
        );
        let fragments = [
            ("flags", "/DWIN32 /INCREMENTAL:NO"),
            ("libraries", "src\\gk-cpu.lib"),
            ("libraries", "dll.lib"),
            ("libraryPath", "-LIBPATH:C:\\CUDA\\lib\\x64"),
            ("libraries", "\"C:\\Program Files\\Vulkan\\Lib\\vulkan-1.lib\""),
            ("libraries", "kernel32.lib user32.lib"),
        ];
        let targets = vec![
            target("dll", "SHARED_LIBRARY", "C:\\b\\dll.lib"),
            target("gk-cpu", "STATIC_LIBRARY", "C:\\b\\src\\gk-cpu.lib"),
        ];
        assert_eq!(
            read(Os::Windows, "C:\\b", targets, "C", &fragments),
            [
                "static C:\\b\\src\\gk-cpu.lib",
                "shared C:\\b\\dll.lib",
                "search C:\\CUDA\\lib\\x64",
                "shared C:\\Program Files\\Vulkan\\Lib\\vulkan-1.lib",
                "system kernel32",
                "system user32",
            ]
        );
    }

    #[test]
    fn quoting_is_removed() {
        for (text, words) in [
            (r#""/a b/libx.a" -lm"#, vec!["/a b/libx.a", "-lm"]),
            (r"/a\ b/libx.a", vec!["/a b/libx.a"]),
            (r#"'-Wl,-z,"x"'"#, vec![r#"-Wl,-z,"x""#]),
            (r#""\$ORIGIN""#, vec!["$ORIGIN"]),
            ("", vec![]),
            (r#"a "" b"#, vec!["a", "", "b"]),
        ] {
            assert_eq!(split(text, PathRules::Unix), words, "{text}");
        }
        assert_eq!(split(r#""C:\a b\x.lib" C:\c.lib"#, PathRules::Windows), [r"C:\a b\x.lib", r"C:\c.lib"]);
    }
}
