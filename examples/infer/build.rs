//! Links the kernels that `gpubuild build` made and tells the program which ones there are.

fn main() {
    gpubuild_link::link();
}
