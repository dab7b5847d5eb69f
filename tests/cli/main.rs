//! Behaviour of the command: what it prints where, and how it ends.

mod bad_input;
mod plan;
mod support;
