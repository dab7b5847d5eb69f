//! Builds the kernels for the backends in gpubuild.toml and links them.

fn main() {
    gpubuild_build::Build::new().link();
}
