//! The kubelet policy against golden vectors of the real kubelet, for every version there are vectors of.

#![cfg(feature = "cli")]

#[path = "../xtask/src/vectors/mod.rs"]
#[allow(dead_code, reason = "the task's printing is not used here")]
mod vectors;

#[test]
fn every_public_resize_agrees() {
    let file = format!("{}/fixtures/vectors/resize-v1.37.2.jsonl", env!("CARGO_MANIFEST_DIR"));
    let outcome = vectors::check(&fs_err::read_to_string(&file).expect("the vectors are in the repository")).expect("resize");
    assert!(outcome.differences.is_empty(), "{:#?}", outcome.differences);
    assert_eq!(outcome.cases, 5);
}

#[test]
fn every_public_vector_agrees() {
    let mut cases = 0;
    for version in ["v1.29.15", "v1.34.4", "v1.35.4", "v1.36.3", "v1.37.2"] {
        let file = format!("{}/fixtures/vectors/{version}.jsonl", env!("CARGO_MANIFEST_DIR"));
        let text = fs_err::read_to_string(&file).expect("the vectors are in the repository");
        let outcome = vectors::check(&text).expect(version);
        assert!(outcome.differences.is_empty(), "{version}: {:#?}", outcome.differences);
        cases += outcome.cases;
    }
    assert_eq!(cases, 5 * 332);
}
