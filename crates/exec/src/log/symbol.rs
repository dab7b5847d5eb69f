//! Names of symbols as compilers and linkers write them. Only the scopes and the name are read: a complete demangler for each kind would be
//! more dependencies of every build script.

use std::borrow::Cow;

/// Words before the name in what linkers print, such as `vtable for`.
const KINDS: [&str; 9] = [
    "vtable for ",
    "VTT for ",
    "typeinfo for ",
    "typeinfo name for ",
    "guard variable for ",
    "construction vtable for ",
    "virtual thunk to ",
    "non-virtual thunk to ",
    "reference temporary for ",
];

/// Words of declarations that precede a type or a function.
const WORDS: [&str; 14] = [
    "const ",
    "class ",
    "struct ",
    "union ",
    "enum ",
    "static ",
    "virtual ",
    "public: ",
    "private: ",
    "protected: ",
    "void ",
    "int ",
    "bool ",
    "auto ",
];

/// The calling conventions that Microsoft's linker writes before the name of a function.
const CONVENTIONS: [&str; 5] = ["__cdecl ", "__vectorcall ", "__stdcall ", "__fastcall ", "__thiscall "];

/// The name with its scopes, as source code has it: without what linkers write before it, and not mangled.
pub(super) fn readable(text: &str) -> Cow<'_, str> {
    let mut name = text.trim_start();
    // The convention of the function comes before those of functions among its arguments.
    if let Some(end) = CONVENTIONS.iter().filter_map(|one| Some(name.find(one)? + one.len())).min() {
        name = &name[end..];
    }
    while let Some(rest) = KINDS.iter().chain(&WORDS).find_map(|start| name.strip_prefix(start)) {
        name = rest;
    }
    name = name.strip_prefix("__imp_").unwrap_or(name);
    let scopes = itanium(name).or_else(|| microsoft(name));
    scopes.map_or(Cow::Borrowed(name), |scopes| Cow::Owned(scopes.join("::")))
}

/// The scopes of `_ZN2cv6imreadE…`, the name mangling of GCC and clang. Apple's linker adds an underscore.
fn itanium(name: &str) -> Option<Vec<&str>> {
    let encoded = name.strip_prefix("__Z").or_else(|| name.strip_prefix("_Z"))?;
    let encoded = encoded.strip_prefix("TV").or_else(|| encoded.strip_prefix("TI")).unwrap_or(encoded);
    let nested = encoded.strip_prefix('N').map(|rest| rest.trim_start_matches(['K', 'V', 'R', 'O']));
    let mut rest = nested.unwrap_or(encoded);
    let mut scopes = Vec::new();
    while rest.starts_with(|c: char| c.is_ascii_digit()) && (nested.is_some() || scopes.is_empty()) {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let length: usize = rest[..digits].parse().ok()?;
        scopes.push(rest.get(digits..digits.checked_add(length)?)?);
        rest = &rest[digits + length..];
    }
    (!scopes.is_empty()).then_some(scopes)
}

/// The scopes of `?imread@cv@@…`, the name mangling of Microsoft.
fn microsoft(name: &str) -> Option<Vec<&str>> {
    let (scopes, _) = name.strip_prefix('?')?.split_once("@@")?;
    let mut scopes: Vec<&str> = scopes.split('@').collect();
    scopes.reverse();
    Some(scopes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_with_their_scopes() {
        for (text, expected) in [
            ("cv::imread(std::string const&, int)", "cv::imread(std::string const&, int)"),
            ("vtable for google::protobuf::Message", "google::protobuf::Message"),
            ("typeinfo for c10::Error", "c10::Error"),
            ("__imp_PyExc_TypeError", "PyExc_TypeError"),
            ("_ZN2cv6imreadERKNSt7__cxx1112basic_stringE", "cv::imread"),
            ("_ZNK2at10TensorBase8data_ptrEv", "at::TensorBase::data_ptr"),
            ("__ZN2cv3MatC1Ev", "cv::Mat"),
            ("_ZTVN6google8protobuf7MessageE", "google::protobuf::Message"),
            ("_Z7av_freePv", "av_free"),
            ("?noArray@cv@@YAAEBV_InputOutputArray@1@XZ", "cv::noArray"),
            ("class cv::Mat const & __cdecl cv::noArray(void)", "cv::noArray(void)"),
            ("int __cdecl at::cuda::warp_size(void)", "at::cuda::warp_size(void)"),
            ("void at::f<int>(int)", "at::f<int>(int)"),
            ("_ZN99a", "_ZN99a"),
            ("?x", "?x"),
            ("_Z", "_Z"),
            ("_ZN18446744073709551615a", "_ZN18446744073709551615a"),
            ("", ""),
        ] {
            assert_eq!(readable(text), expected, "{text}");
        }
    }
}
