//! Prints information from llama.cpp about its build.
#![expect(clippy::print_stdout, reason = "an example that prints its results")]

fn main() {
    let system = llama_sys::system();
    println!("backends: {}", system.backends.join(", "));
    println!("gpu offload: {}", system.gpu_offload);
    println!("max devices: {}", system.max_devices);
    println!("{}", system.info.trim());
}
