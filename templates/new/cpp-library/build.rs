//! Builds the C++ library in native/ and links it, with everything that its CMake targets need.

fn main() {
    gpubuild_build::Build::new().link();
}
