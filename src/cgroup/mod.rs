//! Reading and writing cgroup v2 files: values, pressure, statistics and the walk over a tree.
