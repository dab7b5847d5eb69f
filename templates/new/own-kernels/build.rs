//! Builds the kernels for the backends of gpubuild.toml and links them.

fn main() {
    gpubuild_build::Build::new().link();
}
