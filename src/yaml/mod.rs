//! The only door to the YAML crate: parse and emit, with errors that carry file, line and path.
