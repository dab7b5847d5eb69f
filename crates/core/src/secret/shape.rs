//! Finds tokens, keys and webhooks by their format.

use super::{FoundSecret, SecretKind};

/// The characters that may follow a prefix.
#[derive(Clone, Copy)]
enum Set {
    /// Letters and digits.
    Plain,
    /// Also `_` and `-`.
    Url,
    /// Also `.`.
    Dotted,
    /// Uppercase letters and digits, exactly the given number.
    Upper,
}

impl Set {
    fn contains(self, byte: u8) -> bool {
        match self {
            Self::Plain => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'=' | b'/' | b'+')
            }
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

/// Prefix, characters after it, and their minimum number.
const TOKENS: [(&str, Set, usize); 57] = [
    ("AGE-SECRET-KEY-1", Set::Plain, 20),
    ("AIza", Set::Url, 30),
    ("AKIA", Set::Upper, 16),
    ("ASIA", Set::Upper, 16),
    ("ATATT3", Set::Dotted, 20),
    ("CFPAT-", Set::Url, 20),
    ("FwoGZXIvYXdz", Set::Dotted, 20),
    ("SG.", Set::Dotted, 30),
    ("dckr_oat_", Set::Url, 20),
    ("dckr_pat_", Set::Url, 20),
    ("doo_v1_", Set::Plain, 20),
    ("dop_v1_", Set::Plain, 20),
    ("dp.pt.", Set::Plain, 20),
    ("eyJ", Set::Dotted, 24),
    ("gho_", Set::Plain, 20),
    ("ghp_", Set::Plain, 20),
    ("ghr_", Set::Plain, 20),
    ("ghs_", Set::Plain, 20),
    ("ghu_", Set::Plain, 20),
    ("github_pat_", Set::Url, 20),
    ("glagent-", Set::Url, 16),
    ("glcbt-", Set::Url, 16),
    ("gldt-", Set::Url, 16),
    ("glpat-", Set::Dotted, 16),
    ("glptt-", Set::Url, 16),
    ("glrt-", Set::Url, 16),
    ("glsa_", Set::Url, 20),
    ("gsk_", Set::Plain, 20),
    ("hf_", Set::Plain, 20),
    ("hvb.", Set::Url, 20),
    ("hvs.", Set::Url, 20),
    ("lin_api_", Set::Plain, 20),
    ("npm_", Set::Plain, 20),
    ("nvapi-", Set::Url, 20),
    ("pk_live_", Set::Plain, 16),
    ("pplx-", Set::Plain, 20),
    ("pypi-AgE", Set::Url, 20),
    ("r8_", Set::Plain, 20),
    ("rk_live_", Set::Plain, 16),
    ("rk_test_", Set::Plain, 16),
    ("rubygems_", Set::Plain, 20),
    ("shpat_", Set::Plain, 20),
    ("sk-", Set::Url, 20),
    ("sk_live_", Set::Plain, 16),
    ("sk_test_", Set::Plain, 16),
    ("sntrys_", Set::Dotted, 20),
    ("sq0atp-", Set::Url, 20),
    ("sq0csp-", Set::Url, 20),
    ("tfp_", Set::Plain, 20),
    ("whsec_", Set::Dotted, 20),
    ("xai-", Set::Plain, 20),
    ("xapp-", Set::Url, 10),
    ("xoxa-", Set::Url, 10),
    ("xoxb-", Set::Url, 10),
    ("xoxp-", Set::Url, 10),
    ("xoxr-", Set::Url, 10),
    ("xoxs-", Set::Url, 10),
];

/// Prefixes of webhook URLs. Anyone who knows the rest of such a URL can post messages.
const WEBHOOKS: [&str; 8] = [
    "hooks.slack.com/services/",
    "hooks.slack.com/workflows/",
    "hooks.slack.com/triggers/",
    "discord.com/api/webhooks/",
    "discordapp.com/api/webhooks/",
    "webhook.office.com/webhookb2/",
    "hooks.zapier.com/hooks/catch/",
    "api.telegram.org/bot",
];

/// Finds tokens by their prefixes.
pub(super) fn tokens(text: &str, found: &mut Vec<FoundSecret>) {
    let bytes = text.as_bytes();
    for (prefix, set, least) in TOKENS {
        for start in memchr::memmem::find_iter(bytes, prefix) {
            let rest = &bytes[start + prefix.len()..];
            let length = rest.iter().take_while(|byte| set.contains(**byte)).count();
            let body = &rest[..length];
            let joins = |byte: &u8| byte.is_ascii_alphanumeric() || (*byte == b'-' && prefix == "sk-");
            // Options such as `-D` and `-I` precede their value without a space.
            let after_flag = start >= 2 && bytes[start - 2] == b'-';
            let is_inside = start > 0 && joins(&bytes[start - 1]) && !after_flag;
            let fits = match set {
                Set::Upper => length == least,
                _ => length >= least && body.iter().any(u8::is_ascii_digit),
            };
            if fits && !is_inside {
                let end = start + prefix.len() + length;
                found.push(FoundSecret { start, end, kind: SecretKind::Shape });
            }
        }
    }
}

/// Finds PEM private keys.
pub(super) fn private_keys(text: &str, found: &mut Vec<FoundSecret>) {
    const BEGIN: &str = "-----BEGIN ";
    const END: &str = "-----END ";
    for (start, _) in text.match_indices(BEGIN) {
        let head = &text[start + BEGIN.len()..];
        let Some((label, _)) = head.split_once("-----") else { continue };
        if !label.contains("PRIVATE KEY") {
            continue;
        }
        let end = head.find(END).map_or(text.len(), |at| {
            let tail = start + BEGIN.len() + at + END.len();
            text[tail..].find("-----").map_or(text.len(), |dashes| tail + dashes + 5)
        });
        found.push(FoundSecret { start, end, kind: SecretKind::Shape });
    }
}

/// Finds the secret part of webhook URLs.
pub(super) fn webhooks(text: &str, lower: &str, found: &mut Vec<FoundSecret>) {
    for place in WEBHOOKS {
        for at in memchr::memmem::find_iter(lower.as_bytes(), place) {
            let start = at + place.len();
            let rest = &text[start..];
            let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ')' | '`');
            let end = start + rest.find(ends).unwrap_or(rest.len());
            if !rest.starts_with(super::MARK) {
                found.push(FoundSecret { start, end, kind: SecretKind::Shape });
            }
        }
    }
}
