//! Quantities as Kubernetes writes them, bytes, pages and virtual time.

mod quantity;

pub use quantity::{Format, ParseQuantityError, Quantity};

/// Rounds bytes down to a whole page, as the kernel does with what is written into memory.* files (`page_counter_memparse`).
pub const fn floor_to_page(bytes: u64, page: u64) -> u64 {
    bytes - bytes % page
}
