//! Values of `CUDA_VISIBLE_DEVICES`.

/// The variable that selects the GPUs of CUDA programs.
pub const CUDA_VISIBLE_DEVICES: &str = "CUDA_VISIBLE_DEVICES";

/// Why a value of [`CUDA_VISIBLE_DEVICES`] hides all GPUs of any machine: it is empty, or its first entry is not a GPU. `None` if it
/// does not. CUDA uses the entries before the first invalid one.
#[must_use]
pub fn why_none_visible(value: &str) -> Option<String> {
    if value.trim().is_empty() {
        return Some("is empty".to_owned());
    }
    let first = value.split(',').next().unwrap_or_default().trim();
    if let Ok(number) = first.parse::<i64>() {
        return (number < 0).then(|| format!("is `{first}`"));
    }
    let is_id = ["MIG-", "GPU-"].iter().any(|start| first.to_uppercase().starts_with(start));
    (!is_id).then(|| format!("is `{first}`, which is not a GPU"))
}
