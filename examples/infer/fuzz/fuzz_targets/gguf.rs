//! Everything that happens to a file before a device is opened.

#![no_main]

use infer::gguf::{Bytes, Gguf};
use infer::model::Model;
use infer::tokenizer::Tokenizer;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Ok(gguf) = Gguf::new("fuzz", Bytes::Owned(data.to_vec())) else { return };
    for name in gguf.tensor_names() {
        let tensor = gguf.tensor(name).expect("it was listed");
        assert_eq!(gguf.data(tensor).len(), tensor.data.len());
    }
    if let Ok(tokenizer) = Tokenizer::from_gguf(&gguf) {
        if let Ok(ids) = tokenizer.prompt("abc é <user> 12\u{1f642}") {
            assert!(ids.iter().all(|id| (*id as usize) < tokenizer.vocabulary().len()));
            for id in ids {
                tokenizer.bytes(id);
            }
        }
    }
    if let Ok(model) = Model::from_gguf(gguf) {
        for spec in model.specs() {
            let rows = model.rows(spec, 0, spec.rows);
            assert_eq!(rows.len() as u64, spec.kind.row_bytes(spec.width.into()).unwrap() * u64::from(spec.rows));
        }
    }
});
