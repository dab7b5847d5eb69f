//! Builds the kernels for the backends of gpubuild.toml and links them.

fn main() {
    gpubuild::Build::new().link();
}
