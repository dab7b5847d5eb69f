//! The command-line interface: output and exit codes.
#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod audit;
mod bad_input;
mod bench;
mod binary;
mod building;
mod cargo_command;
mod ci;
mod ci_changes;
mod ci_images;
mod ci_kubernetes;
mod ci_pack;
mod ci_slurm;
mod ci_tests;
mod cleaning;
mod completing;
mod doctor;
mod doctor_file;
mod doctor_log;
mod doctor_output;
#[cfg(target_os = "linux")]
mod editors;
mod end_to_end;
mod estimate;
#[cfg(target_os = "linux")]
mod exporting;
mod hostile;
#[cfg(target_os = "linux")]
mod input_builds;
#[cfg(target_os = "linux")]
mod input_files;
mod json;
mod limits;
mod linkage;
mod linking;
#[cfg(feature = "mcp")]
mod mcp;
mod new;
mod not_utf8;
mod other_owner;
mod pack;
mod pack_folder;
mod pack_program;
mod pack_wheel;
mod pitfalls;
mod plan;
mod plan_windows;
mod prefer;
mod preflight;
mod provenance;
mod provision;
mod python_backend;
#[cfg(target_os = "linux")]
mod reliability;
mod required;
#[path = "../common/requirements.rs"]
mod requirements;
mod resolve;
mod resolve_python;
mod running;
mod secrets;
mod setup;
mod signals;
mod storing;
mod support;
mod targets;
mod together;
mod venv;
mod wheel_variants;
