//! The expansion of a random function is deterministic.

use crate::traced::expand;
use proc_macro2::TokenStream;

#[path = "../../../tests/generator/mod.rs"]
#[allow(dead_code, unused_imports)]
mod generator;

fn expansion(source: &str) -> String {
    let item = source.replacen("#[traced]\n", "", 1);
    let item: TokenStream = item.parse().expect("the generator writes tokens");
    expand(TokenStream::new(), item).to_string()
}

#[test]
fn equal_functions_have_equal_tokens() {
    for seed in 0..2 {
        let again = generator::functions(seed, 40);
        for (a, b) in generator::functions(seed, 40).iter().zip(&again) {
            assert_eq!(a.traced(), b.traced());
            assert_eq!(expansion(&a.traced()), expansion(&b.traced()));
        }
    }
}
