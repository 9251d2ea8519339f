//! How updates are combined with elements.

/// Combination of an update with the element that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// The update replaces the element.
    Set,
    /// The sum.
    Add,
    /// The greater one, or NaN if either is NaN.
    Max,
    /// The smaller one, or NaN if either is NaN.
    Min,
}

/// Calls a function that is generic over an element type and takes last how an update and an element are combined.
macro_rules! on_write {
    ($dtype:expr, $by:expr, $f:ident($($arg:expr),* $(,)?)) => {{
        let by: Write = $by;
        macro_rules! of_number {
            ($T:ty) => {
                match by {
                    Write::Set => $f($($arg,)* |_, y: $T| y),
                    Write::Add => $f($($arg,)* <$T>::plus),
                    Write::Max => $f($($arg,)* <$T>::greater),
                    Write::Min => $f($($arg,)* <$T>::less),
                }
            };
        }
        match ($dtype, by) {
            (gradloom_ir::DType::Bool, Write::Set) => $f($($arg,)* |_, y: bool| y),
            (gradloom_ir::DType::BF16, Write::Set) => $f($($arg,)* |_, y: half::bf16| y),
            (gradloom_ir::DType::F16, Write::Set) => $f($($arg,)* |_, y: half::f16| y),
            (gradloom_ir::DType::I8, Write::Set) => $f($($arg,)* |_, y: i8| y),
            (gradloom_ir::DType::U8, Write::Set) => $f($($arg,)* |_, y: u8| y),
            (gradloom_ir::DType::F32, _) => of_number!(f32),
            (gradloom_ir::DType::F64, _) => of_number!(f64),
            (gradloom_ir::DType::I32, _) => of_number!(i32),
            (gradloom_ir::DType::I64, _) => of_number!(i64),
            (dtype, by) => unreachable!("{by:?} is not computed in {dtype}"),
        }
    }};
}
pub(crate) use on_write;
