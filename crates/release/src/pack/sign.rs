//! Signs a manifest as minisign does, with minisign's own files for keys. Pure.

use minisign::{SecretKey, SecretKeyBox};

/// Characters of a secret key: 158 bytes in base64.
const LENGTH: usize = 212;

/// Why signing failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignError {
    /// The text is not a secret key.
    #[error("it is not a secret key of minisign: {0}")]
    NoKey(String),
    /// It is protected, and the password is not right or absent.
    #[error("the password does not open the key: {0}")]
    Locked(String),
    /// Signing failed.
    #[error("failed to sign: {0}")]
    Failed(String),
}

/// A secret key, opened.
pub struct Signer(SecretKey);

impl Signer {
    /// Opens a secret key: both lines of minisign's file, or the second one.
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
            // With a password that is absent the library would ask for one on the terminal.
            None => boxed.into_unencrypted_secret_key(),
            Some(password) => boxed.into_secret_key(Some(password)),
        };
        key.map(Self).map_err(|error| SignError::Locked(error.to_string()))
    }

    /// The signature of some bytes: the same for the same bytes. `about` is signed as well.
    ///
    /// # Errors
    /// See [`SignError`].
    pub fn sign(&self, bytes: &[u8], about: &str) -> Result<String, SignError> {
        let signed = minisign::sign(None, &self.0, bytes, Some(about), Some("signature from gpubuild"));
        signed.map(minisign::SignatureBox::into_string).map_err(|error| SignError::Failed(error.to_string()))
    }
}
