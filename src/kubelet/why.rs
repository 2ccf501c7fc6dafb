//! The rules as texts: one constant per formula or reason, named by the values it explains.

use super::value::Input::{
    Allocatable, BurstableSum, Extra, Factor, GuaranteedSum, KubeReserved, LeastRequest, Limit, NodeMemory, NodeSwap, Page,
    PodLevelLimit, PodLimit, PodRequest, Policy, Qos, Request, Swap, SystemReserved,
};
use super::value::Why;

const MEMORY_QOS: &str = "KEP-2570 (Memory QoS), generateLinuxContainerResources";
const POD_CONFIG: &str = "ResourceConfigForPod, written by EnsureExists";
const POD_QOS: &str = "KEP-2570 (Memory QoS), ResourceConfigForPod";
const POD_THROTTLE: &str = "KEP-2570 (Memory QoS), ApplyPodLevelMemoryHigh";
const QOS_UPDATE: &str = "KEP-2570 (Memory QoS), qosContainerManagerImpl.UpdateCgroups";
const SWAP: &str = "KEP-2400 (node swap), GetContainerSwapBehavior";
const OOM: &str = "GetContainerOOMScoreAdjust";
const ALLOCATABLE: &str = "enforceNodeAllocatableCgroups";

macro_rules! rules {
    ($($name:ident: $formula:literal [$($input:ident)*] $source:expr;)*) => {
        $(pub(super) const $name: Why = Why { formula: $formula, inputs: &[$($input),*], source: $source };)*
    };
}

rules! {
    GATE_OFF: "nothing: the gate MemoryQoS is off, the file keeps what it has" [] MEMORY_QOS;
    NO_FACTOR: "nothing: memoryThrottlingFactor is not set, the file keeps what it has" [Factor] MEMORY_QOS;
    NO_LOW_ALPHA: "nothing: before 1.36 the kubelet does not write memory.low" [] MEMORY_QOS;
    LOW_OF_GUARANTEED: "nothing: Guaranteed pods are protected by memory.min" [Qos] MEMORY_QOS;
    MIN_OF_BURSTABLE: "nothing: only Guaranteed pods get memory.min" [Qos] MEMORY_QOS;

    CONTAINER_MAX: "limit" [Limit] "getMemoryLimit, memory_limit_in_bytes of the CRI";
    CONTAINER_MAX_POD_LEVEL: "the pod level's limit, since the container has none" [Limit PodLevelLimit] "KEP-2837 (pod-level resources), getMemoryLimit";
    NO_LIMIT: "nothing: neither the container nor the pod level has a limit" [Limit] "getMemoryLimit";
    OOM_GROUP: "1: all processes of the container are killed together" [] "calculateLinuxResources";
    OOM_SINGLE: "nothing: singleProcessOOMKill is true" [] "calculateLinuxResources";

    NO_REQUEST: "nothing: no memory is requested" [Request] MEMORY_QOS;
    MIN_REQUEST_ALPHA: "request" [Request] MEMORY_QOS;
    MIN_REQUEST: "request, since the pod is Guaranteed and the policy is TieredReservation" [Request Qos Policy] MEMORY_QOS;
    LOW_REQUEST: "request, since the pod is not Guaranteed and the policy is TieredReservation" [Request Qos Policy] MEMORY_QOS;
    ZERO_POLICY_NONE: "0: memoryReservationPolicy is None" [Policy] MEMORY_QOS;
    ZERO_NO_REQUEST: "0: no memory is requested" [Request] MEMORY_QOS;

    HIGH_LIMIT: "floor(floor(request + (limit − request) × factor) / page) × page" [Request Limit Factor Page] MEMORY_QOS;
    HIGH_ALLOCATABLE: "floor(floor(request + (allocatable − request) × factor) / page) × page, with the node's allocatable memory in place of the missing limit" [Request Allocatable Factor Page] MEMORY_QOS;
    HIGH_RESET: "max: MemoryQoS is off, and a value from when it was on must not stay" [] MEMORY_QOS;
    HIGH_NOTHING_SET: "nothing: neither a request nor a limit" [Request Limit] MEMORY_QOS;
    HIGH_REQUEST_IS_LIMIT: "nothing: request and limit are equal, the file keeps what it has" [Request Limit] MEMORY_QOS;
    HIGH_LEFT_TO_POD: "nothing: the container has no limit of its own, the pod's memory.high throttles it" [Limit PodLevelLimit] MEMORY_QOS;
    HIGH_NO_ALLOCATABLE: "nothing: no limit, and the node has no allocatable memory" [Allocatable] MEMORY_QOS;
    HIGH_BELOW_REQUEST: "nothing: the computed value is not above the request" [Request Limit Allocatable Factor Page] MEMORY_QOS;

    SWAP_NO_CONTROLLER: "nothing: the kernel has no memory.swap.max" [] SWAP;
    SWAP_GATE_OFF: "0: the gate NodeSwap is off" [] SWAP;
    SWAP_NONE: "0: swapBehavior is NoSwap, the default" [Swap] SWAP;
    SWAP_UNSET_UNLIMITED: "max: in 1.29 an unset swapBehavior means unlimited" [Swap] SWAP;
    SWAP_UNLIMITED: "max: swapBehavior is UnlimitedSwap" [Swap] SWAP;
    SWAP_CRITICAL: "0: critical pods (static, mirror, or priority from 2000000000) do not swap" [] SWAP;
    SWAP_NOT_BURSTABLE: "0: only Burstable pods swap under LimitedSwap" [Qos] SWAP;
    SWAP_NO_REQUEST: "0: no memory is requested" [Request Limit] SWAP;
    SWAP_REQUEST_IS_LIMIT: "0: request and limit are equal" [Request Limit] SWAP;
    SWAP_LIMITED: "trunc(request / node memory × node swap)" [Request NodeMemory NodeSwap] "KEP-2400 (node swap), calcSwapForBurstablePods";
    SWAP_REQUEST_ABOVE_NODE: "0: more is requested than the node has" [Request NodeMemory] "KEP-2400 (node swap), calcSwapForBurstablePods";

    OOM_NODE_CRITICAL: "-997: a critical pod of the class system-node-critical" [] OOM;
    OOM_GUARANTEED: "-997: Guaranteed" [Qos] OOM;
    OOM_BEST_EFFORT: "1000: BestEffort" [Qos] OOM;
    OOM_BURSTABLE: "1000 − 1000 × (request + extra) / node memory, within 3 and 999" [Request Extra NodeMemory] OOM;
    OOM_SIDECAR: "1000 − 1000 × (max(request, least request of the regular containers) + extra) / node memory, within 3 and 999" [Request LeastRequest Extra NodeMemory] OOM;

    POD_MAX: "the pod's limit with overhead" [PodLimit] POD_CONFIG;
    POD_NOT_ALL_LIMITED: "nothing: not every container has a memory limit, and neither has the pod level" [] POD_CONFIG;
    POD_BEST_EFFORT: "nothing: BestEffort" [Qos] POD_CONFIG;
    POD_POLICY_NONE: "nothing: memoryReservationPolicy is None" [Policy] POD_QOS;
    POD_NO_REQUEST: "nothing: the pod requests no memory" [PodRequest] POD_QOS;
    POD_MIN_ALPHA: "the pod's request with overhead" [PodRequest] POD_QOS;
    POD_MIN: "the pod's request with overhead, since it is Guaranteed and the policy is TieredReservation" [PodRequest Qos Policy] POD_QOS;
    POD_LOW: "the pod's request with overhead, since it is not Guaranteed and the policy is TieredReservation" [PodRequest Qos Policy] POD_QOS;
    POD_HIGH: "floor(floor(pod request + (pod limit − pod request) × factor) / page) × page" [PodRequest PodLimit Factor Page] POD_THROTTLE;
    POD_HIGH_UNKNOWN: "nothing: before 1.37 pods get no memory.high" [] POD_THROTTLE;
    POD_HIGH_NO_POD_LEVEL: "nothing: the pod has no pod-level resources" [] POD_THROTTLE;
    POD_HIGH_NOT_ALL_LIMITED: "nothing: not every container has a memory limit, and neither has the pod level" [] POD_THROTTLE;
    POD_HIGH_REQUEST_IS_LIMIT: "nothing: the pod has no limit, or request and limit are equal" [PodRequest PodLimit] POD_THROTTLE;

    KUBEPODS_MAX: "node memory − systemReserved − kubeReserved" [NodeMemory SystemReserved KubeReserved] ALLOCATABLE;
    KUBEPODS_MAX_CAPACITY: "node memory: enforceNodeAllocatable does not contain pods" [NodeMemory] ALLOCATABLE;
    SYSTEM_RESERVED: "systemReserved" [SystemReserved] "enforceExistingCgroup";
    KUBE_RESERVED: "kubeReserved" [KubeReserved] "enforceExistingCgroup";
    RESERVED_MIN: "the reservation, since MemoryQoS is on" [SystemReserved KubeReserved] "KEP-2570 (Memory QoS), enforceExistingCgroup";
    START_RESET: "0 at start: MemoryQoS is off or the policy is None" [Policy] "KEP-2570 (Memory QoS), qosContainerManagerImpl.Start and enforceNodeAllocatableCgroups";
    PERIODIC_ZERO: "0: memoryReservationPolicy is None" [Policy] QOS_UPDATE;
    KUBEPODS_MIN: "Guaranteed requests + Burstable requests" [GuaranteedSum BurstableSum] QOS_UPDATE;
    KUBEPODS_LOW: "Burstable requests" [BurstableSum] QOS_UPDATE;
    BURSTABLE_MIN: "Burstable requests" [BurstableSum] QOS_UPDATE;
    BURSTABLE_LOW: "Burstable requests" [BurstableSum] QOS_UPDATE;
    QOS_RESERVED: "allocatable minus the reserved share of the requests of the better classes" [Allocatable GuaranteedSum BurstableSum] "qosContainerManagerImpl.setMemoryReserve (alpha QOSReserved)";
}
