//! Links what `cargo xtask build` has built.

fn main() {
    gpubuild::build_rs::link();
}
