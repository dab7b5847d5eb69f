//! Parses the data, so that no program has to.

fn main() -> std::io::Result<()> {
    gpubuild_toml::embed(&["", "logs"])
}
