//! The shape of a node: all that its boot depends on, and so its checkpoint.

use crate::provider::machine::{Hardware, MachineError};
use crate::record::{DeviceRole, shm};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

const MIB: u64 = 1 << 20;

/// A node as a lab describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Shape {
    /// Bytes of memory the node has beside its devices.
    pub memory: u64,
    /// Its disks.
    pub devices: Vec<Device>,
    /// Pressure stall information.
    pub psi: bool,
    /// The mount option `memory_recursiveprot` of cgroup2, which systemd sets.
    pub memory_recursive_prot: bool,
    /// One instruction takes 2^shift virtual nanoseconds.
    pub icount_shift: u8,
    /// Further words for the kernel's command line.
    pub kernel_arguments: Vec<String>,
    /// Bytes of shared memory; what an arm may report.
    pub shared: usize,
}

/// A disk: memory behind a modelled latency, queue and bandwidth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Device {
    /// Its name, /dev/NAME in the node.
    pub name: String,
    /// What it is for.
    pub role: DeviceRole,
    /// Bytes; a multiple of 1 MiB.
    pub size: u64,
    /// Nanoseconds of a request.
    pub latency_ns: u64,
    /// Requests it works on at a time.
    pub depth: u32,
    /// Bandwidth cap in MB/s.
    pub mbps: Option<u32>,
    /// Holds an ext4, mounted at [`crate::record::DISK`].
    #[serde(default)]
    pub ext4: bool,
}

/// Kinds of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// 100 µs and a deep queue.
    Nvme,
    /// 150 µs, 32 requests, 500 MB/s.
    SataSsd,
    /// A spinning disk: as swap 10 ms and one request, as data 0.8 ms and 150 MB/s. One model cannot give both figures.
    Hdd,
}

/// Why a node cannot exist.
#[derive(Debug, thiserror::Error)]
pub enum ShapeError {
    /// Memory.
    #[error(
        "node memory of {bytes} bytes: it must be a multiple of 4096, at least 128 MiB (the kernel alone needs half) and at most 1 TiB"
    )]
    Memory {
        /// As given.
        bytes: u64,
    },
    /// A device's name.
    #[error("device name {name:?}: up to 24 of a-z, 0-9 and '-', beginning with a letter, used once, and not \"ballast\"")]
    Name {
        /// As given.
        name: String,
    },
    /// A device's size.
    #[error("device {name} of {bytes} bytes: the size must be a multiple of 1 MiB, from 1 MiB to 256 GiB")]
    Size {
        /// The device.
        name: String,
        /// As given.
        bytes: u64,
    },
    /// A device's model.
    #[error("device {name}: latency must be at most 1 s and depth from 1 to 1024")]
    Model {
        /// The device.
        name: String,
    },
    /// The rest.
    #[error("{what}")]
    Other {
        /// What is wrong and what to do.
        what: &'static str,
    },
}

impl Default for Shape {
    fn default() -> Shape {
        Shape {
            memory: 1 << 30,
            devices: Vec::new(),
            psi: true,
            memory_recursive_prot: true,
            icount_shift: 0,
            kernel_arguments: Vec::new(),
            shared: shm::DEFAULT_SIZE,
        }
    }
}

impl Device {
    /// A disk of a kind.
    pub fn new(name: &str, role: DeviceRole, size: u64, profile: Profile) -> Device {
        let (latency_us, depth, mbps) = match (profile, role) {
            (Profile::Nvme, _) => (100, 128, None),
            (Profile::SataSsd, _) => (150, 32, Some(500)),
            (Profile::Hdd, DeviceRole::Swap) => (10_000, 1, None),
            (Profile::Hdd, DeviceRole::Data) => (800, 1, Some(150)),
        };
        Device { name: name.to_owned(), role, size, latency_ns: latency_us * 1000, depth, mbps, ext4: false }
    }
}

impl Shape {
    /// Checks that such a node can exist.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self) -> Result<(), ShapeError> {
        if !self.memory.is_multiple_of(4096) || self.memory < 128 * MIB || self.memory > 1 << 40 {
            return Err(ShapeError::Memory { bytes: self.memory });
        }
        for (i, device) in self.devices.iter().enumerate() {
            let name = || device.name.clone();
            let letters = device.name.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-'));
            let again = self.devices[..i].iter().any(|other| other.name == device.name);
            let first = device.name.starts_with(|c: char| c.is_ascii_lowercase());
            if !letters || again || !first || device.name.len() > 24 || device.name == "ballast" {
                return Err(ShapeError::Name { name: name() });
            }
            if !device.size.is_multiple_of(MIB) || device.size == 0 || device.size > 256 << 30 {
                return Err(ShapeError::Size { name: name(), bytes: device.size });
            }
            if device.latency_ns > 1_000_000_000 || !(1..=1024).contains(&device.depth) {
                return Err(ShapeError::Model { name: name() });
            }
        }
        if self.icount_shift > 10 {
            return Err(ShapeError::Other { what: "instruction shift: at most 10 (one instruction per microsecond)" });
        }
        if !self.shared.is_power_of_two() || !(1 << 20..=1 << 30).contains(&self.shared) {
            return Err(ShapeError::Other { what: "shared memory: a power of two from 1 MiB to 1 GiB" });
        }
        if self.kernel_arguments.iter().any(|word| word.is_empty() || !word.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(ShapeError::Other { what: "kernel arguments: words of printable ASCII without spaces" });
        }
        Ok(())
    }

    /// Bytes of all devices.
    fn disks(&self) -> u64 {
        self.devices.iter().map(|device| device.size).sum()
    }

    /// The machine that can hold the node, its devices and the kernel; the ballast takes what is left over.
    pub(super) fn hardware(&self) -> Hardware {
        // A disk's index takes 0.7 % of it. The kernel's image and tables take 48 MiB, its page descriptors a 64th of all memory.
        let wanted = self.memory + self.disks() / 100 * 101 + 72 * MIB;
        Hardware { ram: (wanted / 62 * 63).next_multiple_of(MIB), icount_shift: self.icount_shift, shared: self.shared }
    }

    /// Checks that this machine can hold the booting node: written disks and ballast are real memory then.
    pub(super) fn check_host(&self, hardware: &Hardware) -> Result<(), MachineError> {
        let needs = hardware.ram - self.memory + hardware.ram / 64 + 256 * MIB;
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let line =
            text.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        match line.map(|kib| kib * 1024) {
            Some(available) if available < needs => Err(MachineError::HostMemory { needs, available }),
            _ => Ok(()),
        }
    }

    /// The stub's /boot.conf, without the modules.
    pub(super) fn boot_conf(&self) -> String {
        let mut text = String::new();
        if self.memory_recursive_prot {
            text.push_str("cgroup2 memory_recursiveprot\n");
        }
        _ = writeln!(text, "memory {}", self.memory);
        for Device { name, role, size, latency_ns, depth, mbps, ext4 } in &self.devices {
            let role = match role {
                DeviceRole::Swap => "swap",
                DeviceRole::Data => "data",
            };
            _ = writeln!(text, "device {name} {role} {size} {latency_ns} {depth} {}", mbps.unwrap_or(0));
            if *ext4 {
                _ = writeln!(text, "ext4 {name}");
            }
        }
        text
    }

    /// The kernel's command line. `panic=-1` makes a panic end QEMU; ramfs because a tmpfs root would be swapped out; without a bounce
    /// buffer because large machines would lose 64 MiB to it; tsc=reliable because the clock is the instruction count.
    pub(super) fn command_line(&self) -> String {
        let mut line = "console=ttyS0 rdinit=/init rootfstype=ramfs nokaslr norandmaps quiet panic=-1 random.trust_cpu=off \
                        tsc=reliable swiotlb=noforce"
            .to_owned();
        _ = write!(line, " psi={}", u8::from(self.psi));
        for word in &self.kernel_arguments {
            _ = write!(line, " {word}");
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impossible_nodes_are_refused() {
        let swap = |name: &str, size| Device::new(name, DeviceRole::Swap, size, Profile::Nvme);
        let with = |devices| Shape { devices, ..Shape::default() };
        assert!(with(vec![swap("swap0", MIB)]).validate().is_ok());
        assert!(matches!(Shape { memory: 0, ..Shape::default() }.validate(), Err(ShapeError::Memory { .. })));
        for name in ["", "Swap", "0a", "a/b", "ballast", "a b"] {
            assert!(matches!(with(vec![swap(name, MIB)]).validate(), Err(ShapeError::Name { .. })), "{name}");
        }
        assert!(matches!(with(vec![swap("a", MIB), swap("a", MIB)]).validate(), Err(ShapeError::Name { .. })));
        assert!(matches!(with(vec![swap("a", 0)]).validate(), Err(ShapeError::Size { .. })));
        assert!(matches!(with(vec![swap("a", MIB + 4096)]).validate(), Err(ShapeError::Size { .. })));
        let words = Shape { kernel_arguments: vec!["a b".into()], ..Shape::default() };
        assert!(matches!(words.validate(), Err(ShapeError::Other { .. })));
    }

    #[test]
    fn the_boot_is_told_everything() {
        let shape = Shape { devices: vec![Device::new("swap0", DeviceRole::Swap, MIB, Profile::Hdd)], ..Shape::default() };
        assert_eq!(
            shape.boot_conf(),
            "cgroup2 memory_recursiveprot\nmemory 1073741824\ndevice swap0 swap 1048576 10000000 1 0\n"
        );
        assert!(shape.command_line().ends_with("psi=1"));
    }
}
