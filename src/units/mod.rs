//! Quantities as Kubernetes writes them, bytes, pages and virtual time.
