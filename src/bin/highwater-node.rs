//! The program highwater-node.
fn main() {}
