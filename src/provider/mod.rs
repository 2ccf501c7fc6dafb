//! Where a node comes from: the deterministic VM, leases of what was created, and clean-up.
