//! Load generators: arrival schedules, requests, and latency from the scheduled time.
