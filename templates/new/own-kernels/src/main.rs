//! Runs the kernel on every backend that was built, and prints the results.

mod kernels;

fn main() {
    let x = [1.0, 2.0, 3.0];
    for backend in kernels::BACKENDS {
        let mut y = [0.5; 3];
        match backend.axpy(2.0, &x, &mut y) {
            Ok(()) => println!("{}: 2 * {x:?} + 0.5 = {y:?}", backend.name),
            Err(why) => println!("{}: unavailable: {why}", backend.name),
        }
    }
}
