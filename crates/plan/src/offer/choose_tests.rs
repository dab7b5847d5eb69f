use gpubuild_detect::toolkit::Catalogue;
use gpubuild_host::{Arch, Os};

use super::*;

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// The machine and request of one table row.
#[derive(Default)]
struct OfferCase {
    asked: Option<&'static str>,
    driver: Option<&'static str>,
    driver_knows: Option<(&'static str, &'static str)>,
    archs: &'static [u16],
    gcc: &'static [&'static str],
    requirement: Option<&'static str>,
    libc: Option<(&'static str, &'static str)>,
    platform: Option<(Os, Arch)>,
}

fn offered() -> Vec<Offered> {
    let all = ["linux-aarch64", "linux-x86_64", "windows-x86_64"].map(str::to_owned).to_vec();
    vec![
        Offered { version: version("12.4.1"), platforms: all.clone() },
        Offered { version: version("12.9.1"), platforms: all.clone() },
        Offered { version: version("13.0.3"), platforms: all.clone() },
        Offered { version: version("13.5.0"), platforms: all },
    ]
}

fn select(case: &OfferCase) -> Result<ReleaseChoice, Vec<Objection>> {
    let catalogue = Catalogue::embedded();
    let compilers: Vec<HostCompiler> = case
        .gcc
        .iter()
        .map(|major| HostCompiler {
            family: "gcc".to_owned(),
            version: Some(version(major)),
            c: None,
            cxx: None,
        })
        .collect();
    let driver = case.driver.map(version);
    let (os, arch) = case.platform.unwrap_or((Os::Linux, Arch::X86_64));
    choose(&ReleaseInputs {
        description: catalogue.get("cuda").unwrap(),
        platform: Platform { os, arch },
        libc: case.libc.map(|(family, text)| (family.to_owned(), version(text))),
        offered: &offered(),
        asked: case.asked,
        driver: driver.as_ref(),
        driver_knows: case.driver_knows.map(|(text, who)| (version(text), who.to_owned())),
        archs: case.archs.iter().map(|number| (*number, "CUDAARCHS".to_owned())).collect(),
        compilers: &compilers,
        requirement: case.requirement,
    })
}

/// The selected release, or the ids of the objections.
fn outcome(case: &OfferCase) -> String {
    match select(case) {
        Ok(choice) => choice.release,
        Err(reasons) => reasons.iter().map(|one| one.id.as_str()).collect::<Vec<_>>().join(" "),
    }
}

#[test]
fn newest_suitable_release_is_selected() {
    let table: &[(&str, OfferCase)] = &[
        ("13.5", OfferCase::default()),
        // The driver limits the PTX that it can compile; a driver below the minimum is refused.
        ("13.0", OfferCase { driver: Some("580.65.06"), ..OfferCase::default() }),
        ("13.0", OfferCase { driver: Some("610.20"), ..OfferCase::default() }),
        ("12.9", OfferCase { driver: Some("575.57"), ..OfferCase::default() }),
        ("12.4", OfferCase { driver: Some("550.54"), ..OfferCase::default() }),
        // Older than every offered release of its major version: it runs their machine code.
        ("12.4", OfferCase { driver: Some("535.183"), archs: &[89], ..OfferCase::default() }),
        ("nv.driver.too-old", OfferCase { driver: Some("470.82"), ..OfferCase::default() }),
        (
            "13.5",
            OfferCase {
                driver: Some("620.1"),
                driver_knows: Some(("13.5", "driver")),
                ..OfferCase::default()
            },
        ),
        ("13.0", OfferCase { driver_knows: Some(("13.1", "CONDA_OVERRIDE_CUDA")), ..OfferCase::default() }),
        ("12.4", OfferCase { driver_knows: Some(("12.4", "CONDA_OVERRIDE_CUDA")), ..OfferCase::default() }),
        (
            "nv.ptx.too-new",
            OfferCase { driver_knows: Some(("11.8", "CONDA_OVERRIDE_CUDA")), ..OfferCase::default() },
        ),
        // Architectures.
        ("13.5", OfferCase { archs: &[75, 90, 120], ..OfferCase::default() }),
        ("13.5", OfferCase { archs: &[107], ..OfferCase::default() }),
        (
            "nv.ptx.too-new cuda.arch.too-new-for-toolkit cuda.arch.too-new-for-toolkit cuda.arch.too-new-for-toolkit",
            OfferCase { archs: &[107], driver: Some("580"), ..OfferCase::default() },
        ),
        ("12.9", OfferCase { archs: &[70, 90], ..OfferCase::default() }),
        ("12.4", OfferCase { archs: &[61], driver: Some("550.54"), ..OfferCase::default() }),
        ("cuda.arch.dropped-by-toolkit", OfferCase { archs: &[35], ..OfferCase::default() }),
        ("cuda.arch.too-new-for-toolkit", OfferCase { archs: &[999], ..OfferCase::default() }),
        // Host compilers: one that fits is enough.
        ("13.5", OfferCase { gcc: &["16"], ..OfferCase::default() }),
        ("13.5", OfferCase { gcc: &["17", "12"], ..OfferCase::default() }),
        ("cuda.host.gcc-too-new", OfferCase { gcc: &["17"], ..OfferCase::default() }),
        (
            "nv.ptx.too-new cuda.host.gcc-too-new cuda.host.gcc-too-new cuda.host.gcc-too-new",
            OfferCase { gcc: &["16"], driver: Some("580"), ..OfferCase::default() },
        ),
        // The project.
        ("13.0", OfferCase { requirement: Some(">=12.4, <13.1"), ..OfferCase::default() }),
        ("12.9", OfferCase { requirement: Some("<13"), ..OfferCase::default() }),
        ("toolkit.version-unmet", OfferCase { requirement: Some("<12"), ..OfferCase::default() }),
        // An explicit request overrides objections.
        ("13.5", OfferCase { asked: Some("13.5"), driver: Some("580"), ..OfferCase::default() }),
        ("13.0", OfferCase { asked: Some("13.0.3"), ..OfferCase::default() }),
        ("13.0", OfferCase { asked: Some("13"), driver: Some("580"), ..OfferCase::default() }),
        ("toolkit.unknown-release", OfferCase { asked: Some("12.5"), ..OfferCase::default() }),
        ("toolkit.unknown-release", OfferCase { asked: Some("13.1"), ..OfferCase::default() }),
        ("toolkit.unknown-release", OfferCase { asked: Some("new"), ..OfferCase::default() }),
        (
            "toolkit.no-wheels-here",
            OfferCase { platform: Some((Os::Macos, Arch::Aarch64)), ..OfferCase::default() },
        ),
    ];
    for (index, (expected, case)) in table.iter().enumerate() {
        let found = outcome(case);
        assert_eq!(found, *expected, "row {index}");
    }
}

#[test]
fn reasons_are_listed() {
    let choice =
        select(&OfferCase { driver: Some("580.65.06"), archs: &[90], ..OfferCase::default() }).unwrap();
    assert_eq!(
        choice.lines(),
        [
            "13.0: the newest suitable release: driver 580.65.06 supports up to 13.0; architectures sm_90",
            "not 13.5: driver 580.65.06 supports releases up to 13.0 and cannot compile PTX of 13.5 [nv.ptx.too-new]",
        ]
    );
    let json = serde_json::to_value(&choice).unwrap();
    assert_eq!(json["version"], "13.0.3");
    assert_eq!(json["passed_over"][0]["reasons"][0]["id"], "nv.ptx.too-new");
    assert!(json.get("against").is_none());
}

#[test]
fn requested_release_is_selected_and_objections_are_listed() {
    let choice =
        select(&OfferCase { asked: Some("13.5"), driver: Some("580"), ..OfferCase::default() }).unwrap();
    assert_eq!(choice.lines()[0], "13.5: requested explicitly");
    assert!(choice.lines()[1].ends_with("[nv.ptx.too-new]"), "{:?}", choice.lines());
}

#[test]
fn refusals_have_hints() {
    let refusal = |case: &OfferCase| select(case).unwrap_err().remove(0);
    let kepler = refusal(&OfferCase { archs: &[35], ..OfferCase::default() });
    assert_eq!(kepler.text, "sm_35 (CUDAARCHS) is not supported by 12.4, which supports sm_50 to sm_90");
    let hint = kepler.hint.unwrap();
    assert!(hint.contains("before 12.0") && hint.contains("12.4 is the oldest offered one"), "{hint}");
    let old = refusal(&OfferCase { driver: Some("470.82"), ..OfferCase::default() });
    assert!(old.text.contains("programs built with CUDA Toolkit 12.4 need driver 525"), "{}", old.text);
    let hint = old.hint.unwrap();
    assert!(hint.contains("525") && hint.contains("12.4 is the oldest offered release"), "{hint}");
    let between = refusal(&OfferCase { asked: Some("13.1"), ..OfferCase::default() });
    assert!(between.text.ends_with("offered: 12.4, 12.9, 13.0, 13.5"), "{}", between.text);
    assert_eq!(between.hint.unwrap(), "`gpubuild toolkit install cuda --lock FILE` uses your own lock");
}

#[test]
fn older_driver_gets_the_oldest_release_with_its_limit() {
    let choice =
        select(&OfferCase { driver: Some("535.183"), archs: &[89], ..OfferCase::default() }).unwrap();
    assert_eq!(choice.version, version("12.4.1"));
    assert_eq!(choice.against.len(), 1);
    assert_eq!(choice.against[0].id, "nv.ptx.too-new");
    assert!(choice.because.contains("supports up to 12.2 and runs machine code"), "{}", choice.because);
    let releases: Vec<&str> = choice.passed_over.iter().map(|one| one.release.as_str()).collect();
    assert_eq!(releases, ["13.5", "13.0", "12.9"]);
}
