use gpubuild_detect::toolkit::Catalogue;
use gpubuild_plan::wheels::lock;

use super::*;
use crate::provision::kit;

fn kit() -> &'static ToolkitLayout {
    &kit::embedded().kits["cuda"]
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// Output of uv for a lock, with an additional file for an unsupported platform.
fn pylock(lock: &WheelLock, version: &str) -> String {
    let mut text = format!(
        "lock-version = \"1.0\"\ncreated-by = \"uv\"\n\n[[packages]]\nname = \"cuda-toolkit\"\nversion = \"{version}\"\n\
         wheels = [{{ url = \"https://index.example/a/cuda_toolkit-{version}-py2.py3-none-any.whl\", upload-time = 2026-07-16T10:13:01Z, hashes = {{ sha256 = \"{0}\" }} }}]\n",
        "0".repeat(64)
    );
    for wheel in lock.components.iter().flat_map(|component| &component.wheels) {
        writeln!(text, "\n[[packages]]\nname = \"{}\"\nversion = \"{}\"", wheel.package, wheel.version)
            .unwrap();
        writeln!(text, "marker = \"sys_platform == 'linux'\"\nwheels = [").unwrap();
        for file in wheel.files.iter().rev() {
            let PinnedFile { name, sha256, size } = file;
            writeln!(
                text,
                "    {{ url = \"https://index.example/b/{name}\", size = {size}, hashes = {{ sha256 = \"{sha256}\" }} }},"
            )
            .unwrap();
        }
        writeln!(text, "    {{ url = \"https://index.example/b/x-1-py3-none-macosx_11_0_arm64.whl\" }},\n]")
            .unwrap();
    }
    text
}

#[test]
fn embedded_locks_are_reproducible() {
    for known in lock::offered("cuda").into_values().filter(|lock| !lock.has_archives()) {
        let full_version =
            if known.release == version("13.0") { "13.0.3.0".to_owned() } else { known.version.to_string() };
        let made =
            super::lock(kit(), "cuda", &known.release, PinOrigin::default(), &pylock(known, &full_version))
                .unwrap();
        assert_eq!(&made, known);
        assert_eq!(&WheelLock::parse(&text(&made, kit())).unwrap(), known);
    }
}

#[test]
fn requirement_includes_all_components() {
    let catalogue = Catalogue::embedded();
    let cuda = catalogue.get("cuda");
    assert_eq!(
        requirement(kit(), "cuda", cuda, &version("13.2"), PinOrigin::default()).unwrap(),
        "cuda-toolkit[nvcc,nvvm,cccl,cudart,crt,cublas,nvrtc]==13.2.*"
    );
    let error = requirement(kit(), "cuda", cuda, &version("12.9"), PinOrigin::default()).unwrap_err();
    assert_eq!(error.id(), "toolkit.not-in-wheels");
    assert!(error.to_string().contains("contain no compiler"), "{error}");
    assert!(error.hint().is_some_and(|hint| hint.contains("`--manifest`")), "{error}");
}

#[test]
fn incomplete_lists_are_refused() {
    let known = lock::offered("cuda")[&version("13.0")];
    let complete = pylock(known, "13.0.3.0");
    let made =
        |list: &str| super::lock(kit(), "cuda", &known.release, PinOrigin::default(), list).unwrap_err();
    let error = made(&complete.replace("name = \"nvidia-nvvm\"", "name = \"other\""));
    assert_eq!(
        (error.id(), error.to_string().contains("nvidia-nvvm")),
        (id!("toolkit.lock-incomplete"), true)
    );
    let sum = &known.components[0].wheels[0].files[0].sha256;
    assert_eq!(made(&complete.replace(sum.as_str(), "12")).id(), "toolkit.lock-unreadable");
    assert_eq!(
        made(&complete.replace(&format!("sha256 = \"{sum}\""), "md5 = \"1\"")).id(),
        "toolkit.lock-incomplete"
    );
    assert_eq!(made(&complete.replace("13.0.3.0", "new")).id(), "toolkit.lock-incomplete");
    assert_eq!(made("").id(), "toolkit.lock-incomplete");
    assert_eq!(made("no list").id(), "toolkit.lock-unreadable");
}

#[test]
fn file_name_defaults_to_the_end_of_url_or_path() {
    let name =
        |text: &str| gpubuild_toml::from_str::<IndexWheel>(text).unwrap().file_name().map(str::to_owned);
    assert_eq!(name("url = 'https://h/x/a-1-any.whl?t=1#sha'").as_deref(), Some("a-1-any.whl"));
    assert_eq!(name("path = 'wheels/a.whl'").as_deref(), Some("a.whl"));
    assert_eq!(name("name = 'b.whl'\nurl = 'https://h/c.whl'").as_deref(), Some("b.whl"));
    assert_eq!(name("url = 'https://h/'"), None);
    assert_eq!(name(""), None);
}
