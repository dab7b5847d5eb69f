//! Programs that keep passwords: `docker-credential-NAME get`, with the registry on standard input.

use std::time::Duration;

use gpubuild_host::{Command, RunPrograms};
use serde::Deserialize;

use super::Secret;

/// What a helper says where it has nothing, as all of them do.
const NOTHING: &str = "credentials not found";
/// The name with which a helper hands over an identity token.
const TOKEN_USER: &str = "<token>";

#[derive(Deserialize)]
struct HelperAnswer {
    #[serde(rename = "Username")]
    user: Option<String>,
    #[serde(rename = "Secret")]
    secret: Option<String>,
}

/// The program of a helper.
pub(super) fn program(name: &str) -> String {
    format!("docker-credential-{name}")
}

/// Asks a credential helper for a registry's credentials. `None`: it has none.
///
/// # Errors
/// The helper failed. The message does not contain its output.
pub(super) fn ask(
    host: &dyn RunPrograms,
    name: &str,
    server: &str,
    patience: Duration,
) -> Result<Option<Secret>, String> {
    let program = program(name);
    if !name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.')) {
        return Err(format!("`{program}` is not a program name"));
    }
    let command = Command::new(&program, patience).arg("get").input(server);
    let output = host.run(&command).map_err(|error| error.to_string())?;
    if !output.success() {
        let has_nothing = [&output.stdout, &output.stderr].iter().any(|text| text.contains(NOTHING));
        let failed = || format!("`{program} get` {}", output.ending());
        return if has_nothing { Ok(None) } else { Err(failed()) };
    }
    let answer: HelperAnswer = serde_json::from_str(&output.stdout)
        .map_err(|_| format!("`{program} get` prints something else than a name and a secret as JSON"))?;
    let Some(secret) = answer.secret.filter(|secret| !secret.is_empty()) else { return Ok(None) };
    let user = answer.user.unwrap_or_default();
    let is_token = user == TOKEN_USER;
    Ok(Some(if is_token { Secret::Identity(secret) } else { Secret::Password { user, password: secret } }))
}
