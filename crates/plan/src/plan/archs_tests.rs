use super::*;

#[test]
fn project_can_require_a_suffix() {
    let rule = ArchSuffix { from: 120, to: 129, suffix: 'a' };
    let list = parse_cuda_list("90-virtual;120;121-real;120f-real").unwrap();
    let (list, changed) = with_suffix(list, Some(&rule));
    assert_eq!(gpubuild_core::arch::cmake_list(&list), "90-virtual;120a;120f-real;121a-real");
    assert_eq!(changed.as_deref(), Some("120a for 120, 121a-real for 121-real"));
}
use gpubuild_core::arch::cmake_list;
use gpubuild_detect::toolkit::range::Basis;

fn selection(text: &str) -> ArchSelection {
    ArchSelection { text: text.to_owned(), origin: "test".to_owned() }
}

fn cuda_12_4() -> CudaRange {
    CudaRange {
        basis: Basis::Complete,
        numbers: vec![50, 52, 60, 61, 70, 75, 80, 86, 87, 89, 90],
        toolkit: "CUDA 12.4".to_owned(),
    }
}

fn planned(text: &str, devices: &[&str]) -> Result<String, DiagnosticId> {
    let devices: Vec<CudaArch> = devices.iter().map(|d| d.parse().unwrap()).collect();
    let default = parse_cuda_list("75-real 80-real 90-real 90-virtual 120-real").unwrap();
    cuda(&selection(text), &devices, &cuda_12_4(), &default).map(|p| cmake_list(&p.list)).map_err(|r| r.id)
}

#[test]
fn devices_get_machine_code_and_one_ptx() {
    assert_eq!(planned("auto", &["sm_90"]).unwrap(), "90-real;90-virtual");
    assert_eq!(planned("native", &["sm_86", "sm_75"]).unwrap(), "75-real;86-real;86-virtual");
    assert_eq!(planned("auto", &["sm_120"]).unwrap(), "90-virtual");
}

#[test]
fn without_a_device_auto_is_for_distribution_and_native_is_refused() {
    assert_eq!(planned("auto", &[]).unwrap(), "75-real;80-real;90-real;90-virtual");
    assert_eq!(planned("native", &[]).unwrap_err(), "cuda.arch.native-no-gpu");
}

#[test]
fn unsupported_architectures_are_refused_if_requested_and_noted_in_auto() {
    assert_eq!(planned("120", &[]).unwrap_err(), "cuda.arch.too-new-for-toolkit");
    assert_eq!(planned("35", &[]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
    assert_eq!(planned("auto", &["sm_35"]).unwrap_err(), "cuda.arch.dropped-by-toolkit");
    assert_eq!(planned("auto", &["sm_35", "sm_80"]).unwrap(), "80-real;80-virtual");
    assert_eq!(planned("80;90a", &["sm_75"]).unwrap(), "80;90a");
    assert_eq!(planned("fast", &[]).unwrap_err(), "cuda.arch.invalid");
}

#[test]
fn renamed_architectures_use_the_number_of_the_toolkit() {
    let range = CudaRange {
        basis: Basis::Complete,
        numbers: vec![90, 100, 101, 120, 121],
        toolkit: "CUDA 12.9".to_owned(),
    };
    let thor: Vec<CudaArch> = vec![CudaArch::new(110)];
    for text in ["auto", "native"] {
        let plan = cuda(&selection(text), &thor, &range, &[]).unwrap();
        assert_eq!(cmake_list(&plan.list), "101-real;101-virtual");
        assert_eq!(plan.notes, ["sm_110 is named sm_101 in CUDA 12.9"]);
    }
    let refused = cuda(&selection("90;110"), &thor, &range, &[]).unwrap_err();
    assert_eq!(refused.id, "cuda.arch.too-new-for-toolkit");
    assert!(refused.hint.unwrap().starts_with("use `101`, its number in this toolkit"));
}

#[test]
fn architectures_beyond_the_table_are_built_with_a_warning() {
    let range = CudaRange { basis: Basis::Open { dropped: vec![37] }, ..cuda_12_4() };
    let check = |text: &str, devices: &[&str]| {
        let devices: Vec<CudaArch> = devices.iter().map(|device| device.parse().unwrap()).collect();
        let plan = cuda(&selection(text), &devices, &range, &[]).unwrap();
        let warnings: Vec<String> = plan.warnings.iter().map(Reason::line).collect();
        (cmake_list(&plan.list), warnings.join("\n"), plan.notes.len())
    };
    let warning = "it is not known whether CUDA 12.4 supports sm_130 (test); `nvcc --list-gpu-arch` lists the supported ones [cuda.arch.not-in-table]";
    assert_eq!(check("90;130", &[]), ("90;130".to_owned(), warning.to_owned(), 0));
    assert_eq!(check("90", &[]), ("90".to_owned(), String::new(), 0));
    // `auto` must not select an architecture that may fail the build.
    assert_eq!(check("auto", &["sm_130"]), ("90-virtual".to_owned(), String::new(), 1));
    assert_eq!(check("native", &["sm_130"]), ("130-real;130-virtual".to_owned(), warning.to_owned(), 0));
    for gone in ["35", "37"] {
        assert_eq!(cuda(&selection(gone), &[], &range, &[]).unwrap_err().id, "cuda.arch.dropped-by-toolkit");
    }
}

#[test]
fn all_and_all_major_are_expanded() {
    assert!(planned("all", &[]).unwrap().ends_with("89-real;90-real;90-virtual"));
    assert_eq!(planned("all-major", &[]).unwrap(), "50-real;60-real;70-real;80-real;90-real;90-virtual");
}

fn project(profile: &str, archs: &str) -> ProjectFile {
    let text =
        format!("schema = 1\n[project]\nname = \"x\"\nsource = \".\"\nprofile = \"{profile}\"\n{archs}");
    gpubuild_toml::from_str(&text).unwrap()
}

/// Text and origin of the selection.
fn selected(backend: Backend, env: &[(&str, &str)], file: &ProjectFile) -> (String, String) {
    let env = Environment::new(gpubuild_host::Os::Linux, env.iter().copied());
    let selection = match backend {
        Backend::Rocm => ArchSelection::rocm(&env, Some(file)),
        _ => ArchSelection::cuda(None, &env, Some(file)),
    };
    (selection.text, selection.origin)
}

#[test]
fn variables_have_precedence_over_the_file_and_the_one_of_the_profile_over_others() {
    let lists = "[backends.cuda]\narchs = [\"90\"]\n[backends.rocm]\narchs = [\"gfx90a\"]\n";
    let (torch, llama) = (project("torch-extension", lists), project("llama", lists));
    let own = ("TORCH_CUDA_ARCH_LIST", "8.0;8.6+PTX");
    let cmake = ("CUDAARCHS", "75");
    let cuda = |env: &[(&str, &str)], file: &ProjectFile| selected(Backend::Cuda, env, file);
    let pair = |text: &str, origin: &str| (text.to_owned(), origin.to_owned());
    let of_torch = pair("80-real;86", "TORCH_CUDA_ARCH_LIST=8.0;8.6+PTX");
    assert_eq!(cuda(&[own, cmake], &torch), of_torch);
    assert_eq!(cuda(&[own, cmake], &llama), pair("75", "CUDAARCHS=75"));
    assert_eq!(cuda(&[own], &llama), pair("90", "gpubuild.toml"));
    assert_eq!(cuda(&[cmake], &torch), pair("75", "CUDAARCHS=75"));
    assert_eq!(cuda(&[("TORCH_CUDA_ARCH_LIST", "")], &torch), pair("90", "gpubuild.toml"));
    let env = Environment::new(gpubuild_host::Os::Linux, [own]);
    let flag = ArchSelection::cuda(Some("89"), &env, Some(&torch));
    assert_eq!((flag.text.as_str(), flag.origin.as_str()), ("89", "--cuda-archs 89"));
    assert_eq!(flag.note(None), None);
    let rocm = [("PYTORCH_ROCM_ARCH", "gfx942"), ("AMDGPU_TARGETS", "gfx1100")];
    assert_eq!(selected(Backend::Rocm, &rocm, &torch), pair("gfx942", "PYTORCH_ROCM_ARCH=gfx942"));
    assert_eq!(selected(Backend::Rocm, &rocm, &llama), pair("gfx1100", "AMDGPU_TARGETS=gfx1100"));
    assert_eq!(selected(Backend::Rocm, &[], &torch), pair("gfx90a", "gpubuild.toml"));
}

#[test]
fn wrong_words_of_a_pytorch_list_are_reported_with_the_variable() {
    let env = Environment::new(gpubuild_host::Os::Linux, [("TORCH_CUDA_ARCH_LIST", "8.0;Amper")]);
    let selection = ArchSelection::cuda(None, &env, Some(&project("torch-extension", "")));
    let reason = cuda(&selection, &[], &cuda_12_4(), &[]).unwrap_err();
    assert_eq!(reason.id, "cuda.arch.invalid");
    assert!(reason.text.starts_with("`Amper` is not"), "{}", reason.text);
    assert!(reason.text.ends_with("(TORCH_CUDA_ARCH_LIST=8.0;Amper)"), "{}", reason.text);
}

#[test]
fn rocm_lists_are_validated() {
    let default = ["gfx1100".to_owned(), "gfx90a".to_owned()];
    assert_eq!(rocm(&selection("auto"), &[], &default).unwrap().list, default);
    assert_eq!(
        rocm(&selection("gfx90a:xnack+;gfx942"), &[], &default).unwrap().list,
        ["gfx90a:xnack+", "gfx942"]
    );
    assert_eq!(rocm(&selection("rdna3"), &[], &default).unwrap_err().id, "rocm.arch.invalid");
    assert_eq!(rocm(&selection("native"), &[], &default).unwrap_err().id, "rocm.arch.native-no-gpu");
}
