//! The only place that spells where the run time is.

use crate::args::Args;
use proc_macro2::TokenStream;
use quote::quote;

/// The crate of the run time.
pub(crate) fn krate(args: &Args) -> TokenStream {
    match &args.krate {
        Some(path) => quote!(#path),
        None => quote!(::gradloom),
    }
}

/// The module of the run time that generated code uses.
pub(crate) fn private(args: &Args) -> TokenStream {
    let krate = krate(args);
    quote!(#krate::__private)
}
