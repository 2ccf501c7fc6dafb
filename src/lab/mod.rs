//! The lab file: node, arms as patches, phases, expectations; read, validated and resolved.
