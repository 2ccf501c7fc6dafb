//! The program highwater-init.
fn main() {}
