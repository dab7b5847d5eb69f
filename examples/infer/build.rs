//! Links the kernels that `gpubuild build` built and passes the list of their backends to the program.

fn main() {
    gpubuild_link::link();
}
