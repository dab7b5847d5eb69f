//! Prints what llama.cpp says about itself.
#![expect(clippy::print_stdout, reason = "that is all that it does")]

fn main() {
    let system = llama_sys::system();
    println!("backends: {}", system.backends.join(", "));
    println!("gpu offload: {}", system.gpu_offload);
    println!("max devices: {}", system.max_devices);
    println!("{}", system.info.trim());
}
