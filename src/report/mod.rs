//! What a person reads: terminal tables and the self-contained HTML report.
