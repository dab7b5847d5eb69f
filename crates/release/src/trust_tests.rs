//! Attacks on a manifest and its signature. Each is rejected with its own error id.

use minisign::{KeyPair, sign};

use super::*;
use crate::history::TrustedSerial;

/// 2026-11-15.
const NOW: u64 = 1_794_700_000;

struct Publisher {
    pair: KeyPair,
}

impl Publisher {
    fn new() -> Self {
        Self { pair: KeyPair::generate_unencrypted_keypair().unwrap() }
    }

    fn key(&self) -> TrustKey {
        TrustKey::read(&self.pair.pk.to_base64()).unwrap()
    }

    fn sign(&self, bytes: &[u8]) -> Vec<u8> {
        sign(None, &self.pair.sk, bytes, Some("trusted"), Some("untrusted"))
            .unwrap()
            .into_string()
            .into_bytes()
    }
}

fn manifest_of(name: &str, serial: u64, expires: u64) -> Vec<u8> {
    let hash = "0".repeat(64);
    format!(
        "{{\"schema\":\"gpubuild.manifest/1\",\"name\":\"{name}\",\"version\":\"1\",\"serial\":{serial},\"expires\":{expires},\
         \"platforms\":{{\"linux-x86_64\":{{\"default\":\"cpu\",\"variants\":[{{\"label\":\"cpu\",\"backends\":[\"cpu\"],\
         \"layers\":[{{\"sha256\":\"{hash}\",\"size\":1,\"unpacked\":1}}]}}]}}}}}}"
    )
    .into_bytes()
}

fn good() -> Vec<u8> {
    manifest_of("infer", 7, NOW + 1000)
}

/// The serial of a manifest, or the id of the error. `seen` is the manifest that was trusted before.
fn outcome(
    bytes: &[u8],
    signature: Option<&[u8]>,
    keys: &[TrustKey],
    seen: Option<(u64, &[u8])>,
) -> Result<u64, &'static str> {
    let request =
        TrustRequest { bytes, signature, keys, name: Some("infer"), now: NOW, older: OlderPolicy::Deny };
    let history = |name: &str| {
        assert_eq!(name, "infer");
        let recorded = seen.map(|(serial, bytes)| TrustedSerial { serial, sha256: sha256(bytes) });
        Ok(ReleaseHistory { recorded, installed: None })
    };
    verify(&request, history).map(|trusted| trusted.manifest.serial).map_err(|distrust| {
        assert!(!distrust.to_string().is_empty() && distrust.hint().is_some());
        distrust.id().as_str()
    })
}

#[test]
fn a_manifest_with_a_valid_signature_is_trusted() {
    let publisher = Publisher::new();
    let (bytes, keys) = (good(), [Publisher::new().key(), publisher.key()]);
    let signature = publisher.sign(&bytes);
    assert_eq!(outcome(&bytes, Some(&signature), &keys, None), Ok(7));
    // The same manifest again, then a newer one.
    assert_eq!(outcome(&bytes, Some(&signature), &keys, Some((7, &bytes))), Ok(7));
    let newer = manifest_of("infer", 8, NOW + 1000);
    assert_eq!(outcome(&newer, Some(&publisher.sign(&newer)), &keys, Some((7, &bytes))), Ok(8));
    // minisign's key file has a comment line before the key.
    let file = format!("untrusted comment: minisign public key\n{}\n", publisher.pair.pk.to_base64());
    assert_eq!(TrustKey::read(&file), Some(publisher.key()));
    for invalid in ["", "RW", "untrusted comment: only\n", "not base64 at all!"] {
        assert_eq!(TrustKey::read(invalid), None, "{invalid}");
    }
}

#[test]
fn a_changed_manifest_is_rejected_wherever_it_was_changed() {
    let publisher = Publisher::new();
    let (bytes, keys) = (good(), [publisher.key()]);
    let signature = publisher.sign(&bytes);
    for at in (0..bytes.len()).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        assert_eq!(outcome(&changed, Some(&signature), &keys, None), Err("manifest.changed"), "{at}");
    }
    for cut in [0, 1, bytes.len() / 2, bytes.len() - 1] {
        assert_eq!(outcome(&bytes[..cut], Some(&signature), &keys, None), Err("manifest.changed"), "{cut}");
    }
    for more in [&b" "[..], b"\n", b"{}", &[0]] {
        let longer = [&bytes, more].concat();
        assert_eq!(outcome(&longer, Some(&signature), &keys, None), Err("manifest.changed"));
    }
    let too_large = vec![b' '; manifest::MAX_BYTES + 1];
    assert_eq!(outcome(&too_large, Some(&publisher.sign(&too_large)), &keys, None), Err("manifest.changed"));
}

#[test]
fn invalid_signatures_and_those_of_other_keys_are_rejected() {
    let (publisher, attacker) = (Publisher::new(), Publisher::new());
    let (bytes, keys) = (good(), [publisher.key()]);
    let signature = String::from_utf8(publisher.sign(&bytes)).unwrap();
    let lines: Vec<&str> = signature.lines().collect();
    let with = |at: usize, line: &str| {
        let mut changed = lines.clone();
        changed[at] = line;
        changed.join("\n")
    };
    let other = String::from_utf8(publisher.sign(b"another file")).unwrap();
    let of_other: Vec<&str> = other.lines().collect();
    // A signature begins with the algorithm: `ED` (`RU` in base64), or `Ed` (`RW`) for minisign's legacy format without prehashing.
    assert!(lines[1].starts_with("RU"), "{}", lines[1]);
    let legacy = with(1, &format!("RW{}", &lines[1][2..]));
    let attacks: Vec<(&str, String, &str)> = vec![
        ("an empty file", String::new(), "manifest.signature-invalid"),
        ("one line", lines[0].to_owned(), "manifest.signature-invalid"),
        ("no signature of the comment", lines[..3].join("\n"), "manifest.signature-invalid"),
        ("a short signature", with(1, &lines[1][..40]), "manifest.signature-invalid"),
        ("invalid base64", with(1, "!!!!"), "manifest.signature-invalid"),
        ("a short signature of the comment", with(3, &lines[3][..8]), "manifest.signature-invalid"),
        ("an invalid comment", with(2, "comment: trusted"), "manifest.signature-invalid"),
        ("a changed comment", with(2, "trusted comment: others"), "manifest.changed"),
        ("an emptied comment", with(2, "trusted comment: "), "manifest.changed"),
        ("the comment's signature of another file", with(3, of_other[3]), "manifest.changed"),
        ("the signature of another file", other.clone(), "manifest.changed"),
        ("parts of two signatures", with(1, of_other[1]), "manifest.changed"),
        ("the legacy format", legacy, "manifest.signature-invalid"),
        ("another key", String::from_utf8(attacker.sign(&bytes)).unwrap(), "manifest.other-key"),
        ("the key in place of the signature", publisher.pair.pk.to_base64(), "manifest.signature-invalid"),
        (
            "the manifest in place of the signature",
            String::from_utf8(good()).unwrap(),
            "manifest.signature-invalid",
        ),
        ("too large", format!("{signature}{}", "\n".repeat(MAX_BYTES)), "manifest.signature-invalid"),
    ];
    for (what, text, id) in &attacks {
        assert_eq!(outcome(&bytes, Some(text.as_bytes()), &keys, None), Err(*id), "{what}");
    }
    assert_eq!(outcome(&bytes, None, &keys, None), Err("manifest.unsigned"));
    assert_eq!(outcome(&bytes, Some(&[0xff, 0xfe]), &keys, None), Err("manifest.signature-invalid"));
    assert_eq!(outcome(&bytes, Some(signature.as_bytes()), &[], None), Err("manifest.other-key"));
    assert_eq!(
        outcome(&bytes, Some(signature.as_bytes()), &[attacker.key()], None),
        Err("manifest.other-key")
    );
    // A key with the publisher's key id but another public key does not verify the publisher's signature.
    let mut mixed = base64_of(&publisher.pair.pk.to_base64());
    mixed[10..].copy_from_slice(&base64_of(&attacker.pair.pk.to_base64())[10..]);
    let mixed = TrustKey::read(&to_base64(&mixed)).unwrap();
    assert_eq!(outcome(&bytes, Some(signature.as_bytes()), &[mixed], None), Err("manifest.changed"));
}

fn base64_of(text: &str) -> Vec<u8> {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

fn to_base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

#[test]
fn old_expired_and_foreign_manifests_are_rejected_despite_valid_signatures() {
    let publisher = Publisher::new();
    let keys = [publisher.key()];
    let seen = good();
    for (bytes, id) in [
        // Rollback: lower serials, and the same serial with different content.
        (manifest_of("infer", 6, NOW + 1000), "manifest.older"),
        (manifest_of("infer", 0, NOW + 1000), "manifest.older"),
        (manifest_of("infer", 7, NOW + 2000), "manifest.replaced"),
        // Freeze: expired manifests.
        (manifest_of("infer", 8, NOW), "manifest.expired"),
        (manifest_of("infer", 8, NOW - 90_000), "manifest.expired"),
        (manifest_of("infer", 8, 0), "manifest.expired"),
        (manifest_of("infer", u64::MAX, 1), "manifest.expired"),
        // Mix-and-match: manifests of other releases that the same key signed.
        (manifest_of("whisper", 8, NOW + 1000), "manifest.other-name"),
        (manifest_of("Infer", 8, NOW + 1000), "manifest.other-name"),
        // Signed by mistake: not a manifest, or one with another schema.
        (b"{}".to_vec(), "manifest.invalid"),
        (b"".to_vec(), "manifest.invalid"),
        (b"SHA256SUMS".to_vec(), "manifest.invalid"),
        (manifest_of("../infer", 8, NOW + 1000), "manifest.invalid"),
        (
            String::from_utf8(good()).unwrap().replace("manifest/1", "manifest/2").into_bytes(),
            "manifest.invalid",
        ),
        (
            String::from_utf8(good())
                .unwrap()
                .replace("\"serial\":7", "\"serial\":7,\"serial\":9")
                .into_bytes(),
            "manifest.invalid",
        ),
        (
            String::from_utf8(good()).unwrap().replace("\"serial\":7", "\"serial\":-1").into_bytes(),
            "manifest.invalid",
        ),
    ] {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let found = outcome(&bytes, Some(&publisher.sign(&bytes)), &keys, Some((7, &seen)));
        assert_eq!(found, Err(id), "{text}");
    }
}

#[test]
fn the_newest_known_serial_counts_and_an_older_manifest_must_be_allowed() {
    let publisher = Publisher::new();
    let (bytes, keys) = (good(), [publisher.key()]);
    let signature = publisher.sign(&bytes);
    let outcome = |history: Result<(Option<u64>, Option<u64>), TrustError>, older: OlderPolicy| {
        let request = TrustRequest {
            bytes: &bytes,
            signature: Some(&signature),
            keys: &keys,
            name: None,
            now: NOW,
            older,
        };
        let history = history.map(|(recorded, installed)| ReleaseHistory {
            recorded: recorded.map(|serial| TrustedSerial { serial, sha256: sha256(&bytes) }),
            installed,
        });
        match verify(&request, |_| history) {
            Ok(TrustedManifest { allowed, .. }) => Ok(allowed.map(|error| error.id().as_str())),
            Err(error) => Err(error.id().as_str()),
        }
    };
    let damaged = || {
        let path = gpubuild_host::HostPath::new(gpubuild_host::PathRules::Unix, "/infer.json");
        TrustError::from(RecordError { path, problem: "is damaged".to_owned() })
    };
    for (history, denied) in [
        (Ok((None, None)), None),
        (Ok((Some(7), Some(6))), None),
        (Ok((None, Some(7))), None),
        (Ok((Some(8), None)), Some("manifest.older")),
        // The record was lost, or is older than the installation.
        (Ok((None, Some(8))), Some("manifest.older")),
        (Ok((Some(7), Some(8))), Some("manifest.older")),
        (Err(damaged()), Some("manifest.record-damaged")),
    ] {
        assert_eq!(outcome(history.clone(), OlderPolicy::Deny), denied.map_or(Ok(None), Err), "{history:?}");
        assert_eq!(outcome(history.clone(), OlderPolicy::Allow), Ok(denied), "{history:?}");
    }
    // A different manifest with the same serial is not an older one.
    let history = || ReleaseHistory {
        recorded: Some(TrustedSerial { serial: 7, sha256: "0".repeat(64) }),
        installed: None,
    };
    let older = OlderPolicy::Allow;
    let request =
        TrustRequest { bytes: &bytes, signature: Some(&signature), keys: &keys, name: None, now: NOW, older };
    assert_eq!(verify(&request, |_| Ok(history())), Err(TrustError::Replaced { serial: 7 }));
}
