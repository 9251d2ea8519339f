//! `HASH` and `RECORDED` cover constants and callees, which are known only to rustc.
#![allow(
    clippy::declare_interior_mutable_const,
    clippy::borrow_interior_mutable_const
)] // constants with cells are tested, too
#![allow(deprecated)] // some functions here are recorded on purpose
#![allow(unknown_lints, const_item_interior_mutations)] // constants with cells are tested, too
#![allow(clippy::useless_conversion, clippy::assign_op_pattern, unreachable_pub)] // variants of one source

use gradloom::prelude::*;

/// Defines two modules with the same source except for the items that differ.
macro_rules! pairs {
    ($($name:ident { $($first:item)* } { $($second:item)* } in { $($common:item)* })*) => {$(
        mod $name {
            pub(crate) mod first {
                #[allow(unused_imports)]
                use gradloom::prelude::*;
                $($first)*
                $($common)*
            }
            pub(crate) mod second {
                #[allow(unused_imports)]
                use gradloom::prelude::*;
                $($second)*
                $($common)*
            }
        }
    )*};
}

/// Defines functions that name a constant of each type that can be hashed.
macro_rules! constants {
    ($($name:ident: $ty:ty = $a:expr, $b:expr;)*) => {
        $(mod $name {
            macro_rules! function {
                ($module:ident, $value:expr) => {
                    pub(crate) mod $module {
                        #[allow(unused_imports)]
                        use gradloom::prelude::*;
                        const VALUE: $ty = $value;
                        static PLACE: $ty = $value;

                        #[traced]
                        pub(crate) fn constant(x: &Tensor) -> Tensor {
                            let _value = &VALUE;
                            x * 2.0
                        }

                        #[traced]
                        pub(crate) fn place(x: &Tensor) -> Tensor {
                            let _value = &PLACE;
                            x * 2.0
                        }
                    }
                };
            }
            function!(first, $a);
            function!(again, $a);
            function!(second, $b);
        })*

        #[test]
        fn the_hash_covers_the_value_of_a_constant() {
            $(
                assert_ne!($name::first::constant::HASH, $name::second::constant::HASH, stringify!($name));
                assert_ne!($name::first::place::HASH, $name::second::place::HASH, stringify!($name));
                assert_eq!($name::first::constant::HASH, $name::again::constant::HASH, stringify!($name));
                assert_eq!($name::first::place::HASH, $name::again::place::HASH, stringify!($name));
            )*
        }
    };
}

constants! {
    a_float: f64 = 3.0, 4.0;
    a_zero: f64 = 0.0, -0.0;
    a_small_float: f32 = 1.5, 1.25;
    an_integer: i64 = -1, -2;
    a_length: usize = 0, 1;
    a_byte: u8 = 0, 255;
    a_truth: bool = true, false;
    a_letter: char = 'a', 'b';
    a_text: &str = "mean", "sum";
    a_dtype: DType = DType::F32, DType::F64;
    an_array: [usize; 3] = [1, 2, 3], [1, 3, 2];
    a_slice: &[f64] = &[1.0], &[1.0, 0.0];
    a_table: [[f32; 2]; 2] = [[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [4.0, 3.0]];
    an_option: Option<usize> = None, Some(0);
}

/// Constants that cannot be hashed still compile.
mod unreadable {
    use gradloom::prelude::*;
    use std::cell::Cell;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{LazyLock, Mutex};

    static LOCK: Mutex<f64> = Mutex::new(2.0);
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    static LAZY: LazyLock<Tensor> = LazyLock::new(|| Tensor::scalar(3.0f64));
    const NONE: Option<Tensor> = None;
    const CELL: Cell<f64> = Cell::new(1.0);
    thread_local!(static LOCAL: Cell<f64> = const { Cell::new(1.0) });

    #[traced(record)]
    pub(crate) fn all(x: &Tensor) -> Tensor {
        COUNT.fetch_add(1, Ordering::Relaxed);
        let factor = *LOCK.lock().unwrap() + CELL.get() + LOCAL.get();
        match NONE {
            Some(other) => other,
            None => x * factor * &*LAZY,
        }
    }
}

#[test]
fn a_constant_that_cannot_be_hashed_is_allowed() {
    let y = unreadable::all(&Tensor::scalar(2.0f64));
    assert_eq!(y.item::<f64>(), 24.0);
}

/// Constants whose types need drop still compile: a constant expression cannot drop them.
mod dropped {
    use gradloom::prelude::*;

    #[derive(Clone, PartialEq, Eq)]
    struct Names(Vec<String>);

    impl Drop for Names {
        fn drop(&mut self) {}
    }

    const NAMES: Names = Names(Vec::new());
    const LIST: Vec<f64> = Vec::new();
    static PLACE: Names = Names(Vec::new());
    const SCALES: [Option<Vec<f64>>; 2] = [const { None }; 2];

    #[derive(Clone, Tree)]
    pub(crate) struct Layer {
        pub(crate) w: Tensor,
    }

    impl Layer {
        const TEXT: String = String::new();
    }

    #[traced]
    impl Layer {
        pub(crate) fn forward(&self, x: &Tensor) -> Tensor {
            x * &self.w * (Self::TEXT.len() + 2) as f64
        }
    }

    #[traced]
    pub(crate) fn all(x: &Tensor) -> Tensor {
        let n = NAMES.0.len() + LIST.len() + PLACE.0.len() + SCALES.len();
        x * n as f64
    }
}

#[test]
fn a_constant_that_needs_drop_is_allowed() {
    let x = Tensor::scalar(2.0f64);
    assert_eq!(dropped::all(&x).item::<f64>(), 4.0);
    let layer = dropped::Layer { w: x.clone() };
    assert_eq!(layer.forward(&x).item::<f64>(), 8.0);
    let _ = (dropped::all::HASH, dropped::Layer::FORWARD_HASH);
}

pairs! {
    a_method_body {
        #[derive(Clone, Tree)]
        pub(crate) struct Layer { pub(crate) w: Tensor }
        #[traced]
        impl Layer {
            pub(crate) fn forward(&self, x: &Tensor) -> Tensor { (x * &self.w).sin() }
        }
    } {
        #[derive(Clone, Tree)]
        pub(crate) struct Layer { pub(crate) w: Tensor }
        #[traced]
        impl Layer {
            pub(crate) fn forward(&self, x: &Tensor) -> Tensor { (x * &self.w).cos() }
        }
    } in {
        #[derive(Clone, Tree)]
        pub(crate) struct Net { first: Layer, boxed: Box<Layer>, layers: Vec<Layer> }
        #[traced]
        impl Net {
            pub(crate) fn field(&self, x: &Tensor) -> Tensor { self.first.forward(x) * 2.0 }
            pub(crate) fn boxed(&self, x: &Tensor) -> Tensor { self.boxed.forward(x) * 2.0 }
            pub(crate) fn element(&self, x: &Tensor) -> Tensor { self.layers[0].forward(x) * 2.0 }
            pub(crate) fn looped(&self, x: &Tensor) -> Tensor {
                let mut y = x.clone();
                for layer in &self.layers { y = layer.forward(&y); }
                y
            }
            pub(crate) fn fallible(&self, x: &Tensor) -> gradloom::Result<Tensor> {
                if x.rank() == 7 { return Ok(x.clone()); }
                Ok(self.first.forward(x))
            }
            pub(crate) fn by_value(self, x: &Tensor) -> Tensor { self.first.forward(x) }
        }
        #[traced]
        pub(crate) fn free(net: &Net, x: &Tensor) -> Tensor { net.field(x).exp() }
        #[traced]
        pub(crate) fn deep(net: &Net, x: &Tensor) -> Tensor { free(net, x).exp() }
        #[traced]
        pub(crate) fn renewed(net: &Net, x: &Tensor, n: usize) -> Tensor {
            if n == 0 { x.clone() } else { renewed(net, &net.looped(x), n - 1) }
        }
    }

    an_associated_function {
        pub(crate) struct Ops;
        #[traced]
        impl Ops { pub(crate) fn wave(x: &Tensor) -> Tensor { x.sin() } }
    } {
        pub(crate) struct Ops;
        #[traced]
        impl Ops { pub(crate) fn wave(x: &Tensor) -> Tensor { x.cos() } }
    } in {
        #[traced]
        pub(crate) fn calls(x: &Tensor) -> Tensor { Ops::wave(x) * 2.0 }
    }

    an_associated_constant {
        #[derive(Clone, Tree)]
        pub(crate) struct Layer { w: Tensor }
        impl Layer { const SCALE: f64 = 2.0; }
    } {
        #[derive(Clone, Tree)]
        pub(crate) struct Layer { w: Tensor }
        impl Layer { const SCALE: f64 = 3.0; }
    } in {
        #[traced]
        impl Layer {
            pub(crate) fn forward(&self, x: &Tensor) -> Tensor { x * &self.w * Self::SCALE }
        }
    }

    a_generic_block {
        #[traced]
        pub(crate) fn leaf(x: &Tensor) -> Tensor { x.sin() }
    } {
        #[traced]
        pub(crate) fn leaf(x: &Tensor) -> Tensor { x.cos() }
    } in {
        #[derive(Clone, Tree)]
        pub(crate) struct Layer { w: Tensor }
        #[traced]
        impl Layer {
            pub(crate) fn forward(&self, x: &Tensor) -> Tensor { leaf(x) * &self.w }
        }
        #[derive(Clone, Tree)]
        pub(crate) struct Net<T: Tree> { layer: Layer, other: T }
        #[traced]
        impl<T: Tree + Clone + 'static> Net<T> {
            pub(crate) fn forward(&self, x: &Tensor) -> Tensor { leaf(x) }
        }
    }
}

#[test]
fn the_hash_covers_the_body_of_a_callee() {
    macro_rules! differ {
        ($($module:ident: $($path:ident)::+;)*) => {$(
            assert_ne!($module::first::$($path)::+, $module::second::$($path)::+, stringify!($($path)::+));
        )*};
    }
    differ! {
        a_method_body: Layer::FORWARD_HASH;
        a_method_body: Net::FIELD_HASH;
        a_method_body: Net::BOXED_HASH;
        a_method_body: Net::ELEMENT_HASH;
        a_method_body: Net::LOOPED_HASH;
        a_method_body: Net::FALLIBLE_HASH;
        a_method_body: Net::BY_VALUE_HASH;
        a_method_body: free::HASH;
        a_method_body: deep::HASH;
        a_method_body: renewed::HASH;
        an_associated_function: calls::HASH;
        an_associated_constant: Layer::FORWARD_HASH;
        a_generic_block: Layer::FORWARD_HASH;
    }
    assert_ne!(
        a_generic_block::first::Net::<Tensor>::FORWARD_HASH,
        a_generic_block::second::Net::<Tensor>::FORWARD_HASH,
    );
}

#[traced(allow(recorded_call))]
fn inner(x: &Tensor) -> Tensor {
    let y = x * 2.0;
    if y.sum(..).item::<f64>() > 0.0 { y } else { -y }
}

#[traced]
fn outer(x: &Tensor) -> Tensor {
    inner(x).sum(..)
}

#[derive(Clone, Tree)]
struct Model {
    w: Tensor,
}

#[traced(allow(recorded_call))]
impl Model {
    fn logged(&self, x: &Tensor) -> Tensor {
        println!("logged");
        x * &self.w
    }

    fn outer(&self, x: &Tensor) -> Tensor {
        let y = x.exp();
        self.logged(&y)
    }

    fn made(x: &Tensor) -> Tensor {
        println!("made");
        x.exp()
    }
}

#[traced]
fn calls_a_method(models: &Vec<Model>, x: &Tensor) -> Tensor {
    let mut y = x.clone();
    for model in models {
        y = model.outer(&y);
    }
    y
}

#[traced]
fn calls_an_associated_function(x: &Tensor) -> Tensor {
    Model::made(x).sin()
}

#[traced(pure)]
fn says_that_it_is_pure(x: &Tensor) -> Tensor {
    inner(x)
}

/// Calls itself and a recorded function.
#[traced]
fn recursive(x: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        inner(x)
    } else {
        recursive(&x.sin(), n - 1)
    }
}

#[traced]
fn pure_recursion(x: &Tensor, n: usize) -> Tensor {
    if n == 0 {
        x.clone()
    } else {
        pure_recursion(&x.sin(), n - 1)
    }
}

#[test]
fn a_function_that_calls_a_recorded_one_is_recorded() {
    let why = outer::RECORDED.expect("`outer` is recorded");
    let inner = inner::RECORDED.expect("`inner` is recorded");
    assert!(why.starts_with("`inner` at line "), "{why}");
    assert!(why.ends_with(&format!(" is recorded: {inner}")), "{why}");

    let why = calls_a_method::RECORDED.expect("it calls a method that prints");
    let words = ["`outer` at line ", "`logged` at line ", "println!"];
    let found: Vec<usize> = words.iter().map(|w| why.find(w).expect(why)).collect();
    assert!(found.is_sorted(), "{why}");

    let why = calls_an_associated_function::RECORDED.expect("`made` prints");
    assert!(why.starts_with("`Model::made` at line "), "{why}");
    assert!(says_that_it_is_pure::RECORDED.is_some());
    assert!(recursive::RECORDED.is_some());
    assert_eq!(pure_recursion::RECORDED, None);
}

#[test]
fn a_hash_covers_a_function_that_is_named_by_its_companion() {
    macro_rules! with {
        ($name:ident, $by:literal) => {
            mod $name {
                use gradloom::prelude::*;
                #[traced]
                fn g(x: &Tensor) -> Tensor {
                    (x * $by).sin()
                }
                #[traced]
                pub(super) fn f(x: &Tensor) -> Tensor {
                    let y = g::jvp(&x.cos(), x).1;
                    y * 2.0
                }
            }
        };
    }
    with!(one, 1.5);
    with!(other, 2.5);
    with!(again, 1.5);
    assert!(!one::f::PROGRAM.contains("recorded"), "{}", one::f::PROGRAM);
    assert_ne!(one::f::HASH, other::f::HASH);
    assert_eq!(one::f::HASH, again::f::HASH);
}

/// Defines functions of two bodies each, with `HELPER` in scope.
macro_rules! variants {
    ($test:ident: $compare:ident; $($name:ident: { $($first:tt)* } { $($second:tt)* })*) => {
        mod $test {
            $(pub(super) mod $name {
                pub(crate) mod first { variants!(@items $($first)*); }
                pub(crate) mod second { variants!(@items $($second)*); }
            })*
        }

        #[test]
        fn $test() {
            $($compare!($test::$name::first::f::HASH, $test::$name::second::f::HASH, stringify!($name));)*
        }
    };
    (@items $($items:tt)*) => {
        #[allow(unused_imports)]
        use gradloom::prelude::*;
        $($items)*
    };
}

variants! { a_small_change_changes_the_hash: assert_ne;
    a_number_in_a_host_let:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let by = 2.0; x * by } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let by = 2.5; x * by } }
    a_number_of_another_type:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let n = 7 / 2; x * f64::from(n) } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let n = 7.0 / 2.0; x * f64::from(n) } }
    host_arithmetic:
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { let by = (n + 1) as f64; x * by } }
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { let by = (n - 1) as f64; x * by } }
    a_constant:
        { const BY: f64 = 2.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
        { const BY: f64 = 3.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
    a_pair:
        { const BY: (f64, f64) = (1.0, 2.0); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY.1 } }
        { const BY: (f64, f64) = (1.0, 3.0); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY.1 } }
    a_tuple_of_four:
        { const N: (usize, usize, usize, usize) = (1, 2, 3, 4); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * N.3 as f64 } }
        { const N: (usize, usize, usize, usize) = (1, 2, 3, 5); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * N.3 as f64 } }
    a_constant_behind_a_constant:
        { const A: f64 = 1.0; const BY: f64 = A * 2.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
        { const A: f64 = 1.5; const BY: f64 = A * 2.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
    a_constant_of_the_body:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { const BY: f64 = 2.0; x * BY } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { const BY: f64 = 3.0; x * BY } }
    a_method:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sin() } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sinh() } }
    an_argument_of_a_method:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sum(0) } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sum(-1) } }
    an_operator:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x + 1.0 } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x - 1.0 } }
    the_order_of_operands:
        { #[traced] pub(crate) fn f(x: &Tensor, y: &Tensor) -> Tensor { x - y } }
        { #[traced] pub(crate) fn f(x: &Tensor, y: &Tensor) -> Tensor { y - x } }
    the_order_of_parameters:
        { #[traced] pub(crate) fn f(x: &Tensor, y: &Tensor) -> Tensor { x - y } }
        { #[traced] pub(crate) fn f(y: &Tensor, x: &Tensor) -> Tensor { x - y } }
    a_callee:
        { #[traced] fn g(x: &Tensor) -> Tensor { x.sin() } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) * 2.0 } }
        { #[traced] fn g(x: &Tensor) -> Tensor { x.cos() } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) * 2.0 } }
    a_number_in_a_callee_of_a_callee:
        {
            #[traced] fn h(x: &Tensor) -> Tensor { let by = 2.0; x * by }
            #[traced] fn g(x: &Tensor) -> Tensor { h(x).sin() }
            #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) * 2.0 }
        }
        {
            #[traced] fn h(x: &Tensor) -> Tensor { let by = 3.0; x * by }
            #[traced] fn g(x: &Tensor) -> Tensor { h(x).sin() }
            #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) * 2.0 }
        }
    a_constant_of_a_callee:
        { const BY: f64 = 2.0; #[traced] fn g(x: &Tensor) -> Tensor { x * BY } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x).sin() } }
        { const BY: f64 = 3.0; #[traced] fn g(x: &Tensor) -> Tensor { x * BY } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x).sin() } }
    the_body_of_a_closure:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let g = |x: &Tensor| x * 2.0; g(x) } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let g = |x: &Tensor| x * 3.0; g(x) } }
    a_closure_of_a_transform:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { vmap(|x: &Tensor| x.sum(..))(x) } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { vmap(|x: &Tensor| x.mean(..))(x) } }
    a_constant_parameter:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let [a, b] = x.split::<2>(0); a - b } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let [a, b] = x.split::<2>(1); a - b } }
    a_condition:
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { if n > 1 { x.sin() } else { x.cos() } } }
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { if n > 2 { x.sin() } else { x.cos() } } }
    a_number_of_turns:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let mut y = x.clone(); for _ in 0..3 { y = y.sin(); } y } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let mut y = x.clone(); for _ in 0..4 { y = y.sin(); } y } }
    a_pattern:
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { match n { 0 => x.sin(), _ => x.cos() } } }
        { #[traced] pub(crate) fn f(x: &Tensor, n: usize) -> Tensor { match n { 1 => x.sin(), _ => x.cos() } } }
    an_attribute_of_a_parameter:
        { #[traced] pub(crate) fn f(x: &Tensor, w: &Tensor) -> Tensor { x * w } }
        { #[traced] pub(crate) fn f(x: &Tensor, #[nodiff] w: &Tensor) -> Tensor { x * w } }
    a_shape:
        { #[traced] pub(crate) fn f(#[shape(2, N)] x: &Tensor) -> Tensor { x.sum(0) } }
        { #[traced] pub(crate) fn f(#[shape(3, N)] x: &Tensor) -> Tensor { x.sum(0) } }
    the_type_of_a_parameter:
        { #[traced] pub(crate) fn f(x: &Tensor, n: f32) -> Tensor { x * f64::from(n) } }
        { #[traced] pub(crate) fn f(x: &Tensor, n: i32) -> Tensor { x * f64::from(n) } }
    an_option_of_the_macro:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sin() } }
        { #[traced(record)] pub(crate) fn f(x: &Tensor) -> Tensor { x.sin() } }
    an_index:
        { #[traced] pub(crate) fn f(x: &(Tensor, Tensor)) -> Tensor { x.0.sin() } }
        { #[traced] pub(crate) fn f(x: &(Tensor, Tensor)) -> Tensor { x.1.sin() } }
    a_use_of_another_value:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let a = x.sin(); let b = x.cos(); &a * &a + &b } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let a = x.sin(); let b = x.cos(); &a * &b + &b } }
    a_shadowed_name:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let y = x.sin(); let y = y.cos(); y } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let y = x.cos(); let y = y.sin(); y } }
    a_text:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.einsum_with("ij->ji") } trait E { fn einsum_with(&self, s: &str) -> Tensor; } impl E for Tensor { fn einsum_with(&self, _: &str) -> Tensor { self.transpose() } } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.einsum_with("ij->ij") } trait E { fn einsum_with(&self, s: &str) -> Tensor; } impl E for Tensor { fn einsum_with(&self, _: &str) -> Tensor { self.transpose() } } }
}

variants! { names_and_layout_do_not_change_the_hash: assert_eq;
    the_name_of_a_local:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let by = 2.0; let h = x * by; h.sin() } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let factor = 2.0; let y = x * factor; y.sin() } }
    the_name_of_a_parameter:
        { #[traced] pub(crate) fn f(x: &Tensor, w: &Tensor) -> Tensor { x * w } }
        { #[traced] pub(crate) fn f(data: &Tensor, weight: &Tensor) -> Tensor { data * weight } }
    the_name_of_a_parameter_of_a_closure:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let g = |x: &Tensor| x * 2.0; g(x) } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let double = |row: &Tensor| row * 2.0; double(x) } }
    the_variable_of_a_loop:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let mut y = x.clone(); for i in 0..3 { y = y * (i as f64); } y } }
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let mut z = x.clone(); for turn in 0..3 { z = z * (turn as f64); } z } }
    layout:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { let y = x.sin(); y * 2.0 } }
        {
            #[traced]
            pub(crate) fn f(x: &Tensor) -> Tensor {
                // A comment.
                let y = x
                    .sin(); /* another */
                y * 2.0
            }
        }
    documentation_and_visibility:
        { #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x.sin() } }
        { /** Sine. */ #[traced] #[must_use] pub fn f(x: &Tensor) -> Tensor { x.sin() } }
    the_name_of_a_callee_with_the_same_body:
        { #[traced] fn g(x: &Tensor) -> Tensor { let a = x.sin(); a } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) } }
        { #[traced] fn g(y: &Tensor) -> Tensor { let b = y.sin(); b } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { g(x) } }
    a_constant_of_the_same_value:
        { const BY: f64 = 2.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
        { const BY: f64 = 1.0 + 1.0; #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY } }
}

variants! { what_is_known_by_name_only_does_not_change_the_hash: assert_eq;
    a_function_that_is_not_traced:
        { fn by() -> f64 { 2.0 } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * by() } }
        { fn by() -> f64 { 3.0 } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * by() } }
    a_tuple_of_two_types:
        { const BY: (f64, i32) = (2.0, 1); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY.0 } }
        { const BY: (f64, i32) = (3.0, 1); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * BY.0 } }
    a_macro:
        { macro_rules! by { () => { 2.0 } } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * by!() } }
        { macro_rules! by { () => { 3.0 } } #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * by!() } }
    an_associated_constant_of_another_type:
        { struct S; impl S { const BY: Of = Of(2.0); } struct Of(f64); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * S::BY.0 } }
        { struct S; impl S { const BY: Of = Of(3.0); } struct Of(f64); #[traced] pub(crate) fn f(x: &Tensor) -> Tensor { x * S::BY.0 } }
}
