//! Macros for compiled loops. They are expanded in builds without debug assertions only.

/// Constant that lists compiled loops, and functions that register them.
///
/// Each loop has a signature, its operands, its members and its results. A loop marked `fast` first tries cheaper functions for the members that name one. It
/// recomputes with the general ones if an operand was not in their range. A loop marked `turn` is the turn of a loop over
/// numbers, and also has a form that runs all turns.
#[doc(hidden)]
#[macro_export]
macro_rules! __loops {
    (
        #[$doc:meta] $const_vis:vis const $kernels:ident;
        $($vis:vis fn $name:ident { $($signature:literal $loop_:tt $($turn:ident)?)* })*
    ) => {
        #[$doc]
        $const_vis const $kernels: &'static [&'static str] = &[$($($signature),*),*];
        $(
        #[cfg(not(debug_assertions))]
        #[doc(hidden)]
        #[inline]
        $vis fn $name() {
            static LOOPS: &[$crate::__private::FusedLoop] = &[$(
                $crate::__private::FusedLoop {
                    signature: $signature,
                    f32: $crate::__loop!(f32 $loop_ $($turn)?),
                    f64: $crate::__loop!(f64 $loop_ $($turn)?),
                }
            ),*];
            static TABLE: $crate::__private::FusedTable = $crate::__private::fused_table!(LOOPS);
            TABLE.register();
        }
        )*
    };
}

/// Registers compiled loops.
#[doc(hidden)]
#[macro_export]
macro_rules! __register {
    ($($register:path),*) => {
        $(#[cfg(not(debug_assertions))] $register();)*
    };
}

/// A loop for one dtype.
#[doc(hidden)]
#[macro_export]
macro_rules! __loop {
    ($t:ident {fast $($x:ident)* => $members:tt $y:ident = $v:ident $(, $z:ident = $w:ident)*} turn) => {
        $crate::__private::loop_of_many!(
            $t [$($x)*] [$y $($z)*]
            $crate::__loop_versions!($t [fast] [$($x)*] $members [$y = $v $(, $z = $w)*]),
            $crate::__turns!($t [fast] [$($x)*] $members [$v $($w)*])
        )
    };
    ($t:ident {$($x:ident)* => $members:tt $y:ident = $v:ident $(, $z:ident = $w:ident)*} turn) => {
        $crate::__private::loop_of_many!(
            $t [$($x)*] [$y $($z)*]
            $crate::__loop_versions!($t [] [$($x)*] $members [$y = $v $(, $z = $w)*]),
            $crate::__turns!($t [] [$($x)*] $members [$v $($w)*])
        )
    };
    ($t:ident {fast $($x:ident)* => $members:tt $y:ident = $v:ident $(, $z:ident = $w:ident)*}) => {
        $crate::__private::loop_of!(
            $t [$($x)*] [$y $($z)*]
            $crate::__loop_versions!($t [fast] [$($x)*] $members [$y = $v $(, $z = $w)*])
        )
    };
    ($t:ident {$($x:ident)* => $members:tt $y:ident = $v:ident $(, $z:ident = $w:ident)*}) => {
        $crate::__private::loop_of!(
            $t [$($x)*] [$y $($z)*]
            $crate::__loop_versions!($t [] [$($x)*] $members [$y = $v $(, $z = $w)*])
        )
    };
}

/// The versions of a loop over slices.
#[doc(hidden)]
#[macro_export]
macro_rules! __loop_versions {
    ($t:ident [fast] [$($x:ident)*] $members:tt [$y:ident = $v:ident $(, $z:ident = $w:ident)*]) => {
        $crate::__private::maths::versions!(|$($x: &[$t],)* $y: &mut [$t] $(, $z: &mut [$t])*| A => {
            let n = $y.len();
            $(let $x = &$x[..n];)*
            $(let $z = &mut $z[..n];)*
            let mut simple = true;
            $crate::__pass!((fast simple A $t) n [$($x)*] $members [$y = $v $(, $z = $w)*]);
            if !simple {
                $crate::__pass!((general A $t) n [$($x)*] $members [$y = $v $(, $z = $w)*]);
            }
        })
    };
    ($t:ident [] [$($x:ident)*] $members:tt [$y:ident = $v:ident $(, $z:ident = $w:ident)*]) => {
        $crate::__private::maths::versions!(|$($x: &[$t],)* $y: &mut [$t] $(, $z: &mut [$t])*| A => {
            let n = $y.len();
            $(let $x = &$x[..n];)*
            $(let $z = &mut $z[..n];)*
            $crate::__pass!((general A $t) n [$($x)*] $members [$y = $v $(, $z = $w)*]);
        })
    };
}

/// The form of a loop that runs all turns of a loop over numbers.
#[doc(hidden)]
#[macro_export]
macro_rules! __turns {
    ($t:ident [$($fast:ident)?] [$($x:ident)*] $members:tt [$($v:ident)*]) => {
        $crate::__private::turn_loop!($crate::__private::maths::versions!(
            |turns: $crate::__private::TurnValues<
                $t,
                { [$(stringify!($x)),*].len() },
                { [$(stringify!($v)),*].len() },
            >| A => {
                let mut turns = turns;
                while let Some([$($x),*]) = turns.read() {
                    turns.write($crate::__turn!([$($fast)?] A $t $members [$($v)*]));
                }
            }
        ))
    };
}

/// The results of one turn.
#[doc(hidden)]
#[macro_export]
macro_rules! __turn {
    ([fast] $arith:ident $t:ident $members:tt $results:tt) => {{
        let mut simple = true;
        let results = $crate::__values!((fast simple $arith $t) $members $results);
        if simple { results } else { $crate::__values!((general $arith $t) $members $results) }
    }};
    ([] $arith:ident $t:ident $members:tt $results:tt) => {
        $crate::__values!((general $arith $t) $members $results)
    };
}

/// Some of the values of the members of a loop.
#[doc(hidden)]
#[macro_export]
macro_rules! __values {
    ($mode:tt {$($member:ident = $op:ident $args:tt $([$fast:ident])?;)*} [$($v:ident)*]) => {{
        $(let $member = $crate::__member!($mode $op $args $($fast)?);)*
        [$($v),*]
    }};
}

/// One pass over the elements.
#[doc(hidden)]
#[macro_export]
macro_rules! __pass {
    (
        $mode:tt $n:ident [$($x:ident)*]
        {$($member:ident = $op:ident $args:tt $([$fast:ident])?;)*}
        [$($y:ident = $v:ident),*]
    ) => {
        for i in 0..$n {
            $(let $x = $x[i];)*
            $(let $member = $crate::__member!($mode $op $args $($fast)?);)*
            $($y[i] = $v;)*
        }
    };
}

/// One op on elements.
#[doc(hidden)]
#[macro_export]
macro_rules! __member {
    ((fast $simple:ident $arith:ident $t:ident) $op:ident ($x:tt) $fast:ident) => {{
        $simple &= $crate::__private::maths::in_fast_range::<$t>($crate::__operand!($t $x));
        $crate::__private::maths::$fast::<$arith, $t>($crate::__operand!($t $x))
    }};
    ((fast $simple:ident $arith:ident $t:ident) $($member:tt)*) => {
        $crate::__member!((general $arith $t) $($member)*)
    };
    ((general $arith:ident $t:ident) select ($c:tt $x:tt $y:tt)) => {
        if $crate::__operand!($t $c) { $crate::__operand!($t $x) } else { $crate::__operand!($t $y) }
    };
    ((general $arith:ident $t:ident) $op:ident ($($x:tt)*) $($fast:ident)?) => {
        $crate::__private::element::$op::$t::<$arith>($($crate::__operand!($t $x)),*)
    };
}

/// Operand of an op: an element, or a constant of the dtype.
#[doc(hidden)]
#[macro_export]
macro_rules! __operand {
    ($t:ident $x:ident) => {
        $x
    };
    ($t:ident $x:expr) => {
        ($x as $t)
    };
}
