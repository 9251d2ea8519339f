//! Macros that call a generic function with the Rust type of a dtype.

/// Calls a generic function with the Rust type of `$dtype`.
macro_rules! on_element {
    ($dtype:expr, $($f:ident)::+($($arg:expr),* $(,)?)) => {
        match $dtype {
            gradloom_ir::DType::F32 => $($f)::+::<f32>($($arg),*),
            gradloom_ir::DType::F64 => $($f)::+::<f64>($($arg),*),
            gradloom_ir::DType::I32 => $($f)::+::<i32>($($arg),*),
            gradloom_ir::DType::BF16 => $($f)::+::<half::bf16>($($arg),*),
            gradloom_ir::DType::F16 => $($f)::+::<half::f16>($($arg),*),
            gradloom_ir::DType::I64 => $($f)::+::<i64>($($arg),*),
            gradloom_ir::DType::I8 => $($f)::+::<i8>($($arg),*),
            gradloom_ir::DType::U8 => $($f)::+::<u8>($($arg),*),
            gradloom_ir::DType::Bool => $($f)::+::<bool>($($arg),*),
        }
    };
}

/// Calls a function that is generic over a word with the word of the size of `$dtype`.
macro_rules! on_word {
    ($dtype:expr, $($f:ident)::+($($arg:expr),* $(,)?)) => {
        match $dtype.size() {
            1 => $($f)::+::<u8>($($arg),*),
            2 => $($f)::+::<u16>($($arg),*),
            4 => $($f)::+::<u32>($($arg),*),
            8 => $($f)::+::<u64>($($arg),*),
            size => unreachable!("no dtype has {size} bytes"),
        }
    };
}

/// Calls a function that is generic over a numeric element type with the type of `$dtype`, in which ops
/// compute.
macro_rules! on_number {
    ($dtype:expr, $($f:ident)::+($($arg:expr),* $(,)?)) => {
        match $dtype {
            gradloom_ir::DType::F32 => $($f)::+::<f32>($($arg),*),
            gradloom_ir::DType::F64 => $($f)::+::<f64>($($arg),*),
            gradloom_ir::DType::I32 => $($f)::+::<i32>($($arg),*),
            gradloom_ir::DType::I64 => $($f)::+::<i64>($($arg),*),
            dtype => unreachable!("a kernel on numbers does not compute on {dtype}"),
        }
    };
}

/// Calls a function that is generic over a float type with the type of `$dtype`, in which ops compute.
macro_rules! on_float {
    ($dtype:expr, $($f:ident)::+($($arg:expr),* $(,)?)) => {
        match $dtype {
            gradloom_ir::DType::F32 => $($f)::+::<f32>($($arg),*),
            gradloom_ir::DType::F64 => $($f)::+::<f64>($($arg),*),
            dtype => unreachable!("a kernel on floats does not compute on {dtype}"),
        }
    };
}
