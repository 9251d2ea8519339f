//! Macros for items of a traced function that do not depend on its body.

use crate::tree::key::CallKey;

/// Returns the name of a field without `r#`.
pub fn unraw(name: &'static str) -> &'static str {
    name.strip_prefix("r#").unwrap_or(name)
}

/// Traits of a struct of gradients.
///
/// Fields are read as `(*self).x`, so that rustc reports only one error, whatever `self` is, if the
/// user has a struct of this name. The bounds are `for<'any>` because rustc checks a bound on a
/// type without parameters eagerly, and would report a parameter that is not a tree a second time.
#[doc(hidden)]
#[macro_export]
macro_rules! __grads {
    (
        $(#[$attr:meta])*
        $name:ident $([$($param:ident),*])? { $($field:ident: $ty:ty),* }
    ) => {
        $(#[$attr])*
        #[automatically_derived]
        impl $(<$($param),*>)? $crate::__private::Tree for $name $(<$($param),*>)?
        where
            $(for<'any> $ty: $crate::__private::Tree,)*
        {
            #[inline]
            fn visit(&self, f: &mut dyn ::core::ops::FnMut(&$crate::__private::Tensor)) {
                $($crate::__private::Tree::visit(&(*self).$field, f);)*
            }
            #[inline]
            fn visit_mut(&mut self, f: &mut dyn ::core::ops::FnMut(&mut $crate::__private::Tensor)) {
                $($crate::__private::Tree::visit_mut(&mut (*self).$field, f);)*
            }
            #[inline]
            fn map(
                &self,
                f: &mut dyn ::core::ops::FnMut(&$crate::__private::Tensor) -> $crate::__private::Tensor,
            ) -> Self {
                Self { $($field: $crate::__private::Tree::map(&(*self).$field, f)),* }
            }
            #[inline]
            fn paths(&self, prefix: &str, out: &mut ::std::vec::Vec<::std::string::String>) {
                $($crate::__private::field_paths(&(*self).$field, prefix, ::core::stringify!($field), out);)*
            }
            #[inline]
            fn __key<'key>(&'key self, key: &mut $crate::__private::CallKey<'key>) {
                $($crate::__private::Tree::__key(&(*self).$field, key);)*
            }
            #[inline]
            fn __frozen(&self, out: &mut ::std::vec::Vec<bool>) {
                $($crate::__private::Tree::__frozen(&(*self).$field, out);)*
            }
            const __SHARED: ::core::option::Option<&'static str> = ::core::option::Option::None;
        }

        $(#[$attr])*
        #[automatically_derived]
        impl $(<$($param),*>)? $crate::JacobianTree for $name $(<$($param),*>)?
        where
            $(for<'any> $ty: $crate::__private::Tree,)*
        {
            type Blocks<X: $crate::__private::Tree> = $crate::JacobianRows<Self, X>;
            fn __blocks<X: $crate::__private::Tree>(
                &self,
                rows: &mut dyn ::core::iter::Iterator<Item = X>,
            ) -> Self::Blocks<X> {
                $crate::JacobianRows::__new(self, rows)
            }
        }

        $(#[$attr])*
        #[automatically_derived]
        impl $(<$($param),*>)? ::core::clone::Clone for $name $(<$($param),*>)?
        where
            $(for<'any> $ty: ::core::clone::Clone,)*
        {
            #[inline]
            fn clone(&self) -> Self {
                Self { $($field: ::core::clone::Clone::clone(&(*self).$field)),* }
            }
        }

        $(#[$attr])*
        #[automatically_derived]
        impl $(<$($param),*>)? ::core::fmt::Debug for $name $(<$($param),*>)?
        where
            $(for<'any> $ty: ::core::fmt::Debug,)*
        {
            #[inline]
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.debug_struct(::core::stringify!($name))
                    $(.field($crate::__private::unraw(::core::stringify!($field)), &(*self).$field))*
                    .finish()
            }
        }
    };
}

/// Adds the paths of the leaves of a field.
pub fn field_paths<T: crate::Tree>(
    x: &T,
    prefix: &str,
    field: &'static str,
    out: &mut Vec<String>,
) {
    x.paths(&format!("{prefix}.{}", unraw(field)), out);
}

/// Adds the parts of a value that borrows from a tree to a key.
#[inline]
pub fn add_view<'key>(key: &mut CallKey<'key>, add: impl FnOnce(&mut CallKey<'key>)) {
    add(key);
}

/// Methods of a struct of residuals, from the formula of its bytes and its fields.
#[doc(hidden)]
#[macro_export]
macro_rules! __sizes {
    ($size:expr, [$($field:ident),*]) => {
        /// Returns the number of bytes of its tensors.
        #[inline]
        pub fn bytes(&self) -> usize {
            $crate::__private::bytes(&[$(&self.$field),*])
        }

        /// Returns the bytes of the residuals for these lengths of the named dims, if the shapes are known.
        #[inline]
        pub fn bytes_for(dims: &[(&str, u64)]) -> ::core::option::Option<u64> {
            let bytes: ::core::option::Option<$crate::__private::Formula> = $size;
            bytes?.eval(dims)
        }

        /// Returns the cotangents of the arguments, given the cotangent of the result.
        ///
        /// # Panics
        ///
        /// If `ct` has another structure, dtype or shape than the result.
        #[track_caller]
        pub fn pullback(&self, ct: &impl $crate::Tree) -> $crate::SavedCotangents {
            $crate::__private::pull_saved(ct, &self.result, |leaves| self.pull(leaves))
        }
    };
}

/// The methods of `Tree` of a struct of residuals with these fields.
///
/// Its leaves are the tensors, those of calls included.
#[doc(hidden)]
#[macro_export]
macro_rules! __residual_tree {
    ([$($field:ident),*]) => {
        fn visit(&self, f: &mut dyn ::core::ops::FnMut(&$crate::Tensor)) {
            $($crate::__private::Residual::visit(&self.$field, f);)*
        }
        fn visit_mut(&mut self, f: &mut dyn ::core::ops::FnMut(&mut $crate::Tensor)) {
            $($crate::__private::Residual::visit_mut(&mut self.$field, f);)*
        }
        fn map(
            &self,
            f: &mut dyn ::core::ops::FnMut(&$crate::Tensor) -> $crate::Tensor,
        ) -> Self {
            let mut mapped = ::core::clone::Clone::clone(self);
            $crate::Tree::visit_mut(&mut mapped, &mut |x| *x = f(x));
            mapped
        }
        fn paths(&self, prefix: &str, out: &mut ::std::vec::Vec<::std::string::String>) {
            $($crate::__private::residual_paths(
                &self.$field,
                prefix,
                ::core::stringify!($field),
                out,
            );)*
        }
    };
}

/// Looks up a call of a companion: `Ok` with the results of a cached plan, or `Err` with a
/// recording.
///
/// `new` is the constructor of [`Function`](crate::function::Function), and the literal is its
/// path. Each parameter has its position, kind, name and value. Tangents count as one parameter. The values are numbers
/// that are computed from parameters of kind `operand`, each after the set of these.
#[doc(hidden)]
#[macro_export]
macro_rules! __begin {
    (
        $new:ident $path:literal, [$($i:literal $kind:ident $name:literal $x:expr),*]
        $(, values [$($of:literal $value:expr),*])?
        $(, tangents $n:literal [$($dx:expr),*])?
        $(, instance $instance:expr)?
        $(, if $fit:expr, $why:expr)?
    ) => {{
        $($crate::__private::note_fit($fit, ::core::concat!(::core::module_path!(), $path));)?
        ::std::thread_local! {
            static __TRACED_SITE: $crate::__private::CallSite = const {
                $crate::__private::CallSite::new($crate::__private::Function::$new(
                    ::core::concat!(::core::module_path!(), $path),
                    &[$($crate::__private::Param::$kind($name)),*],
                ))
            };
        }
        $crate::__private::begin(&__TRACED_SITE, |key| {
            $(key.instance(&$instance);)?
            $(
                let fit = $fit;
                if !fit {
                    key.unknown($why);
                }
            )?
            $(
                key.param($i);
                $crate::__add_to_key!(key $kind $x);
            )*
            $($(key.value($of, (|| ::core::option::Option::Some($value))());)*)?
            $(
                key.param($n);
                $($crate::__add_to_key!(key tree $dx);)*
            )?
        })
    }};
}

/// Looks up a call as [`__begin`] does. If a plan is cached, the companion returns its results;
/// otherwise the value of this macro is the recording that has begun.
#[doc(hidden)]
#[macro_export]
macro_rules! __cached {
    (|$results:ident| $found:expr; $($call:tt)*) => {
        match $crate::__begin!($($call)*) {
            ::core::result::Result::Ok(mut $results) => return $found,
            ::core::result::Result::Err(recording) => recording,
        }
    };
}

/// Pullback of a companion, from the cotangent of its result to those of its parameters, each with its position and the
/// structure of its argument. The literal is the companion's name.
#[doc(hidden)]
#[macro_export]
macro_rules! __pullback {
    ($name:literal, $pull:ident: $ct:ty, $($i:literal $like:expr),*) => {{
        let made = $crate::__private::TransformSite::by($name);
        move |ct: $ct| {
            let mut cotangents = $pull.call(ct, made);
            ($($crate::__private::pulled_back($like, &mut cotangents, $i)),*)
        }
    }};
}

/// Panics if a leaf of an argument is not a float; each argument is followed by its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __check_all_floats {
    ($($name:literal $x:expr),*) => {
        $($crate::__private::check_floats($x, $name);)*
    };
}

/// Arguments of a call that is recorded, each after its position.
#[doc(hidden)]
#[macro_export]
macro_rules! __arguments {
    () => { $crate::__private::no_arguments() };
    ($i:literal $x:expr $(, $rest_i:literal $rest:expr)*) => {
        $crate::__private::argument($i, $x, $crate::__arguments!($($rest_i $rest),*))
    };
}

/// Number of queries to rustc that it confirms before the first that it does not.
///
/// The queries are split into groups to limit the depth of their types. Items in braces precede
/// those of a group. The last expression counts further queries.
#[doc(hidden)]
#[macro_export]
macro_rules! __answers {
    ($last:expr) => { $last };
    ({$($item:item)*} $n:literal [$($query:expr),*] $($rest:tt)*) => {{
        let n = $crate::__private::n_yes(&|| {
            use $crate::__private::by_type::*;
            $($item)*
            $crate::__list!($($query),*)
        });
        if n < $n { n } else { $n + $crate::__answers!($($rest)*) }
    }};
}

/// Nested pairs of expressions, ended by `()`.
#[doc(hidden)]
#[macro_export]
macro_rules! __list {
    () => { () };
    ($first:expr $(, $rest:expr)*) => { ($first, $crate::__list!($($rest),*)) };
}

/// Adds an argument to a key. A value that borrows parts of a tree is given as a closure that adds
/// these.
#[doc(hidden)]
#[macro_export]
macro_rules! __add_to_key {
    ($key:ident leaf $x:expr) => {
        $key.leaf($x)
    };
    ($key:ident tree $x:expr) => {{
        use $crate::__private::by_type::*;
        (&&$crate::__private::StaticArg($x)).add_tree_to_key($key);
    }};
    ($key:ident operand $x:expr) => {
        $key.number($x)
    };
    ($key:ident view $add:expr) => {
        $crate::__private::add_view($key, $add)
    };
    ($key:ident $kind:ident $x:expr) => {{
        use $crate::__private::by_type::*;
        (&&&&&$crate::__private::StaticArg($x)).add_to_key($key);
    }};
}
