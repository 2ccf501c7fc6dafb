//! The kubelet's memory policy by version: pure functions from configuration and Pods to bytes in files.
