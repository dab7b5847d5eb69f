use super::*;

fn variant(text: &str) -> ReleaseVariant {
    serde_json::from_str(text).unwrap()
}

fn lines(text: &str) -> Vec<String> {
    let catalogue = Catalogue::embedded();
    VariantProperties::of(&variant(text), &backend_order(&[]), &catalogue).lines()
}

/// The properties of providers, without those that order variants.
fn required(text: &str) -> Vec<String> {
    lines(text).into_iter().filter(|line| !line.starts_with(ORDER)).collect()
}

fn cuda(release: &str, driver: &str, real: &str, ptx: &str) -> String {
    format!(
        r#"{{"label": "x", "backends": ["cpu", "cuda"], "layers": [],
           "cuda": {{"release": "{release}", "driver": "{driver}", "real": {real}, "ptx": {ptx}}}}}"#
    )
}

#[test]
fn variants_for_every_machine_have_no_properties() {
    assert!(lines(r#"{"label": "cpu", "backends": ["cpu"], "cpu": "x86-64-v1", "layers": []}"#).is_empty());
    assert!(lines(r#"{"label": "cpu", "backends": ["cpu"], "layers": []}"#).is_empty());
    assert_eq!(
        lines(r#"{"label": "cpu", "backends": ["cpu"], "cpu": "x86-64-v3", "layers": []}"#),
        ["x86_64 :: level :: v3"]
    );
}

#[test]
fn backends_have_the_properties_of_their_provider() {
    assert_eq!(
        lines(
            r#"{"label": "r", "backends": ["cpu", "rocm"], "portable": true, "layers": [],
               "rocm": {"gfx": ["gfx942", "gfx1100"]}}"#
        ),
        [
            "amd :: gfx_arch :: gfx1100",
            "amd :: gfx_arch :: gfx942",
            "gpubuild_order :: archs :: 2",
            "gpubuild_order :: backend :: rocm",
            "gpubuild_order :: backends :: 2",
            "gpubuild_order :: reach :: portable",
        ]
    );
    let other = |backend: &str| {
        required(&format!(r#"{{"label": "x", "backends": ["cpu", "{backend}"], "layers": []}}"#))
    };
    assert_eq!(other("vulkan"), ["gpubuild :: backend :: vulkan"]);
    assert_eq!(other("sycl"), ["gpubuild :: backend :: sycl"]);
    assert!(other("metal").is_empty());
    // The best backend decides.
    let both = r#"{"label": "x", "backends": ["cpu", "vulkan", "sycl"], "layers": []}"#;
    assert_eq!(required(both), ["gpubuild :: backend :: vulkan"]);
}

#[test]
fn cuda_code_requires_a_driver_and_a_gpu() {
    let expect = |release: &str, driver: &str, real: &str, ptx: &str, wanted: &[&str]| {
        assert_eq!(required(&cuda(release, driver, real, ptx)), wanted, "{release} {real} {ptx}");
    };
    let low = |release: &str| format!("nvidia :: cuda_version_lower_bound :: {release}");
    expect(
        "12.4",
        "525.60",
        r#"["86", "89"]"#,
        "[]",
        &[&low("12.0"), "nvidia :: sm_arch :: 86_real", "nvidia :: sm_arch :: 89_real"],
    );
    // PTX is for newer GPUs, whose drivers are newer than the code.
    expect(
        "12.6",
        "525.60",
        r#"["80", "90"]"#,
        r#"["90"]"#,
        &[
            &low("12.0"),
            "nvidia :: sm_arch :: 100_virtual",
            "nvidia :: sm_arch :: 110_virtual",
            "nvidia :: sm_arch :: 120_virtual",
            "nvidia :: sm_arch :: 80_real",
            "nvidia :: sm_arch :: 90_real",
        ],
    );
    // Without machine code, drivers have to compile PTX of this release.
    let only_ptx = required(&cuda("12.6", "525.60", "[]", r#"["80"]"#));
    assert_eq!(only_ptx[0], low("12.6"));
    assert!(only_ptx.contains(&"nvidia :: sm_arch :: 80_virtual".to_owned()), "{only_ptx:?}");
    assert!(only_ptx.contains(&"nvidia :: sm_arch :: 90_virtual".to_owned()), "{only_ptx:?}");
}

#[test]
fn code_for_one_gpu_is_not_offered_to_others() {
    let catalogue = Catalogue::embedded();
    let known = known_archs(catalogue.for_backend(Backend::Cuda).unwrap());
    let value = |arch: &str| real(&arch.parse().unwrap(), &known);
    assert_eq!((value("90a").as_str(), value("90").as_str()), ("90_real", "90_real"));
    // 100_real fits GPUs of 10.3 too, on which code for 100a does not run.
    assert_eq!((value("100a").as_str(), value("100f").as_str()), ("100a_real", "100_real"));
}

#[test]
fn documents_of_one_version_are_merged() {
    let order = backend_order(&[]);
    let catalogue = Catalogue::embedded();
    let of = |label: &str, text: &str| {
        let properties = VariantProperties::of(&variant(text), &order, &catalogue);
        document(&order, &BTreeMap::from([(label.to_owned(), properties)]))
    };
    let v3 = r#"{"label": "cpu", "backends": ["cpu"], "cpu": "x86-64-v3", "layers": []}"#;
    let vulkan = r#"{"label": "x", "backends": ["cpu", "vulkan"], "layers": []}"#;
    let mut both = of("v3", v3);
    merge(&mut both, &of("vulkan", vulkan).to_string()).unwrap();
    assert_eq!(both["variants"].as_object().unwrap().keys().collect::<Vec<_>>(), ["v3", "vulkan"]);
    let again = both.clone();
    merge(&mut both, &again.to_string()).unwrap();
    assert_eq!(both, again);
    let error = merge(&mut both, &of("v3", vulkan).to_string()).unwrap_err();
    assert_eq!(error, "the variant `v3` has other properties");
    let other = document(&backend_order(&[Backend::Vulkan]), &BTreeMap::new());
    assert_eq!(
        merge(&mut both, &other.to_string()).unwrap_err(),
        "`providers` differs from that of the new wheels"
    );
    let hostile = of("x\n::error::", vulkan).to_string();
    assert_eq!(merge(&mut both, &hostile).unwrap_err(), "`x\n::error::` is not a valid label");
    assert!(merge(&mut both, "no").is_err() && merge(&mut both, "{}").is_err());
}
