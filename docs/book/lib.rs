//! The chapters of the book, one module for each, so that `cargo test` compiles and runs their code blocks.
//!
//! A chapter that is missing here fails the tidy test `every_chapter_is_tested`.

macro_rules! chapters {
    ($($module:ident = $file:literal;)*) => {$(
        #[doc = include_str!(concat!("src/", $file))]
        pub mod $module {}
    )*};
}

chapters! {
    caching_and_purity = "caching-and-purity.md";
    control_flow = "control-flow.md";
    custom_functions = "custom-functions.md";
    data = "data.md";
    derivatives = "derivatives.md";
    devices = "devices.md";
    dtypes_and_modes = "dtypes-and-modes.md";
    error_index = "error-index.md";
    examples = "examples.md";
    files = "files.md";
    from_jax_and_pytorch = "from-jax-and-pytorch.md";
    getting_started = "getting-started.md";
    how_a_call_becomes_a_plan = "how-a-call-becomes-a-plan.md";
    how_the_kernels_work = "how-the-kernels-work.md";
    how_the_macro_works = "how-the-macro-works.md";
    how_to_add_an_op = "how-to-add-an-op.md";
    introduction = "introduction.md";
    layers = "layers.md";
    limits = "limits.md";
    looking_at_programs = "looking-at-programs.md";
    models = "models.md";
    onnx = "onnx.md";
    operations = "operations.md";
    parameters = "parameters.md";
    performance = "performance.md";
    random_numbers = "random-numbers.md";
    requirements = "requirements.md";
    shapes = "shapes.md";
    sharding = "sharding.md";
    stablehlo = "stablehlo.md";
    tensors = "tensors.md";
    testing = "testing.md";
    traces = "traces.md";
    traced_functions = "traced-functions.md";
    tracing_to_disk = "tracing-to-disk.md";
    training = "training.md";
    trees_and_models = "trees-and-models.md";
    vmap = "vmap.md";
}
