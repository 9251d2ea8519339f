//! The only module that spells the path of the run time.

use crate::input::args::Args;
use proc_macro2::TokenStream;
use quote::quote;

/// Returns the path of the run time's crate.
pub(crate) fn krate(args: &Args) -> TokenStream {
    match &args.krate {
        Some(path) => quote!(#path),
        None => quote!(::gradloom),
    }
}

/// Returns the path of the module that generated code uses.
pub(crate) fn run_time(args: &Args) -> TokenStream {
    let krate = krate(args);
    quote!(#krate::__private)
}
