//! The sampler: reads the watched cgroup files at an interval and encodes the differences.
