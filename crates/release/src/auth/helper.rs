//! Runs credential helpers: `docker-credential-NAME get`, with the registry on standard input.

use std::time::Duration;

use gpubuild_host::{Command, RunPrograms};
use serde::Deserialize;

use super::Secret;

/// The text that every helper prints if it has no credentials.
const NOT_FOUND: &str = "credentials not found";
/// The user name with which a helper returns an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
struct HelperOutput {
    #[serde(rename = "Username")]
    user: Option<String>,
    #[serde(rename = "Secret")]
    secret: Option<String>,
}

/// A helper's program name.
pub(super) fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// Queries a credential helper for a registry's credentials; `None` if it has no entry for the registry.
///
/// # Errors
/// The helper failed. The message does not contain its output.
pub(super) fn get(
    host: &dyn RunPrograms,
    name: &str,
    server: &str,
    timeout: Duration,
) -> Result<Option<Secret>, String> {
    let program = program(name);
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err(format!("`{program}` is not a program name"));
    }
    let command = Command::new(&program, timeout).arg("get").input(server);
    let output = host.run(&command).map_err(|error| error.to_string())?;
    if !output.success() {
        let not_found = [&output.stdout, &output.stderr].iter().any(|text| text.contains(NOT_FOUND));
        let failed = || format!("`{program} get` {}", output.ending());
        return if not_found { Ok(None) } else { Err(failed()) };
    }
    let answer: HelperOutput = serde_json::from_str(&output.stdout)
        .map_err(|_| format!("`{program} get` did not print a user name and a secret as JSON"))?;
    let Some(secret) = answer.secret.filter(|secret| !secret.is_empty()) else { return Ok(None) };
    let user = answer.user.unwrap_or_default();
    let is_token = user == TOKEN_USER;
    Ok(Some(if is_token { Secret::Identity(secret) } else { Secret::Password { user, password: secret } }))
}
