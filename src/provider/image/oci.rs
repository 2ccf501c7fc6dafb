//! Container images of one static program each, as one OCI archive: what a node needs so that it starts without a registry.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// The name of the workload image in a node's runtime.
pub const WORKLOAD: &str = "docker.io/library/highwater-node:latest";

/// A container image of one program.
#[derive(Debug, Clone, Copy)]
pub struct OneProgram<'a> {
    /// The image's name, complete: registry, repository and tag.
    pub name: &'a str,
    /// Where the program lies, from the root.
    pub path: &'a str,
    /// The program.
    pub program: &'a [u8],
    /// The entry point.
    pub entry: &'a [&'a str],
}

/// An archive (a tar of the OCI image layout) with these images; equal programs are in it once. The same images give the same bytes.
///
/// # Errors
/// A tar cannot be written (a program of more than 8 GiB).
pub fn archive(images: &[OneProgram<'_>]) -> std::io::Result<Vec<u8>> {
    let mut blobs = Blobs::default();
    let mut manifests = Vec::new();
    for image in images {
        let layer = blobs.add(LAYER, tar(&[(image.path, image.program, 0o755)])?);
        let config = json!({
            "architecture": "amd64",
            "os": "linux",
            "config": { "Entrypoint": image.entry, "Env": ["PATH=/usr/local/bin"] },
            "rootfs": { "type": "layers", "diff_ids": [layer["digest"]] },
        });
        let config = blobs.add(CONFIG, config.to_string().into_bytes());
        let manifest = json!({ "schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer] });
        let mut manifest = blobs.add(MANIFEST, manifest.to_string().into_bytes());
        // containerd takes the image's name from this annotation.
        manifest["annotations"] = json!({ "io.containerd.image.name": image.name });
        manifests.push(manifest);
    }
    let index = json!({ "schemaVersion": 2, "manifests": manifests }).to_string();
    let layout = json!({ "imageLayoutVersion": "1.0.0" }).to_string();
    let mut files = vec![("oci-layout", layout.as_bytes(), 0o644), ("index.json", index.as_bytes(), 0o644)];
    files.extend(blobs.0.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice(), 0o644)));
    tar(&files)
}

/// The workload image and the pause image, which are the same program.
#[must_use]
pub fn node_images<'a>(program: &'a [u8], workload: &'a str, pause: &'a str) -> [OneProgram<'a>; 2] {
    let image = |name, entry| OneProgram { name, path: "highwater-node", program, entry };
    [image(workload, &["/highwater-node"]), image(pause, &["/highwater-node", "pause"])]
}

#[derive(Default)]
struct Blobs(BTreeMap<String, Vec<u8>>);

impl Blobs {
    /// Adds a blob and returns its descriptor.
    fn add(&mut self, media_type: &str, bytes: Vec<u8>) -> Value {
        let digest: String = Sha256::digest(&bytes).iter().map(|b| format!("{b:02x}")).collect();
        let descriptor = json!({ "mediaType": media_type, "digest": format!("sha256:{digest}"), "size": bytes.len() });
        self.0.insert(format!("blobs/sha256/{digest}"), bytes);
        descriptor
    }
}

fn tar(files: &[(&str, &[u8], u32)]) -> std::io::Result<Vec<u8>> {
    let mut tar = tar::Builder::new(Vec::new());
    for (path, bytes, mode) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(*mode);
        tar.append_data(&mut header, path, *bytes)?;
    }
    tar.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn every_digest_of_the_archive_is_the_one_of_a_blob_in_it() {
        let images = node_images(b"program", "docker.io/library/highwater-node:latest", "registry.k8s.io/pause:3");
        let bytes = archive(&images).unwrap();
        let mut files = BTreeMap::new();
        for entry in tar::Archive::new(&bytes[..]).entries().unwrap() {
            let mut entry = entry.unwrap();
            let (path, mut content) = (entry.path().unwrap().display().to_string(), Vec::new());
            entry.read_to_end(&mut content).unwrap();
            files.insert(path, content);
        }
        let blob = |descriptor: &Value| {
            let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
            let bytes = &files[&format!("blobs/sha256/{digest}")];
            assert_eq!(descriptor["size"].as_u64().unwrap(), bytes.len() as u64);
            assert_eq!(digest, Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>());
            bytes
        };
        let index: Value = serde_json::from_slice(&files["index.json"]).unwrap();
        let mut names = Vec::new();
        for manifest in index["manifests"].as_array().unwrap() {
            names.push(manifest["annotations"]["io.containerd.image.name"].as_str().unwrap());
            let manifest: Value = serde_json::from_slice(blob(manifest)).unwrap();
            let config: Value = serde_json::from_slice(blob(&manifest["config"])).unwrap();
            assert_eq!(config["rootfs"]["diff_ids"][0], manifest["layers"][0]["digest"]);
            let mut layer = tar::Archive::new(&blob(&manifest["layers"][0])[..]);
            assert_eq!(layer.entries().unwrap().next().unwrap().unwrap().header().mode().unwrap(), 0o755);
        }
        assert_eq!(names, ["docker.io/library/highwater-node:latest", "registry.k8s.io/pause:3"]);
        assert_eq!(bytes, archive(&images).unwrap());
    }
}
