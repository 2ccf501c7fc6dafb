//! PID 1 of the deterministic node: executes an order, runs the phases and streams records.
