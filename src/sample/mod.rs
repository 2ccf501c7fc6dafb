//! The sampler: open files read again and again, what changed since the last reading of each.
//!
//! It keeps one open file per watched kernel file and reads into one buffer; a reading of nothing new makes an empty tick. The first
//! reading learns at which line each key stands, so that later ones skip the other lines. What a kernel does not offer is reported
//! once, as unsupported, and never becomes a 0.

mod sampler;
mod source;

pub use sampler::{Due, Sampler};
