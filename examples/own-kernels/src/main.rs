//! Calls each kernel once.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

fn main() {
    let mut values = [1.0, 2.0, 3.0];
    own_kernels::scale(&mut values, 2.0);
    println!("cpu: {values:?}, sum {}", own_kernels::sum(&values));
    match own_kernels::scale_on_gpu(&mut values, 2.0) {
        Ok(()) => println!("cuda: {values:?}"),
        Err(why) => println!("cuda: {why}"),
    }
}
