//! Links the libraries that `cargo xtask build` has built.

fn main() {
    gpubuild_link::link();
}
