//! The kubelet's behaviour over time as pure state machines with the clock passed in.
