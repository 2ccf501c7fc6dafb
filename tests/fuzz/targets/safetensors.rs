//! Any bytes are the header of a safetensors file or refused; the tensors of one that is read cover the file's data and nothing else.

#![no_main]

use highwater::workload::safetensors::tensors;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&[u8], u32)| {
    let (header, data) = input;
    let begin = 8 + header.len() as u64;
    if let Ok(tensors) = tensors(header, begin + u64::from(data)) {
        let mut at = begin;
        for tensor in &tensors {
            assert_eq!(tensor.begin, at);
            at += tensor.len;
        }
        assert_eq!(at, begin + u64::from(data));
    }
});
