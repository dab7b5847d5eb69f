use std::process::Command;

fn main() {
    let output = Command::new("nvidia-smi").output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let version = text.split("CUDA Version: ").nth(1);
    println!("cargo:rustc-env=CUDA={}", version.unwrap_or_default());
}
