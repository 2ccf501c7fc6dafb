//! The modelled GPU: device memory by accounting, kernel time by a roofline and sleep, the link to the host by its bandwidth.
//!
//! Nothing here is a measurement of a GPU. Device memory is no host memory: an allocation in it takes no page of the node. All that the
//! host would do for a real device (staging buffers, pinned pools, copies) is done by the workloads with real memory.

mod device;
mod roofline;

pub use device::{Device, rest};
pub use roofline::{Link, Roofline};
