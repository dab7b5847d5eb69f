//! `gpubuild pack`: releases that run on other machines, are reproducible, and are never written partially.
#![cfg(target_os = "linux")]
#![expect(clippy::disallowed_methods, reason = "tests start the program and read its files")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::support::{RunResult, Sandbox, is_on_path, skip};

/// October 2096, so that the releases have not expired when a test installs them.
pub(crate) const EPOCH: &str = "4000000000";

/// A project whose program links a third-party library, which depends on another one.
pub(crate) fn project() -> Option<Sandbox> {
    if !is_on_path("zstd") && !is_on_path("tar") {
        skip("cmake", "no tar");
        return None;
    }
    let project = Sandbox::with_library()?;
    let table = project.read("gpubuild.toml")
        + "[binary]\npackage = \"app\"\nprofile = \"dev\"\n\
           [pack]\ncheck = [\"check\", \"{backend}\"]\ninclude = [\"data/*.txt\"]\n";
    project.write("gpubuild.toml", &table);
    project.write("data/words.txt", "words\n");
    project.write("LICENSE", "as you like\n");
    project.write("ext/deep.c", "int deep(int x) { return x + 1; }\n");
    project.write("ext/ext.c", "int deep(int); int ext(int x) { return deep(x) * 2; }\n");
    let folder = project.path("ext");
    let folder = folder.to_str().unwrap();
    library(&project, "deep.c", "libdeep.so.1", &[]);
    library(&project, "ext.c", "libext.so.2", &["ext/libdeep.so.1", &format!("-Wl,-rpath,{folder}")]);
    std::os::unix::fs::symlink("libext.so.2", project.path("ext/libext.so")).unwrap();
    project.write(
        "app/Cargo.toml",
        // What is packed is compressed at the highest level, so the program is small.
        "[package]\nname = \"app\"\nversion = \"0.3.1\"\nedition = \"2024\"\n[workspace]\n[profile.dev]\nstrip = true\n",
    );
    project.write(
        "app/build.rs",
        &format!(
            "fn main() {{\n    println!(\"cargo::rustc-link-search=native={folder}\");\n    \
             println!(\"cargo::rustc-link-lib=dylib=ext\");\n    \
             println!(\"cargo::rustc-link-arg=-Wl,-rpath,{folder},-rpath-link,{folder}\");\n}}\n"
        ),
    );
    program(&project, 42);
    Some(project)
}

/// A program that succeeds if the third-party libraries return this number.
pub(crate) fn program(project: &Sandbox, number: u32) {
    project.write(
        "app/src/main.rs",
        &format!(
            "unsafe extern \"C\" {{\n    fn ext(x: i32) -> i32;\n}}\nfn main() {{\n    \
             let number = unsafe {{ ext({number} / 2 - 1) }};\n    println!(\"{{number}}\");\n    \
             std::process::exit(i32::from(number != {number}));\n}}\n"
        ),
    );
}

fn library(project: &Sandbox, source: &str, name: &str, more: &[&str]) {
    let (source, output, soname) =
        (format!("ext/{source}"), format!("ext/{name}"), format!("-Wl,-soname,{name}"));
    let mut argv = vec!["cc", "-shared", "-fPIC", "-o", &output, &soname, &source];
    argv.extend(more);
    project.start(&argv).succeeds();
}

pub(crate) fn pack(project: &Sandbox, arguments: &[&str]) -> RunResult {
    let all = [&["pack", "--offline"], arguments].concat();
    RunResult::from(project.command().env("SOURCE_DATE_EPOCH", EPOCH).args(all).output().unwrap())
}

fn manifest(project: &Sandbox, folder: &str) -> Value {
    serde_json::from_str(&project.read(&format!("{folder}/manifest.json"))).unwrap()
}

fn variants(manifest: &Value) -> Vec<&Value> {
    let platforms = manifest["platforms"].as_object().unwrap();
    platforms.values().flat_map(|platform| platform["variants"].as_array().unwrap()).collect()
}

pub(crate) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

/// All files of a folder with their SHA-256 sums.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, String> {
    let entries = walkdir::WalkDir::new(folder).into_iter().map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    let hash = |path: &Path| sha256(&std::fs::read(path).unwrap());
    files.map(|entry| (entry.path().strip_prefix(folder).unwrap().to_owned(), hash(entry.path()))).collect()
}

/// Unpacks a variant without gpubuild.
fn unpacked(project: &Sandbox, release: &str, label: &str) -> PathBuf {
    let manifest = manifest(project, release);
    let variant = variants(&manifest).into_iter().find(|variant| variant["label"] == label).unwrap().clone();
    let target = project.path(&format!("unpacked-{label}"));
    std::fs::create_dir_all(&target).unwrap();
    for layer in variant["layers"].as_array().unwrap() {
        let blob = project.path(&format!("{release}/blobs/sha256/{}", layer["sha256"].as_str().unwrap()));
        let bytes = std::fs::read(&blob).unwrap();
        assert_eq!(bytes.len() as u64, layer["size"].as_u64().unwrap());
        let mut archive = tar::Archive::new(zstd::Decoder::new(&bytes[..]).unwrap());
        archive.unpack(&target).unwrap();
    }
    target
}

#[test]
fn packed_program_runs_without_its_build_environment() {
    let Some(project) = project() else { return };
    let ran = pack(&project, &["--out", "release", "--json"]);
    let document = ran.succeeds().json();
    assert_eq!(document["schema"]["name"], "pack");
    let one = &document["variants"][0];
    assert_eq!((&one["label"], &one["left"]), (&"cpu".into(), &serde_json::json!(["libgcc_s.so.1"])));
    // Libraries outside packages have no known licence.
    ran.says(&["no licence of `libdeep.so.1`", "no licence of `libext.so.2`"]);

    let manifest = manifest(&project, "release");
    assert_eq!((&manifest["name"], &manifest["version"]), (&"adder".into(), &"0.3.1".into()));
    let variant = variants(&manifest)[0];
    assert_eq!(variant["start"], serde_json::json!({"program": "bin/app", "check": ["check", "{backend}"]}));
    assert_eq!(variant["libc"]["family"], "glibc");

    let target = unpacked(&project, "release", "cpu");
    std::fs::remove_dir_all(project.path("ext")).unwrap();
    let found: Vec<_> = files(&target).into_keys().collect();
    let names: Vec<_> = found.iter().map(|path| path.to_str().unwrap()).collect();
    assert_eq!(
        names,
        [
            "bin/app",
            "lib/libdeep.so.1",
            "lib/libext.so.2",
            "share/adder/data/words.txt",
            "share/licences/adder/LICENSE",
            "share/licences/crates.txt",
            "share/sbom.cdx.json"
        ]
    );
    let program = target.join("bin/app");
    let output = Command::new(&program).env("LD_LIBRARY_PATH", "/nowhere").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "42\n", "{output:?}");
    // The libraries have no package, so only their hashes are known.
    let bill: serde_json::Value =
        serde_json::from_slice(&std::fs::read(target.join("share/sbom.cdx.json")).unwrap()).unwrap();
    let components = bill["components"].as_array().unwrap();
    let names: Vec<_> = components.iter().filter_map(|one| one["name"].as_str()).collect();
    assert!(names.ends_with(&["lib/libdeep.so.1", "lib/libext.so.2"]), "{names:?}");
    let built = &bill["metadata"]["component"]["components"][0];
    for file in components[components.len() - 2..].iter().chain([built]) {
        let packed = std::fs::read(target.join(file["name"].as_str().unwrap())).unwrap();
        assert_eq!(file["hashes"][0]["content"], sha256(&packed), "{file}");
    }
    // `install` reads the packed release.
    let ran = project.run(&["install", "--manifest", "release", "--to", "installed", "--json"]);
    let installed = ran.succeeds().json();
    assert_eq!((&installed["label"], &installed["proof"]), (&"cpu".into(), &"checked".into()));
    let current = files(&project.path("installed/current/"));
    assert_eq!(current, files(&target));
    let text = std::fs::read(&program).unwrap();
    let folder = project.path("ext");
    let rest = folder.to_str().unwrap().as_bytes();
    assert!(
        !dynamic_strings(&text).windows(rest.len()).any(|window| window == rest),
        "a folder of the build machine"
    );
    // The built file is unchanged.
    let built = std::fs::read(project.path("app/target/debug/app")).unwrap();
    assert!(dynamic_strings(&built).windows(rest.len()).any(|window| window == rest));
}

/// The strings that the loader reads.
fn dynamic_strings(file: &[u8]) -> Vec<u8> {
    use object::{Object, ObjectSection};
    let file = object::File::parse(file).unwrap();
    file.section_by_name(".dynstr").unwrap().data().unwrap().to_vec()
}

#[test]
fn packing_is_reproducible() {
    let Some(project) = project() else { return };
    pack(&project, &["--out", "one"]).succeeds();
    project.run(&["clean"]).succeeds();
    std::fs::remove_dir_all(project.path("app/target")).unwrap();
    pack(&project, &["--out", "two"]).succeeds();
    let (one, two) = (files(&project.path("one")), files(&project.path("two")));
    assert!(one.len() > 10);
    assert_eq!(one, two);
    // Packing into the same folder again changes nothing, not even the serial.
    let again = pack(&project, &["--out", "one", "--json"]).succeeds().json();
    assert_eq!(files(&project.path("one")), two);
    assert_eq!(again["variants"][0]["added"], 0);
    // `resolve` trusts the manifest once it is signed.
    let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
    project.write("secret.key", &pair.sk.to_box(None).unwrap().into_string());
    let key = pair.pk.to_base64();
    pack(&project, &["--out", "one", "--sign", "secret.key"]).succeeds();
    project.run(&["resolve", "--manifest", "one", "--key", &key]).succeeds();
    project.run(&["resolve", "--manifest", "two", "--key", &key]).fails(1, "manifest.unsigned");
    // An OCI layout: every referenced blob exists with its hash.
    let read = |name: &str| -> Value {
        let path = project.path("one/blobs/sha256").join(name);
        serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
    };
    let index: Value = serde_json::from_str(&project.read("one/index.json")).unwrap();
    let digest =
        index["manifests"][0]["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
    let image = read(&digest);
    let layers = image["layers"].as_array().unwrap();
    for blob in layers.iter().chain([&image["config"], &index["manifests"][0]]) {
        let name = blob["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = std::fs::read(project.path("one/blobs/sha256").join(name)).unwrap();
        assert_eq!(bytes.len() as u64, blob["size"].as_u64().unwrap());
        assert_eq!(sha256(&bytes), name);
    }
    assert_eq!(layers[0]["annotations"]["org.opencontainers.image.title"], "manifest.json");
    assert_eq!(layers[1]["annotations"]["org.opencontainers.image.title"], "manifest.json.minisig");
}

#[test]
fn manifest_contains_the_preference_of_the_project() {
    let Some(project) = project() else { return };
    let table = project.read("gpubuild.toml");
    let set = |value: &str| {
        let table = table.replace("[pack]\n", &format!("[pack]\nprefer = {value}\n"));
        project.write("gpubuild.toml", &table);
        pack(&project, &["--out", "release"])
    };
    let prefer = || {
        let manifest = manifest(&project, "release");
        let platforms = manifest["platforms"].as_object().unwrap();
        (platforms.values().next().unwrap()["prefer"].clone(), manifest["serial"].as_u64().unwrap())
    };
    let ran = set("[\"vulkan\"]");
    ran.succeeds();
    assert_eq!(prefer(), (serde_json::json!(["vulkan"]), 1));
    let warning = "`prefer` in [pack] lists vulkan, but no variant contains it";
    assert!(ran.stderr.contains(warning), "{}", ran.stderr);
    // A changed preference is a new manifest, and an empty one is not written.
    set("[]").succeeds();
    assert_eq!(prefer(), (Value::Null, 2));
    let ran = set("[\"vulkan\", \"cpu\"]");
    assert_eq!(ran.exit, Some(2), "{ran:#?}");
    assert!(ran.stderr.contains("`cpu` cannot be preferred"), "{}", ran.stderr);
}

#[test]
fn variants_share_layers() {
    let Some(project) = project() else { return };
    // Artifacts beside the program are shared too.
    let table = project.read("gpubuild.toml");
    project.write("gpubuild.toml", &table.replace("[binary]", "linkage = \"shared\"\n[binary]"));
    let sources = project.read("vendor/CMakeLists.txt");
    project.write("vendor/CMakeLists.txt", &sources.replace("adder STATIC", "adder SHARED"));
    pack(&project, &["--out", "release", "--label", "first"]).succeeds();
    program(&project, 46);
    let second = pack(&project, &["--out", "release", "--label", "second", "--json"]).succeeds().json();
    let layers = second["variants"][0]["layers"].as_array().unwrap();
    let new: Vec<&Value> =
        layers.iter().filter(|layer| layer["shared"] == false).map(|layer| &layer["part"]).collect();
    assert_eq!(new, ["program", "sbom"], "{second:#}");
    assert!(layers.iter().any(|layer| layer["part"]["built"] == "bin/libadder.so"), "{second:#}");
    let manifest = manifest(&project, "release");
    assert_eq!((variants(&manifest).len(), manifest["serial"].as_u64()), (2, Some(2)));
    // The default is the variant with the fewest requirements; of two equal ones, the smaller.
    let size = |variant: &&&Value| -> u64 {
        let layers = variant["layers"].as_array().unwrap();
        layers.iter().map(|layer| layer["size"].as_u64().unwrap()).sum()
    };
    let smallest = variants(&manifest).iter().min_by_key(size).unwrap()["label"].clone();
    assert_eq!(manifest["platforms"].as_object().unwrap().values().next().unwrap()["default"], smallest);

    // Several machines pack one variant each, and one machine merges them into a release.
    pack(&project, &["--out", "alone", "--label", "third"]).succeeds();
    let merged = pack(&project, &["--out", "all", "--from", "release", "--from", "alone", "--json"]);
    assert_eq!(merged.succeeds().json()["manifest"]["serial"], 1);
    let manifest = self::manifest(&project, "all");
    let labels: Vec<&Value> = variants(&manifest).into_iter().map(|variant| &variant["label"]).collect();
    assert_eq!(labels, ["first", "second", "third"]);
    // The state after a kill on a disk without atomic exchange: nothing is lost.
    std::fs::rename(project.path("all"), project.path(".all.gpubuild-old")).unwrap();
    pack(&project, &["--out", "all", "--from", "alone", "--serial", "7"]).succeeds();
    assert_eq!(variants(&self::manifest(&project, "all")).len(), 3);
    assert!(!project.exists(".all.gpubuild-old"));
    pack(&project, &["--out", "all", "--from", "alone", "--serial", "6"]).fails(1, "pack.serial");
    let last = u64::MAX.to_string();
    pack(&project, &["--out", "last", "--from", "alone", "--serial", &last]).succeeds();
    pack(&project, &["--out", "last", "--from", "alone", "--expires", "9"]).fails(1, "pack.serial");
    // Merging again changes nothing; different content with the same serial would not be trusted.
    pack(&project, &["--out", "all", "--from", "alone", "--serial", "7"]).succeeds();
    pack(&project, &["--out", "all", "--from", "alone", "--serial", "7", "--expires", "9"])
        .fails(1, "pack.serial");
    assert_eq!(self::manifest(&project, "all")["serial"], 7);

    // A blob whose content does not match its name is not published.
    let blob = files(&project.path("alone/blobs")).into_keys().next().unwrap();
    let place = project.path("alone/blobs").join(&blob);
    let before = files(&project.path("all"));
    let bytes = std::fs::read(&place).unwrap();
    for (bad, what) in [
        (bytes[1..].to_vec(), "bytes, but its variant declares"),
        (flipped(&bytes), "does not match the sha256 in its name"),
    ] {
        for name in files(&project.path("alone/blobs")).into_keys() {
            let place = project.path("alone/blobs").join(name);
            let own = std::fs::read(&place).unwrap();
            std::fs::write(&place, if bad.len() < bytes.len() { own[1..].to_vec() } else { flipped(&own) })
                .unwrap();
        }
        pack(&project, &["--out", "new", "--from", "alone"]).fails(1, "pack.release-damaged").says(&[what]);
        for name in files(&project.path("alone/blobs")).into_keys() {
            std::fs::remove_file(project.path("alone/blobs").join(name)).unwrap();
        }
        std::fs::remove_dir_all(project.path("alone")).unwrap();
        pack(&project, &["--out", "alone", "--label", "third"]).succeeds();
        assert!(!project.exists("new"), "nothing partial is left");
    }
    assert_eq!(files(&project.path("all")), before);
}

fn flipped(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(last) = bytes.last_mut() {
        *last ^= 1;
    }
    bytes
}

#[test]
fn programs_that_would_not_start_elsewhere_are_not_packed() {
    let Some(project) = project() else { return };
    project.write("public/index.html", "<p>mine</p>");
    pack(&project, &["--out", "public"]).fails(1, "pack.out-foreign").says(&["index.html"]);
    assert!(!project.exists("app/target"), "the error precedes the build");
    pack(&project, &["--out", "release", "--label", "Not A Label"]).fails(2, "pack.label");
    project.write("secret.key", "nonsense");
    pack(&project, &["--out", "release", "--sign", "secret.key"]).fails(1, "pack.key-invalid");
    let pair = minisign::KeyPair::generate_encrypted_keypair(Some("word".to_owned())).unwrap();
    project.write("secret.key", &pair.sk.to_box(None).unwrap().into_string());
    pack(&project, &["--out", "release", "--sign", "secret.key"]).fails(1, "pack.key-locked");

    // A library that was deleted after the build.
    std::fs::rename(project.path("ext/libdeep.so.1"), project.path("ext/away")).unwrap();
    pack(&project, &["--out", "release"])
        .fails(1, "pack.library-missing")
        .says(&["libdeep.so.1", "libext.so.2"]);
    let table = project.read("gpubuild.toml");
    project.write("gpubuild.toml", &table.replace("[pack]\n", "[pack]\nleave = [\"libdeep.*\"]\n"));
    let left = pack(&project, &["--out", "left", "--json"]).succeeds().json();
    assert_eq!(left["variants"][0]["left"][0], "libdeep.so.1");
    std::fs::rename(project.path("ext/away"), project.path("ext/libdeep.so.1")).unwrap();
    // A program that uses no packed library and has no search path is packed unchanged.
    let script = project.read("app/build.rs");
    project.write("app/build.rs", &script.replace("-Wl,-rpath,", "-Wl,-rpath-link,"));
    project.write("gpubuild.toml", &table.replace("[pack]\n", "[pack]\nleave = [\"libext.*\"]\n"));
    pack(&project, &["--out", "plain"]).succeeds();
    let built = std::fs::read(project.path("app/target/debug/app")).unwrap();
    assert_eq!(std::fs::read(unpacked(&project, "plain", "cpu").join("bin/app")).unwrap(), built);
    project.write("app/build.rs", &script);

    project.write("gpubuild.toml", &table.replace("data/*.txt", "data/*.bin"));
    pack(&project, &["--out", "release"]).fails(1, "pack.no-match").says(&["data/*.bin"]);
    project.write("data/a:b.txt", "not on Windows\n");
    project.write("gpubuild.toml", &table);
    pack(&project, &["--out", "release"]).fails(1, "pack.name").says(&["data/a:b.txt"]);
    project.remove("data/a:b.txt");
    let native = "\n[project.options]\nCMAKE_C_FLAGS = \"-march=native\"\n";
    project.write("gpubuild.toml", &(table.clone() + native));
    pack(&project, &["--out", "release"]).fails(1, "pack.native").says(&["-march=native"]);
    project.write("gpubuild.toml", &table.replace("name = \"adder\"", "name = \"other\""));
    pack(&project, &["--out", "left"]).fails(1, "pack.mixed");
    assert!(!project.exists("release"), "failed calls leave nothing");
    let hidden = std::fs::read_dir(project.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(hidden.into_iter().all(|name| !name.to_string_lossy().contains("gpubuild-new")));
}

#[cfg(target_arch = "x86_64")]
#[test]
fn ci_jobs_pack_and_one_job_merges() {
    let Some(project) = project() else { return };
    let table = project.read("gpubuild.toml");
    let variants_of = "[[variants]]\nname = \"cpu\"\nbackends = [\"cpu\"]\nimages = [\"debian-12\"]\n\
                       [[variants]]\nname = \"plain\"\nbackends = [\"cpu\"]\nimages = [\"debian-12\"]\n";
    project.write("gpubuild.toml", &(table + variants_of));
    for row in ["cpu-debian-12", "plain-debian-12"] {
        project.run(&["ci", "run", row, "--pack"]).succeeds();
        // Simulates how the service moves files from job to job.
        std::fs::create_dir_all(project.path("packed")).unwrap();
        std::fs::rename(project.path("release"), project.path(&format!("packed/{row}"))).unwrap();
    }
    let (one, other) = ("packed/cpu-debian-12", "packed/plain-debian-12");
    pack(&project, &["--out", "release", "--from", one, "--from", other, "--serial", "7"]).succeeds();
    let manifest = manifest(&project, "release");
    assert_eq!(manifest["serial"], 7);
    let labels: Vec<_> = variants(&manifest).iter().map(|variant| variant["label"].clone()).collect();
    assert_eq!(labels, ["cpu", "plain"]);
}

/// The libraries of libc and the compiler that a program maps, including the loader.
fn libraries_of_the_system(program: &Path, own: &Path) -> Vec<PathBuf> {
    let output = Command::new("ldd").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let path = |line: &str| line.split_whitespace().find(|word| word.starts_with('/')).map(PathBuf::from);
    text.lines().filter_map(path).filter(|path| !path.starts_with(own)).collect()
}

#[test]
fn installed_variant_starts_in_an_empty_chroot() {
    let Some(project) = project() else { return };
    pack(&project, &["--out", "release"]).succeeds();
    let installed = project.run(&["install", "--manifest", "release", "--to", "root/opt/adder", "--json"]);
    let document = installed.succeeds().json();
    assert_eq!((&document["label"], &document["proof"]), (&"cpu".into(), &"checked".into()), "{document:#}");
    std::fs::remove_dir_all(project.path("ext")).unwrap();
    let program = project.path("root/opt/adder/current/bin/app");
    for library in libraries_of_the_system(&program, &project.path("root")) {
        let inside = project.path("root").join(library.strip_prefix("/").unwrap());
        std::fs::create_dir_all(inside.parent().unwrap()).unwrap();
        std::fs::copy(&library, inside).unwrap();
    }
    let root = project.path("root");
    // glibc reads the path of the program from /proc, which containers have.
    std::fs::create_dir_all(root.join("proc")).unwrap();
    let script = "mount --rbind /proc \"$0/proc\" && exec chroot \"$0\" /opt/adder/current/bin/app";
    let ways: [&[&str]; 2] = [&["--mount"], &["--mount", "--user", "--map-root-user"]];
    let start = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).args(["sh", "-c", script]).arg(&root).env_remove("LD_LIBRARY_PATH");
        command.output().ok()
    };
    let said: Vec<_> = ways.into_iter().filter_map(start).collect();
    if said.iter().all(|output| String::from_utf8_lossy(&output.stderr).contains("ermitted")) {
        skip("chroot", "no permission to change the root");
        return;
    }
    let works = said.iter().any(|output| output.status.success() && output.stdout == b"42\n");
    assert!(works, "{said:#?}");
}
