//! Attacks on a manifest and its signature: all refused, each with its reason.

use minisign::{KeyPair, sign};

use super::*;

/// The middle of November 2026.
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

/// The outcome for a manifest and signature, with serial 7 seen before.
fn outcome(
    bytes: &[u8],
    signature: Option<&[u8]>,
    keys: &[TrustKey],
    seen: Option<(u64, &[u8])>,
) -> Result<u64, &'static str> {
    let question = TrustQuestion { bytes, signature, keys, name: Some("infer"), now: NOW };
    let remembered = |name: &str| {
        assert_eq!(name, "infer");
        seen.map(|(serial, bytes)| Remembered { serial, sha256: sha256(bytes) })
    };
    believe(&question, remembered).map(|manifest| manifest.serial).map_err(|distrust| {
        assert!(!distrust.to_string().is_empty() && distrust.hint().is_some());
        distrust.id().as_str()
    })
}

#[test]
fn what_the_publisher_signed_is_believed() {
    let publisher = Publisher::new();
    let (bytes, keys) = (good(), [Publisher::new().key(), publisher.key()]);
    let signature = publisher.sign(&bytes);
    assert_eq!(outcome(&bytes, Some(&signature), &keys, None), Ok(7));
    // The same again, and a newer one after it.
    assert_eq!(outcome(&bytes, Some(&signature), &keys, Some((7, &bytes))), Ok(7));
    let newer = manifest_of("infer", 8, NOW + 1000);
    assert_eq!(outcome(&newer, Some(&publisher.sign(&newer)), &keys, Some((7, &bytes))), Ok(8));
    // minisign's own file of a key has a comment above the key.
    let file = format!("untrusted comment: minisign public key\n{}\n", publisher.pair.pk.to_base64());
    assert_eq!(TrustKey::read(&file), Some(publisher.key()));
    for none in ["", "RW", "untrusted comment: only\n", "not base64 at all!"] {
        assert_eq!(TrustKey::read(none), None, "{none}");
    }
}

#[test]
fn bytes_that_differ_from_what_was_signed_are_refused_wherever_they_differ() {
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
    let endless = vec![b' '; manifest::MOST_BYTES + 1];
    assert_eq!(outcome(&endless, Some(&publisher.sign(&endless)), &keys, None), Err("manifest.changed"));
}

#[test]
fn signatures_that_are_none_or_of_others_are_refused() {
    let (publisher, thief) = (Publisher::new(), Publisher::new());
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
    // The letters `ED` at its beginning are `Ed` in a signature of the first minisign, which hashes nothing: `RU` and `RW` in base64.
    assert!(lines[1].starts_with("RU"), "{}", lines[1]);
    let legacy = with(1, &format!("RW{}", &lines[1][2..]));
    let attacks: Vec<(&str, String, &str)> = vec![
        ("nothing in it", String::new(), "manifest.signature-invalid"),
        ("one line", lines[0].to_owned(), "manifest.signature-invalid"),
        ("without the comment's signature", lines[..3].join("\n"), "manifest.signature-invalid"),
        ("a short signature", with(1, &lines[1][..40]), "manifest.signature-invalid"),
        ("no base64", with(1, "!!!!"), "manifest.signature-invalid"),
        ("a short signature of the comment", with(3, &lines[3][..8]), "manifest.signature-invalid"),
        ("an invalid comment", with(2, "comment: trusted"), "manifest.signature-invalid"),
        ("the comment changed", with(2, "trusted comment: others"), "manifest.changed"),
        ("the comment emptied", with(2, "trusted comment: "), "manifest.changed"),
        ("the comment's signature of another file", with(3, of_other[3]), "manifest.changed"),
        ("the signature of another file", other.clone(), "manifest.changed"),
        ("halves of two", with(1, of_other[1]), "manifest.changed"),
        ("the first minisign's kind", legacy, "manifest.signature-invalid"),
        ("a thief's", String::from_utf8(thief.sign(&bytes)).unwrap(), "manifest.other-key"),
        ("the key in place of the signature", publisher.pair.pk.to_base64(), "manifest.signature-invalid"),
        (
            "the manifest in place of the signature",
            String::from_utf8(good()).unwrap(),
            "manifest.signature-invalid",
        ),
        ("endless", format!("{signature}{}", "\n".repeat(MOST_BYTES)), "manifest.signature-invalid"),
    ];
    for (what, text, id) in &attacks {
        assert_eq!(outcome(&bytes, Some(text.as_bytes()), &keys, None), Err(*id), "{what}");
    }
    assert_eq!(outcome(&bytes, None, &keys, None), Err("manifest.unsigned"));
    assert_eq!(outcome(&bytes, Some(&[0xff, 0xfe]), &keys, None), Err("manifest.signature-invalid"));
    assert_eq!(outcome(&bytes, Some(signature.as_bytes()), &[], None), Err("manifest.other-key"));
    assert_eq!(outcome(&bytes, Some(signature.as_bytes()), &[thief.key()], None), Err("manifest.other-key"));
    // A key with the publisher's number and another point: nothing that it signed passes for the publisher's.
    let mut mixed = base64_of(&publisher.pair.pk.to_base64());
    mixed[10..].copy_from_slice(&base64_of(&thief.pair.pk.to_base64())[10..]);
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
fn old_frozen_and_foreign_manifests_are_refused_though_they_are_signed() {
    let publisher = Publisher::new();
    let keys = [publisher.key()];
    let seen = good();
    for (bytes, id) in [
        // Rollback: an older one, the first one, and the same number with other contents.
        (manifest_of("infer", 6, NOW + 1000), "manifest.older"),
        (manifest_of("infer", 0, NOW + 1000), "manifest.older"),
        (manifest_of("infer", 7, NOW + 2000), "manifest.replaced"),
        // Freeze: what held yesterday.
        (manifest_of("infer", 8, NOW), "manifest.expired"),
        (manifest_of("infer", 8, NOW - 90_000), "manifest.expired"),
        (manifest_of("infer", 8, 0), "manifest.expired"),
        (manifest_of("infer", u64::MAX, 1), "manifest.expired"),
        // Mix: what the same key signed for something else.
        (manifest_of("whisper", 8, NOW + 1000), "manifest.other-name"),
        (manifest_of("Infer", 8, NOW + 1000), "manifest.other-name"),
        // Signed by mistake: text that is not a manifest, or has another schema.
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
