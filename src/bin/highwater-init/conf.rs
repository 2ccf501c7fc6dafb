//! What the host asks of the boot.

use highwater::record::DeviceRole;
use std::io;

#[derive(Debug, Default)]
pub struct Conf {
    pub modules: Vec<Module>,
    pub cgroup2: String,
    /// Bytes the node is to have.
    pub memory: u64,
    pub devices: Vec<Device>,
}

#[derive(Debug)]
pub struct Module {
    pub path: String,
    pub compressed: bool,
}

#[derive(Debug)]
pub struct Device {
    pub name: String,
    pub role: DeviceRole,
    pub bytes: u64,
    pub latency_ns: u64,
    pub depth: u64,
    /// 0 for no cap, as null_blk has it.
    pub mbps: u64,
    /// Gets the file system of /ext4/NAME.
    pub ext4: bool,
}

impl Conf {
    pub fn parse(text: &str) -> io::Result<Conf> {
        let mut conf = Conf::default();
        for line in text.lines() {
            let wrong = || io::Error::new(io::ErrorKind::InvalidData, format!("/boot.conf: cannot read line {line:?}"));
            let number = |word: &str| word.parse::<u64>().map_err(|_| wrong());
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["module", path, how @ ("plain" | "compressed")] => {
                    conf.modules.push(Module { path: path.into(), compressed: how == "compressed" });
                }
                ["cgroup2", options] => conf.cgroup2 = options.into(),
                ["memory", bytes] => conf.memory = number(bytes)?,
                ["device", name, role @ ("swap" | "data"), bytes, latency, depth, mbps] => conf.devices.push(Device {
                    name: name.into(),
                    role: if role == "swap" { DeviceRole::Swap } else { DeviceRole::Data },
                    bytes: number(bytes)?,
                    latency_ns: number(latency)?,
                    depth: number(depth)?,
                    mbps: number(mbps)?,
                    ext4: false,
                }),
                ["ext4", name] => {
                    conf.devices.iter_mut().find(|device| device.name == name).ok_or_else(wrong)?.ext4 = true;
                }
                _ => return Err(wrong()),
            }
        }
        Ok(conf)
    }
}
