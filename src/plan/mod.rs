//! What the kubelet of a version will write for a lab, file by file, with the rule behind each value.
