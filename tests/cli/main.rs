//! Behaviour of the command: what it prints where, and how it ends.
#![expect(clippy::unwrap_used, reason = "in a test a panic is the message")]

mod bad_input;
mod plan;
mod support;
