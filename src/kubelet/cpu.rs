//! CPU: shares, weight and quota, which stand beside memory in the same writes.

use super::version::{Rules, SharesToWeight};

/// The length of a quota period in microseconds (`QuotaPeriod`).
pub const PERIOD_US: u64 = 100_000;
/// The shares of what asks for no CPU (`MinShares`).
pub const MIN_SHARES: u64 = 2;
const MAX_SHARES: u64 = 262_144;
const MIN_QUOTA_US: i64 = 1000;

/// cgroup v1 shares of a request (`MilliCPUToShares`).
pub fn shares(milli_cpu: i64) -> u64 {
    let shares = milli_cpu.saturating_mul(1024) / 1000;
    u64::try_from(shares).unwrap_or(0).clamp(MIN_SHARES, MAX_SHARES)
}

/// Microseconds per period of a limit; 0 for none (`MilliCPUToQuota`).
pub fn quota_us(milli_cpu: i64) -> i64 {
    if milli_cpu == 0 {
        return 0;
    }
    (milli_cpu.saturating_mul(PERIOD_US as i64) / 1000).max(MIN_QUOTA_US)
}

/// cpu.weight that the kubelet itself writes into pod and QoS cgroups (`getCPUWeight`, the same in every version).
pub fn kubelet_weight(shares: u64) -> u64 {
    if shares >= MAX_SHARES { 10_000 } else { 1 + (shares - MIN_SHARES) * 9999 / 262_142 }
}

/// cpu.weight that the runtime writes for a container's shares (`ConvertCPUSharesToCgroupV2Value` of the pinned opencontainers module).
pub fn runtime_weight(rules: &Rules, shares: u64) -> u64 {
    match rules.shares_to_weight {
        SharesToWeight::Linear => 1 + (shares - MIN_SHARES) * 9999 / 262_142,
        SharesToWeight::Quadratic if shares <= MIN_SHARES => 1,
        SharesToWeight::Quadratic if shares >= MAX_SHARES => 10_000,
        SharesToWeight::Quadratic => {
            let l = (shares as f64).log2();
            let exponent = (l * l + 125.0 * l) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}

/// The text of cpu.max (`setCPU` of opencontainers/cgroups): "max" where there is no quota.
pub fn cpu_max(quota_us: i64) -> String {
    if quota_us > 0 { format!("{quota_us} {PERIOD_US}") } else { format!("max {PERIOD_US}") }
}
