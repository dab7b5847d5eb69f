//! Builds the C++ library of native/ and links it, with everything that CMake says it needs.

fn main() {
    gpubuild_build::Build::new().link();
}
