//! The workloads: programs that a container of the image highwater-node runs.
