//! Checkpoints as safetensors files in shards: written with the index that names each tensor's shard, and read by their headers.
//!
//! The format: eight bytes with the header's length, a JSON object of tensors with their types, shapes and offsets, padded with blanks, then the
//! data. What is said of the form here is what the format's own library accepts: no hole, no overlap, nothing behind the last tensor.

use super::files;
use super::memory::Block;
use super::{WorkloadError, system};
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The longest header the format allows, in bytes.
pub const LONGEST_HEADER: u64 = 100_000_000;

/// The index of a checkpoint in shards.
pub const INDEX: &str = "model.safetensors.index.json";

/// Why some bytes are no header of a safetensors file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// Too short or too long.
    #[error("a header of {length} bytes in a file of {file}: it must fit, and be at most {LONGEST_HEADER}")]
    Length {
        /// What the first eight bytes say.
        length: u64,
        /// Bytes of the file.
        file: u64,
    },
    /// Not a JSON object of tensors.
    #[error("the header: {0}")]
    Json(String),
    /// A tensor that cannot be.
    #[error("tensor {name:?}: {problem}")]
    Tensor {
        /// Its name.
        name: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Data that belongs to no tensor, or is not there.
    #[error("the tensors end at byte {tensors} of the data, the file at {file}")]
    End {
        /// Where the last tensor ends.
        tensors: u64,
        /// Where the file ends.
        file: u64,
    },
}

/// A tensor of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name.
    pub name: String,
    /// Its first byte in the file.
    pub begin: u64,
    /// Its bytes.
    pub len: u64,
}

#[derive(Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

fn bits(dtype: &str) -> Option<u64> {
    Some(match dtype {
        "F4" => 4,
        "F6_E2M3" | "F6_E3M2" => 6,
        "BOOL" | "U8" | "I8" | "F8_E5M2" | "F8_E4M3" | "F8_E8M0" | "F8_E4M3FNUZ" | "F8_E5M2FNUZ" => 8,
        "I16" | "U16" | "F16" | "BF16" => 16,
        "I32" | "U32" | "F32" => 32,
        "I64" | "U64" | "F64" | "C64" => 64,
        _ => return None,
    })
}

/// The tensors of a header, in the order of their data. `header` is what stands between the length and the data of a file of `file` bytes.
///
/// # Errors
/// What the format does not allow.
pub fn tensors(header: &[u8], file: u64) -> Result<Vec<Tensor>, Refused> {
    let length = header.len() as u64;
    let Some(data) = file.checked_sub(8 + length).filter(|_| length <= LONGEST_HEADER) else {
        return Err(Refused::Length { length, file });
    };
    if header.first() != Some(&b'{') {
        return Err(Refused::Json("it does not begin with {".to_owned()));
    }
    let entries: serde_json::Map<String, Value> = serde_json::from_slice(header).map_err(|e| Refused::Json(e.to_string()))?;
    let mut found = Vec::new();
    for (name, value) in entries.into_iter().filter(|(name, _)| name != "__metadata__") {
        let refuse = |problem| Refused::Tensor { name: name.clone(), problem };
        let entry = Entry::deserialize(value).map_err(|_| refuse("not a dtype, a shape and two data_offsets"))?;
        let bits = bits(&entry.dtype).ok_or_else(|| refuse("its dtype is unknown"))?;
        let size = entry.shape.iter().try_fold(bits, |size, side| size.checked_mul(*side));
        let [begin, end] = entry.data_offsets;
        let len = end.checked_sub(begin).ok_or_else(|| refuse("it ends before it begins"))?;
        if size.is_none() || size != len.checked_mul(8) {
            return Err(refuse("its shape needs another size than its data_offsets give"));
        }
        found.push(Tensor { name, begin, len });
    }
    found.sort_by_key(|tensor| (tensor.begin, tensor.len));
    let mut at = 0;
    for tensor in &mut found {
        if tensor.begin != at {
            return Err(Refused::Tensor { name: tensor.name.clone(), problem: "a hole before it, or it lies in another" });
        }
        at += tensor.len;
        if at > data {
            break;
        }
        tensor.begin += 8 + length;
    }
    if at == data { Ok(found) } else { Err(Refused::End { tensors: at, file: data }) }
}

/// A shard, open.
#[derive(Debug)]
pub struct Shard {
    /// The file.
    pub file: File,
    /// Its bytes.
    pub len: usize,
    /// Its tensors, in the order of their data.
    pub tensors: Vec<Tensor>,
}

/// Opens the shards of a checkpoint in the order of their names, as loaders do.
///
/// # Errors
/// There is none, or one is not as the format says.
pub fn open(checkpoint: &Path) -> Result<Vec<Shard>, WorkloadError> {
    let list = || -> io::Result<Vec<PathBuf>> {
        let entries = std::fs::read_dir(checkpoint)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
        Ok(entries.into_iter().filter(|path| path.extension().is_some_and(|end| end == "safetensors")).collect())
    };
    let mut paths = list().map_err(system(format!("list {}", checkpoint.display())))?;
    paths.sort();
    let unfit = |problem| WorkloadError::Unfit { workload: "loader", problem };
    if paths.is_empty() {
        return Err(unfit(format!("no *.safetensors in {}: let --make write a checkpoint of some size", checkpoint.display())));
    }
    let open = |path: &PathBuf| {
        let what = || format!("read {}", path.display());
        let mut file = File::open(path).map_err(system(what()))?;
        let len = file.metadata().map_err(system(what()))?.len();
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(system(what()))?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER.min(len.saturating_sub(8)) {
            return Err(unfit(format!("{}: {}", path.display(), Refused::Length { length, file: len })));
        }
        let mut header = vec![0; length as usize];
        file.read_exact(&mut header).map_err(system(what()))?;
        let tensors = tensors(&header, len).map_err(|refused| unfit(format!("{}: {refused}", path.display())))?;
        Ok(Shard { file, len: usize::try_from(len).unwrap_or(usize::MAX), tensors })
    };
    paths.iter().map(open).collect()
}

/// What a checkpoint that is made consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Make {
    /// Bytes of all tensors, rounded up to whole tensors.
    pub bytes: usize,
    /// Files.
    pub shards: usize,
    /// Bytes of a tensor.
    pub tensor: usize,
}

// The width of a made tensor's rows: 1024 numbers of BF16.
const ROW: usize = 2048;

/// Writes a checkpoint unless its index is there, and puts it out of the page cache. The index comes last,
/// and says that all is there.
///
/// # Errors
/// The files cannot be written.
pub fn make(checkpoint: &Path, make: Make, seed: u64) -> Result<(), WorkloadError> {
    if checkpoint.join(INDEX).exists() {
        return Ok(());
    }
    write(checkpoint, make, seed).map_err(system(format!("write a checkpoint to {}", checkpoint.display())))
}

fn write(checkpoint: &Path, make: Make, seed: u64) -> io::Result<()> {
    std::fs::create_dir_all(checkpoint)?;
    let rows = make.tensor.div_ceil(ROW).max(1);
    let tensor = rows * ROW;
    let count = make.bytes.div_ceil(tensor).max(make.shards);
    let mut weight_map = serde_json::Map::new();
    let mut content = Block::anonymous(tensor)?;
    for shard in 0..make.shards {
        let name = format!("model-{:05}-of-{:05}.safetensors", shard + 1, make.shards);
        let first = count * shard / make.shards;
        let names: Vec<_> = (first..count * (shard + 1) / make.shards).map(|n| format!("model.layers.{n:04}.weight")).collect();
        // The index is written last and says that all is there; a shard of a writer that was killed is written again.
        let mut file = File::create(checkpoint.join(&name))?;
        file.write_all(&header(&names, rows))?;
        for (number, tensor_name) in (first..).zip(names) {
            content.fill(0, tensor, seed.wrapping_add(number as u64));
            file.write_all(content.bytes(0, tensor))?;
            weight_map.insert(tensor_name, json!(name));
        }
        file.sync_all()?;
        files::forget(&file)?;
    }
    let index = json!({"metadata": {"total_size": count * tensor}, "weight_map": weight_map});
    std::fs::write(checkpoint.join(INDEX), index.to_string())
}

// The length, the header and its padding, for tensors of `rows` rows in this order.
fn header(names: &[String], rows: usize) -> Vec<u8> {
    let size = rows * ROW;
    let mut entries = serde_json::Map::new();
    entries.insert("__metadata__".to_owned(), json!({"format": "pt"}));
    for (number, name) in names.iter().enumerate() {
        let entry = json!({"dtype": "BF16", "shape": [rows, ROW / 2], "data_offsets": [number * size, (number + 1) * size]});
        entries.insert(name.clone(), entry);
    }
    let mut text = Value::Object(entries).to_string().into_bytes();
    text.resize(text.len().next_multiple_of(8), b' ');
    [&(text.len() as u64).to_le_bytes()[..], &text].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn refused(header: &str, data: u64) -> String {
        tensors(header.as_bytes(), 8 + header.len() as u64 + data).unwrap_err().to_string()
    }

    #[test]
    fn what_the_format_forbids_is_refused() {
        let one = r#"{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        assert_eq!(tensors(one.as_bytes(), 8 + 54 + 8).unwrap()[0].begin, 62);
        assert_eq!(refused(one, 9), "the tensors end at byte 8 of the data, the file at 9");
        assert_eq!(refused(one, 7), "the tensors end at byte 8 of the data, the file at 7");
        assert!(refused(&one.replace("F32", "F31"), 8).contains("dtype is unknown"));
        assert!(refused(&one.replace("[2]", "[3]"), 8).contains("another size"));
        assert!(refused(&one.replace("[2]", "[4611686018427387904,4]"), 8).contains("another size"));
        assert!(refused(&one.replace("[0,8]", "[8,16]"), 16).contains("a hole before it"));
        assert!(refused(&one.replace("[0,8]", "[8,0]"), 8).contains("ends before it begins"));
        assert!(refused(" {}", 0).contains("begin with {"));
        assert!(refused("{", 0).starts_with("the header: "));
        let twice =
            r#"{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}"#;
        assert!(refused(twice, 8).contains("lies in another"));
        assert!(matches!(tensors(b"{}", 3), Err(Refused::Length { length: 2, file: 3 })));
        assert_eq!(tensors(b"{}  ", 12), Ok(Vec::new()), "padding, and no tensor");
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(bytes in 1usize..60_000, shards in 1usize..4, tensor in 1usize..9000) {
            let directory = tempfile::tempdir().unwrap();
            make(directory.path(), Make { bytes, shards, tensor }, 1).unwrap();
            make(directory.path(), Make { bytes: 1 << 40, shards, tensor }, 1).unwrap();
            let found = open(directory.path()).unwrap();
            prop_assert_eq!(found.len(), shards);
            let all: Vec<_> = found.iter().flat_map(|shard| &shard.tensors).collect();
            let size = all.iter().map(|tensor| tensor.len).sum::<u64>() as usize;
            prop_assert!(size >= bytes && size < bytes + shards * (tensor + ROW));
            prop_assert!(all.windows(2).all(|pair| pair[0].name < pair[1].name), "each name once, in order");
            let index: Value = serde_json::from_slice(&std::fs::read(directory.path().join(INDEX)).unwrap()).unwrap();
            prop_assert_eq!(index["weight_map"].as_object().unwrap().len(), all.len());
            prop_assert_eq!(index["metadata"]["total_size"].as_u64(), Some(size as u64));
            prop_assert!(found.iter().all(|shard| shard.tensors[0].begin % 8 == 0));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200), file in any::<u64>()) {
            if let Ok(tensors) = tensors(&bytes, file) {
                prop_assert!(tensors.iter().all(|tensor| tensor.begin + tensor.len <= file));
            }
        }
    }
}
