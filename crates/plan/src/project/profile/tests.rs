use super::*;

#[test]
fn built_in_profiles_are_valid_and_named_after_their_id() {
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        assert_eq!((profile.id.as_str(), profile.schema), (name, 1));
        for (backend, row) in &profile.backends {
            assert!(!row.option.is_empty() && !row.targets.is_empty(), "{name}: {backend}");
            assert!(row.shims.iter().all(|shim| shim.text().is_some()), "{name}: {backend}");
        }
    }
    assert_eq!(Profile::builtin("no-such"), None);
}

#[test]
fn llama_extends_ggml() {
    let llama = Profile::builtin("llama").unwrap();
    let names: Vec<String> = llama.targets.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["llama", "ggml", "ggml-base?"]);
    assert_eq!(llama.options["GGML_NATIVE"], "OFF");
    assert_eq!(llama.backends[&Backend::Rocm].option, "GGML_HIP");
    let diffusion = Profile::builtin("stable-diffusion").unwrap();
    assert_eq!(diffusion.backends[&Backend::Cuda].option, "SD_CUDA");
    assert_eq!(diffusion.backends[&Backend::Cuda].targets[0].to_string(), "ggml-cuda");
    assert_eq!(diffusion.backends[&Backend::Rocm].minimum, Some("6.1".parse().unwrap()));
    assert_eq!(diffusion.backends[&Backend::Opencl].options["GGML_OPENCL_EMBED_KERNELS"], "ON");
    assert_eq!(diffusion.switched_by("GGML_METAL"), Some("metal"));
    assert_eq!(diffusion.switched_by("SD_MUSA"), Some("musa"));
    assert_eq!(llama.switched_by("GGML_RPC"), Some("rpc"));
    assert_eq!(llama.switched_by("GGML_NATIVE"), None);
}

/// No name is both current and former, and every replacement is a current name.
#[test]
fn former_names_map_to_current_names() {
    for name in Profile::names() {
        let profile = Profile::builtin(name).unwrap();
        for (old, new) in &profile.renamed {
            assert!(!profile.renamed.contains_key(new), "{name}: {old} -> {new} is renamed again");
            assert!(!profile.removed.contains_key(new), "{name}: {old} -> {new} is removed");
            assert!(!profile.options.contains_key(old), "{name}: former name {old} is set");
            assert_eq!(profile.switched_by(old), None, "{name}: former name {old} enables a backend");
        }
        for (old, gone) in &profile.removed {
            let set = profile.options.contains_key(old);
            assert!(!set || gone.harmless, "{name}: removed option {old} is set");
        }
    }
}

/// With an unknown toolkit id, a backend would silently be built with its default toolkit.
#[test]
fn toolkits_of_backends_are_described() {
    let catalogue = gpubuild_detect::toolkit::Catalogue::embedded();
    let mut named = 0;
    for name in Profile::names() {
        for row in Profile::builtin(name).unwrap().backends.values() {
            let Some(id) = &row.toolkit else { continue };
            assert!(catalogue.get(id).is_some(), "{name}: toolkit `{id}` does not exist");
            named += 1;
        }
    }
    assert!(named > 0);
}

#[test]
fn ggml_profile_has_every_backend() {
    let ggml = Profile::builtin("ggml").unwrap();
    assert_eq!(ggml.backends.len(), Backend::ALL.len());
    let extra: Vec<&str> = ggml.extra.keys().map(String::as_str).collect();
    assert_eq!(
        extra,
        [
            "blas", "cann", "et", "hexagon", "kompute", "musa", "openvino", "rpc", "virtgpu", "webgpu",
            "zdnn", "zendnn"
        ]
    );
    for (id, extra) in &ggml.extra {
        assert_eq!(extra.removed.is_some(), extra.targets.is_empty(), "{id}");
    }
}

#[test]
fn conflicts_are_symmetric_and_respect_exceptions() {
    let ggml = Profile::builtin("ggml").unwrap();
    let clash = |a, b| ggml.conflict.iter().any(|rule| rule.holds(a, b, Os::Linux));
    assert!(clash(Backend::Cuda, Backend::Rocm) && clash(Backend::Rocm, Backend::Cuda));
    assert!(clash(Backend::Sycl, Backend::Vulkan) && !clash(Backend::Sycl, Backend::Cpu));
    assert!(!clash(Backend::Cuda, Backend::Vulkan));
}
