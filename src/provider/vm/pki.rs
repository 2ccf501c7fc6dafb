//! Throwaway certificates of one control plane: authorities that exist for a single run.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose, SanType,
};

/// A certificate authority.
#[derive(Debug)]
pub struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key, both PEM.
#[derive(Debug, Clone)]
pub struct Pair {
    /// The certificate.
    pub cert: String,
    /// The private key, PKCS #8.
    pub key: String,
}

/// A key pair that signs service account tokens, PEM.
#[derive(Debug, Clone)]
pub struct TokenKey {
    /// The private key.
    pub private: String,
    /// The public key.
    pub public: String,
}

impl Authority {
    /// Makes an authority with this common name.
    ///
    /// # Errors
    /// The crypto library's reason.
    pub fn new(name: &str) -> Result<Authority, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate()?;
        let pem = params.self_signed(&key)?.pem();
        Ok(Authority { pem, issuer: Issuer::new(params, key) })
    }

    /// Its own certificate, PEM.
    #[must_use]
    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// A certificate for a server that is reached under these addresses; it may be a client as well, as etcd's must.
    ///
    /// # Errors
    /// A name that a certificate cannot carry.
    pub fn server(&self, name: &str, reached_as: &[&str]) -> Result<Pair, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        for address in reached_as {
            params.subject_alt_names.push(match address.parse() {
                Ok(ip) => SanType::IpAddress(ip),
                Err(_) => SanType::DnsName((*address).try_into()?),
            });
        }
        self.sign(params)
    }

    /// A certificate that the API server takes for the user `name` of `group`.
    ///
    /// # Errors
    /// A name that a certificate cannot carry.
    pub fn client(&self, name: &str, group: &str) -> Result<Pair, rcgen::Error> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Result<Pair, rcgen::Error> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        Ok(Pair { cert: params.signed_by(&key, &self.issuer)?.pem(), key: key.serialize_pem() })
    }
}

impl TokenKey {
    /// Makes a key.
    ///
    /// # Errors
    /// The crypto library's reason.
    pub fn new() -> Result<TokenKey, rcgen::Error> {
        let key = KeyPair::generate()?;
        Ok(TokenKey { private: key.serialize_pem(), public: key.public_key_pem() })
    }
}

/// A kubeconfig with everything inline.
#[must_use]
pub fn kubeconfig(server: &str, authority: &Authority, user: &Pair) -> serde_json::Value {
    let base64 = |pem: &str| super::channel::base64(pem.as_bytes());
    serde_json::json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": "highwater",
            "cluster": { "server": server, "certificate-authority-data": base64(authority.pem()) },
        }],
        "users": [{
            "name": "user",
            "user": { "client-certificate-data": base64(&user.cert), "client-key-data": base64(&user.key) },
        }],
        "contexts": [{ "name": "highwater", "context": { "cluster": "highwater", "user": "user" } }],
        "current-context": "highwater",
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_distinct_and_say_what_they_are_for() {
        let authority = Authority::new("highwater").unwrap();
        let (one, two) = (authority.client("a", "g").unwrap(), authority.client("a", "g").unwrap());
        assert_ne!(one.cert, two.cert);
        assert!(one.key.starts_with("-----BEGIN PRIVATE KEY-----"));
        assert!(authority.server("api", &["10.0.2.2", "kubernetes.default"]).unwrap().cert.contains("BEGIN CERTIFICATE"));
        assert!(TokenKey::new().unwrap().public.starts_with("-----BEGIN PUBLIC KEY-----"));
        assert!(authority.server("api", &["not a name\u{e9}"]).is_err());
    }

    #[test]
    fn a_kubeconfig_carries_the_user_inline() {
        let authority = Authority::new("highwater").unwrap();
        let user = authority.client("system:node:n", "system:nodes").unwrap();
        let config = kubeconfig("https://10.0.2.2:1", &authority, &user);
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://10.0.2.2:1");
        assert!(config["users"][0]["user"]["client-key-data"].as_str().unwrap().starts_with("LS0tLS1CRUdJTi"));
    }
}
