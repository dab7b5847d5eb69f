//! Parses the data at compile time, so that no program has to.

fn main() -> std::io::Result<()> {
    gpubuild_toml::embed(&["", "locks", "packages", "profiles", "resolvers", "tables"])
}
