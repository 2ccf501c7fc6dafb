//! Rules as records: the formula with its inputs filled in.

use crate::kubelet::{Container, Input, Node, PodPolicy, QosSums, SwapBehavior, Why};
use crate::record::Rule;
use crate::units::Quantity;

/// Everything a rule may read: a node, perhaps a pod, perhaps a container.
#[derive(Clone, Copy)]
pub(super) struct Context<'a> {
    pub(super) node: &'a Node,
    sums: &'a QosSums,
    pod: Option<&'a PodPolicy>,
    container: Option<&'a Container>,
}

impl<'a> Context<'a> {
    pub(super) fn node(node: &'a Node, sums: &'a QosSums) -> Self {
        Context { node, sums, pod: None, container: None }
    }

    pub(super) fn with_pod(self, pod: &'a PodPolicy) -> Self {
        Context { pod: Some(pod), ..self }
    }

    pub(super) fn with_container(self, container: &'a Container) -> Self {
        Context { container: Some(container), ..self }
    }

    /// The rule with its inputs; inputs that do not exist here are left out.
    pub(super) fn rule(&self, why: &Why) -> Rule {
        let inputs = why.inputs.iter().filter_map(|input| Some((name(*input).to_owned(), self.input(*input)?))).collect();
        Rule { formula: why.formula.to_owned(), inputs, source: why.source.to_owned() }
    }

    fn input(&self, input: Input) -> Option<String> {
        let (config, facts) = (&self.node.config, &self.node.facts);
        let bytes = |q: Option<Quantity>| q.map_or_else(|| "none".to_owned(), |q| q.ceil().to_string());
        let or_none = |bytes: i64| if bytes == 0 { "none".to_owned() } else { bytes.to_string() };
        Some(match input {
            Input::Request => bytes(self.container?.resources.requests.memory),
            Input::Limit => bytes(self.container?.resources.limits.memory),
            Input::PodRequest => self.pod?.requests.memory_bytes().to_string(),
            Input::PodLimit => bytes(self.pod?.limits.memory),
            Input::PodLevelLimit => or_none(self.pod?.level_memory_limit),
            Input::Extra => self.pod?.extra_request.to_string(),
            Input::LeastRequest => self.pod?.least_request.to_string(),
            Input::Allocatable => self.node.allocatable_absolute.to_string(),
            Input::NodeMemory => facts.memory.to_string(),
            Input::NodeSwap => facts.swap.to_string(),
            Input::Factor => config.factor.map_or_else(|| "none".to_owned(), |factor| factor.to_string()),
            Input::Page => facts.page_size.to_string(),
            Input::Policy => if config.tiered { "TieredReservation" } else { "None" }.to_owned(),
            Input::Swap => match config.swap {
                SwapBehavior::Unset => "unset",
                SwapBehavior::NoSwap => "NoSwap",
                SwapBehavior::LimitedSwap => "LimitedSwap",
                SwapBehavior::UnlimitedSwap => "UnlimitedSwap",
            }
            .to_owned(),
            Input::Qos => self.pod?.qos.name().to_owned(),
            Input::GuaranteedSum => self.sums.guaranteed.to_string(),
            Input::BurstableSum => self.sums.burstable.to_string(),
            Input::KubeReserved => bytes(config.kube_reserved),
            Input::SystemReserved => bytes(config.system_reserved),
        })
    }
}

fn name(input: Input) -> &'static str {
    match input {
        Input::Request => "request",
        Input::Limit => "limit",
        Input::PodRequest => "pod request",
        Input::PodLimit => "pod limit",
        Input::PodLevelLimit => "pod-level limit",
        Input::Extra => "extra",
        Input::LeastRequest => "least request of the regular containers",
        Input::Allocatable => "allocatable",
        Input::NodeMemory => "node memory",
        Input::NodeSwap => "node swap",
        Input::Factor => "factor",
        Input::Page => "page",
        Input::Policy => "policy",
        Input::Swap => "swapBehavior",
        Input::Qos => "QoS class",
        Input::GuaranteedSum => "Guaranteed requests",
        Input::BurstableSum => "Burstable requests",
        Input::KubeReserved => "kubeReserved",
        Input::SystemReserved => "systemReserved",
    }
}
