//! Signs manifests with minisign keys. Pure.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use minisign::{SecretKey, SecretKeyBox};

/// The length of a secret key in characters: 158 bytes in base64.
const LENGTH: usize = 212;

/// The place of the algorithm that derives the encryption key from the password. Zero: the key is not encrypted.
const DERIVATION: std::ops::Range<usize> = 2..4;

/// The start of the checksum, which extends to the end.
const CHECKSUM: usize = 126;

/// Why signing failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The text is not a secret key.
    #[error("it is not a minisign secret key: {0}")]
    NoKey(String),
    /// The key is encrypted, and the password is wrong or missing.
    #[error("failed to open the secret key ({0})")]
    Locked(String),
    /// Signing failed.
    #[error("failed to sign: {0}")]
    Failed(String),
}

/// A decrypted secret key.
pub struct Signer(SecretKey);

impl Signer {
    /// Parses and decrypts a secret key. The text is a minisign key file or its second line.
    ///
    /// # Errors
    /// See [`SignError`].
    pub fn open(text: &str, password: Option<String>) -> Result<Self, SignError> {
        let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let last = lines.next_back().unwrap_or_default();
        if last.len() != LENGTH {
            return Err(SignError::NoKey(format!(
                "its last line has {} characters, not {LENGTH}",
                last.len()
            )));
        }
        let whole = format!("untrusted comment: secret key\n{last}\n");
        let boxed = SecretKeyBox::from_string(&whole).map_err(|error| SignError::NoKey(error.to_string()))?;
        let key = match password {
            // With `into_secret_key(None)`, the library would prompt for a password on the terminal.
            None => match without_checksum(last) {
                Some(key) => Ok(key),
                None => boxed.into_unencrypted_secret_key(),
            },
            Some(password) => boxed.into_secret_key(Some(password)),
        };
        key.map(Self).map_err(|error| SignError::Locked(error.to_string()))
    }

    /// Signs bytes. `about` becomes the trusted comment, which is signed as well. The signature is deterministic.
    ///
    /// # Errors
    /// See [`SignError`].
    pub fn sign(&self, bytes: &[u8], about: &str) -> Result<String, SignError> {
        let signature = minisign::sign(None, &self.0, bytes, Some(about), Some("signature from gpubuild"));
        signature
            .map(minisign::SignatureBox::into_string)
            .map_err(|error| SignError::Failed(error.to_string()))
    }
}

/// A key that is not encrypted and has zeros instead of a checksum: `minisign -G -W` of version 0.11 writes it so, and the library refuses it.
fn without_checksum(line: &str) -> Option<SecretKey> {
    let bytes = BASE64_STANDARD.decode(line).ok()?;
    let is_zero = |part: Option<&[u8]>| part.is_some_and(|part| part.iter().all(|byte| *byte == 0));
    let is_ours = is_zero(bytes.get(DERIVATION)) && is_zero(bytes.get(CHECKSUM..));
    is_ours.then(|| SecretKey::from_bytes(&bytes).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_password_are_opened_with_and_without_a_checksum() {
        let pair = minisign::KeyPair::generate_unencrypted_keypair().unwrap();
        let whole = pair.sk.to_box(None).unwrap().into_string();
        let line = whole.lines().nth(1).unwrap();
        let mut bytes = BASE64_STANDARD.decode(line).unwrap();
        bytes[CHECKSUM..].fill(0);
        let zeros = BASE64_STANDARD.encode(&bytes);
        bytes[CHECKSUM] = 1;
        let wrong = BASE64_STANDARD.encode(&bytes);
        for text in [&whole, &format!("untrusted comment: minisign encrypted secret key\n{zeros}\n"), &zeros]
        {
            let signature = Signer::open(text, None).unwrap().sign(b"text", "about").unwrap();
            let signature = minisign::SignatureBox::from_string(&signature).unwrap();
            minisign::verify(&pair.pk, &signature, std::io::Cursor::new("text"), true, false, false).unwrap();
        }
        assert!(matches!(Signer::open(&wrong, None), Err(SignError::Locked(_))));
        // A password for a key without one, and none for an encrypted key.
        assert!(matches!(Signer::open(&zeros, Some("x".to_owned())), Err(SignError::Locked(_))));
        bytes[CHECKSUM..].fill(0);
        bytes[DERIVATION].copy_from_slice(b"Sc");
        assert!(matches!(Signer::open(&BASE64_STANDARD.encode(&bytes), None), Err(SignError::Locked(_))));
    }
}
