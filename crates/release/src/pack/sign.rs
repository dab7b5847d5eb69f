//! Signs manifests with minisign keys. Pure.

use minisign::{SecretKey, SecretKeyBox};

/// The length of a secret key in characters: 158 bytes in base64.
const LENGTH: usize = 212;

/// Why signing failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The text is not a secret key.
    #[error("it is not a minisign secret key: {0}")]
    NoKey(String),
    /// The key is encrypted, and the password is wrong or missing.
    #[error("failed to decrypt the key with the password: {0}")]
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
            None => boxed.into_unencrypted_secret_key(),
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
