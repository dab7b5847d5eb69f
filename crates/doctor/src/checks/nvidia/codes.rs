//! CUDA's error codes in the message of a failed probe: as a number, as a name, or as the text that the runtime has for it.

use gpubuild_detect::finding::{Evidence, EvidenceKind};
use gpubuild_host::{ProbeAnswer, ProbeStatus};

/// The error of a failed CUDA probe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::checks) struct CudaError {
    /// Error code, if the message contains one.
    pub(in crate::checks) code: Option<u32>,
    /// Newest CUDA release that the driver supports, in the driver's format (12040 is 12.4), if the message contains it.
    pub(in crate::checks) driver_version: Option<u64>,
    /// A function that the driver lacks.
    pub(in crate::checks) missing_function: Option<String>,
    /// The message.
    pub(in crate::checks) evidence: Evidence,
}

/// Code, name in the driver's enumeration, and a part of the text that NVIDIA's libraries print for it.
/// Source: `CUresult` in cuda.h, `cudaGetErrorString`.
const CODES: [(u32, &str, &str); 16] = [
    (3, "NOT_INITIALIZED", "initialization error"),
    (34, "STUB_LIBRARY", "stub library"),
    (35, "INSUFFICIENT_DRIVER", "driver version is insufficient"),
    (36, "CALL_REQUIRES_NEWER_DRIVER", "requires newer driver"),
    (46, "DEVICE_UNAVAILABLE", "busy or unavailable"),
    (100, "NO_DEVICE", "no cuda-capable device"),
    (101, "INVALID_DEVICE", "invalid device ordinal"),
    (209, "NO_BINARY_FOR_GPU", "no kernel image is available"),
    (222, "UNSUPPORTED_PTX_VERSION", "unsupported toolchain"),
    (304, "OPERATING_SYSTEM", "os call failed"),
    (802, "SYSTEM_NOT_READY", "system not yet initialized"),
    (803, "SYSTEM_DRIVER_MISMATCH", "unsupported display driver / cuda driver combination"),
    (804, "COMPAT_NOT_SUPPORTED_ON_DEVICE", "forward compatibility was attempted"),
    (218, "INVALID_PTX", "ptx jit compilation failed"),
    (221, "JIT_COMPILER_NOT_FOUND", "ptx jit compiler library not found"),
    (999, "UNKNOWN", "unknown error"),
];

/// Parses the message of a probe; `None` if the probe did not fail.
pub(super) fn cuda_error(probe: &ProbeAnswer) -> Option<CudaError> {
    if probe.status != ProbeStatus::Failed {
        return None;
    }
    Some(CudaError {
        code: code(&probe.error),
        driver_version: driver_version(&probe.error),
        missing_function: missing_function(&probe.error),
        evidence: Evidence::new(EvidenceKind::Dlopen, "__probe cuda", probe.error.clone()),
    })
}

fn code(text: &str) -> Option<u32> {
    let upper = text.to_uppercase();
    // Names take precedence, the longest first, because a message can contain several numbers.
    let by_name = CODES
        .iter()
        .filter(|(_, name, _)| {
            let full = [format!("CUDA_ERROR_{name}"), format!("CUDAERROR{}", name.replace('_', ""))];
            full.iter().any(|full| upper.contains(full.as_str()))
        })
        .max_by_key(|(_, name, _)| name.len());
    if let Some((code, _, _)) = by_name {
        return Some(*code);
    }
    let known = |number: &u32| CODES.iter().any(|(code, _, _)| code == number);
    let words: Vec<&str> =
        text.split(|c: char| !c.is_alphanumeric() && c != '.').filter(|word| !word.is_empty()).collect();
    let number =
        |index: usize| words.get(index).and_then(|word| word.trim_end_matches('.').parse::<u32>().ok());
    let introduces =
        ["answered", "returned", "error", "code", "status", "result", "failed", "with", "errno", "cuerror"];
    let after =
        words.iter().enumerate().filter(|(_, word)| introduces.contains(&word.to_lowercase().as_str()));
    let by_place = after.filter_map(|(index, _)| number(index + 1)).find(known);
    let lower = text.to_lowercase();
    let by_sentence =
        || CODES.iter().find(|(_, _, sentence)| lower.contains(sentence)).map(|(code, _, _)| *code);
    let anywhere = || (0..words.len()).filter_map(number).filter(|number| *number >= 34).find(known);
    by_place.or_else(by_sentence).or_else(anywhere)
}

/// The number in `(driver version 12040)`.
fn driver_version(text: &str) -> Option<u64> {
    let rest = text.split_once("driver version ")?.1;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The name in `undefined symbol: cuCtxCreate_v4` and `cuDeviceGetUuid: …procedure could not be found`.
fn missing_function(text: &str) -> Option<String> {
    let signs = [
        "undefined symbol",
        "procedure could not be found",
        "procedure not found",
        "symbol not found",
        "named symbol",
    ];
    let lower = text.to_lowercase();
    if !signs.iter().any(|sign| lower.contains(sign)) {
        return None;
    }
    let is_function = |word: &&str| {
        word.strip_prefix("cu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
    };
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    words.into_iter().rfind(is_function).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_parsed_from_messages() {
        for (text, expected) in [
            (
                "cuInit answered 999: unknown; often /dev/nvidia-uvm is missing (driver version 12040)",
                Some(999),
            ),
            ("cuInit answered 3: the driver is not initialised (driver version 12020)", Some(3)),
            ("cuInit answered 100: no CUDA device is visible (driver version 12040)", Some(100)),
            ("cuInit returned CUDA_ERROR_NO_DEVICE (100)", Some(100)),
            ("CUDA_ERROR_SYSTEM_NOT_READY", Some(802)),
            ("cuInit(0) = 802", Some(802)),
            ("CUDA driver initialization failed with error 804", Some(804)),
            ("Error 804: forward compatibility was attempted on non supported HW", Some(804)),
            ("Error 803: system has unsupported display driver / cuda driver combination", Some(803)),
            ("CUDA driver version is insufficient for CUDA runtime version", Some(35)),
            ("cudaErrorInsufficientDriver", Some(35)),
            ("the provided PTX was compiled with an unsupported toolchain.", Some(222)),
            ("CUDA_ERROR_UNSUPPORTED_PTX_VERSION", Some(222)),
            ("cuModuleLoadData: 209", Some(209)),
            ("no kernel image is available for execution on the device", Some(209)),
            ("CUDA driver is a stub library", Some(34)),
            (
                "cuInit answered 34: this is the stub library that is meant for linking, not a driver",
                Some(34),
            ),
            ("cuInit failed: CUDA_ERROR_UNKNOWN", Some(999)),
            ("cuDeviceGet answered 101: no such device; see CUDA_VISIBLE_DEVICES", Some(101)),
            ("status: 46", Some(46)),
            ("libcuda.so.1, /usr/lib/wsl/lib/libcuda.so.1 could not be opened: no such file", None),
            ("did not answer within 3 s", None),
            ("", None),
        ] {
            assert_eq!(code(text), expected, "{text}");
        }
    }

    #[test]
    fn missing_functions_are_parsed_from_messages() {
        for (text, expected) in [
            (
                "cuDeviceGetUuid: /lib64/libcuda.so.1: undefined symbol: cuDeviceGetUuid",
                Some("cuDeviceGetUuid"),
            ),
            ("/lib/x86_64-linux-gnu/libcuda.so.1: undefined symbol: cuCtxCreate_v4", Some("cuCtxCreate_v4")),
            (
                "cuDeviceGetUuid: The specified procedure could not be found. (os error 127)",
                Some("cuDeviceGetUuid"),
            ),
            ("libcuda.so.1: undefined symbol: _ZN3fooE", None),
            ("cuInit answered 999", None),
        ] {
            assert_eq!(missing_function(text).as_deref(), expected, "{text}");
        }
        assert_eq!(driver_version("cuInit answered 100: … (driver version 11040)"), Some(11040));
        assert_eq!(driver_version("nothing"), None);
    }
}
