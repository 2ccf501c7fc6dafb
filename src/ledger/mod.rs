//! The control ledger: what the files of a cgroup tree say, compared with a plan or another ledger.
