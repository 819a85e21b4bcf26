//! Several engines side by side, each with a thread of its own: see docs/explanation/engine.md, "Several workers".
#![forbid(unsafe_code)]

pub mod crossing;
pub mod measure;
pub mod team;
