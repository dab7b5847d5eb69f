//! CUDA architectures as PyTorch writes them in `TORCH_CUDA_ARCH_LIST`: `8.0;9.0a;12.0+PTX`, `Ampere`.

use super::{CudaArch, CudaCode, cmake_list, rules};
use crate::order::SortIndirect as _;

/// Words that are a complete list, and gpubuild's words for it.
const KEYWORDS: [(&str, &str); 4] =
    [("Auto", "auto"), ("Common", "all-major"), ("All", "all"), ("native", "native")];

/// Whether PyTorch or gpubuild accepts a word in the list.
#[must_use]
pub fn is_torch_word(word: &str) -> bool {
    KEYWORDS.iter().any(|(name, keyword)| word == *name || word == *keyword)
        || parse_torch_entry(word).is_some()
        || word.parse::<CudaArch>().is_ok()
}

/// The architectures as `TORCH_CUDA_ARCH_LIST` has them: `8.0;9.0a;12.0+PTX`.
#[must_use]
pub fn torch_list(list: &[CudaArch]) -> String {
    let name = |arch: &CudaArch| {
        let suffix = arch.suffix.map(String::from).unwrap_or_default();
        let ptx = if arch.code == CudaCode::Real { "" } else { "+PTX" };
        format!("{}.{}{suffix}{ptx}", arch.number / 10, arch.number % 10)
    };
    list.iter().map(name).collect::<Vec<_>>().join(";")
}

/// Parses an entry: `8.0` is machine code, `8.6+PTX` machine code and PTX, `Ampere` a list of architectures. `None` for other words.
#[must_use]
pub fn parse_torch_entry(entry: &str) -> Option<Vec<CudaArch>> {
    let named = |name: &str| rules().torch.iter().find(|row| row.name == name).map(|row| row.archs.clone());
    if let Some(list) = named(entry) {
        return Some(list);
    }
    let (name, code) = match entry.strip_suffix("+PTX") {
        Some(name) => (name, CudaCode::Both),
        None => (entry, CudaCode::Real),
    };
    if let Some(mut list) = named(name) {
        let last = list.last_mut()?;
        *last = last.with_code(code);
        return Some(list);
    }
    // A word with a suffix of CMake says itself which code it means.
    let arch: CudaArch = name.parse().ok().filter(|_| name.starts_with(|c: char| c.is_ascii_digit()))?;
    (!name.contains('-')).then(|| vec![arch.with_code(code)])
}

/// A value of `TORCH_CUDA_ARCH_LIST` in CMake's notation: `80-real;86` for `8.0;8.6+PTX`. Words that are not PyTorch's are unchanged:
/// the parser of CMake's lists accepts or reports them.
#[must_use]
pub fn torch_as_cmake(text: &str) -> String {
    if let Some((_, keyword)) = KEYWORDS.iter().find(|(name, _)| *name == text.trim()) {
        return (*keyword).to_owned();
    }
    let (mut archs, mut others) = (Vec::new(), Vec::new());
    for entry in text.split([';', ',', ' ', '\t', '\n']).filter(|entry| !entry.is_empty()) {
        match parse_torch_entry(entry) {
            Some(list) => archs.extend(list),
            None => others.push(entry.to_owned()),
        }
    }
    archs.sort_indirect();
    archs.dedup();
    let complete: Vec<CudaArch> = archs
        .iter()
        .filter(|arch| arch.code == CudaCode::Both)
        .map(|arch| arch.with_code(CudaCode::Real))
        .collect();
    archs.retain(|arch| !complete.contains(arch));
    others.extend((!archs.is_empty()).then(|| cmake_list(&archs)));
    others.join(";")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::parse_cuda_list;

    #[test]
    fn lists_are_written_as_pytorch_reads_them() {
        let list = parse_cuda_list("80-real 90a-real 120 86-virtual").unwrap();
        assert_eq!(torch_list(&list), "8.0;8.6+PTX;9.0a;12.0+PTX");
    }

    #[test]
    fn lists_of_pytorch_are_translated_for_cmake() {
        for (text, expected) in [
            ("8.0;8.6+PTX", "80-real;86"),
            ("8.0 9.0a 12.1+PTX", "80-real;90a-real;121"),
            ("Ampere", "80-real;86"),
            ("Ampere+PTX;Volta", "70;80-real;86"),
            ("Ampere+Tegra", "87-real"),
            ("Ampere+Tegra+PTX", "87"),
            ("Hopper;9.0", "90"),
            ("native", "native"),
            ("Auto", "auto"),
            ("All", "all"),
            ("Common", "all-major"),
            ("90-virtual sm_80", "90-virtual;sm_80"),
            ("8.0;Amper;8.6(8.0)", "Amper;8.6(8.0);80-real"),
            (" ; ", ""),
        ] {
            assert_eq!(torch_as_cmake(text), expected, "{text}");
        }
        assert_eq!(parse_cuda_list(&torch_as_cmake("8.0;Amper")).unwrap_err().0, "Amper");
    }

    #[test]
    fn names_of_pytorch_are_translated_as_it_does() {
        for row in &rules().torch {
            let list = parse_torch_entry(&row.name).unwrap();
            assert_eq!(list, row.archs);
            assert!(list.iter().all(|arch| arch.code != CudaCode::Virtual), "{}", row.name);
        }
        assert_eq!(parse_torch_entry("ampere"), None);
        for (word, expected) in
            [("Ada+PTX", true), ("native", true), ("10.0f", true), ("ada", false), ("8.0.1", false)]
        {
            assert_eq!(is_torch_word(word), expected, "{word}");
        }
    }
}
