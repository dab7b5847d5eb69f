//! `gpubuild.toml`.
