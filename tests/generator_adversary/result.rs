//! Results of generated functions.

/// A result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) class: &'static str,
    pub(crate) name: &'static str,
    pub(crate) ty: &'static str,
    pub(crate) items: &'static str,
    /// The value, computed from the tensor `$h`.
    pub(crate) value: &'static str,
}

impl Shape {
    const fn ordinary(name: &'static str, ty: &'static str, value: &'static str) -> Shape {
        Shape {
            class: "ordinary",
            name,
            ty,
            items: "",
            value,
        }
    }

    /// Returns whether the result has a gradient.
    pub(crate) fn is_scalar(&self) -> bool {
        self.name == "a scalar"
    }
}

pub(crate) static TENSOR: Shape = Shape::ordinary("a tensor", "Tensor", "$h");

pub(crate) static SCALAR: Shape = Shape::ordinary("a scalar", "Tensor", "$h.sum(..)");

/// Results that consist of tensors only.
pub(crate) static ORDINARY: &[Shape] = &[
    TENSOR,
    SCALAR,
    Shape::ordinary("a pair", "(Tensor, Tensor)", "($h.sin(), $h.sum(..))"),
    Shape::ordinary("a list", "Vec<Tensor>", "vec![$h.sin(), $h.sum(..), $h]"),
    Shape::ordinary(
        "an option",
        "Option<Tensor>",
        "if $h.rank() > 0 { Some($h.sin()) } else { None }",
    ),
    Shape {
        class: "ordinary",
        name: "a struct beside a tensor",
        ty: "(Out, Tensor)",
        items: "
    #[derive(Clone, Tree)]
    pub struct Out { pub y: Tensor, pub all: Vec<Tensor>, pub last: Option<Tensor> }
    impl Outcome for Out {
        fn leaves(&self) -> Vec<Tensor> {
            let all = self.all.iter().chain(&self.last);
            std::iter::once(&self.y).chain(all).cloned().collect()
        }
    }",
        value: "(Out { y: $h.sin(), all: vec![$h.cos(), $h.clone()], last: Some(&$h * 0.5) }, $h.sum(..))",
    },
    Shape::ordinary(
        "a nested pair",
        "((Tensor, Tensor), Tensor)",
        "(($h.sin(), &$h * 0.5), $h.sum(..))",
    ),
];

/// Defines a struct with a skipped field, given the type of the field, its value, the text that
/// shows it and a statement that writes to it.
macro_rules! skipped {
    ($class:literal, $name:literal, $ty:literal, $value:literal, $note:literal, $touch:literal) => {
        Shape {
            class: $class,
            name: $name,
            ty: "Out",
            items: concat!(
                "
    #[derive(Clone, Tree)]
    pub struct Out { pub y: Tensor, #[tree(skip)] pub log: ",
                $ty,
                " }
    impl Outcome for Out {
        fn leaves(&self) -> Vec<Tensor> { vec![self.y.clone()] }
        fn note(&self) -> String { let log = &self.log; ",
                $note,
                " }
        fn touch(&self) { let log = &self.log; ",
                $touch,
                " }
    }"
            ),
            value: concat!("Out { y: $h.sin(), log: ", $value, " }"),
        }
    };
}

/// Results with a skipped field.
pub(crate) static SKIPPED: &[Shape] = &[
    skipped!("result", "a number", "f64", "0.5", "format!(\"{log}\")", ""),
    skipped!(
        "result",
        "a count",
        "usize",
        "$h.rank()",
        "format!(\"{log}\")",
        ""
    ),
    skipped!(
        "result",
        "text",
        "String",
        "format!(\"{:?}\", $h.shape())",
        "log.clone()",
        ""
    ),
    skipped!(
        "result",
        "an enum",
        "Cfg",
        "Cfg::Slow(3)",
        "format!(\"{log:?}\")",
        ""
    ),
    skipped!(
        "result",
        "a list",
        "Vec<f64>",
        "vec![0.5, 1.5]",
        "format!(\"{log:?}\")",
        ""
    ),
    skipped!(
        "result",
        "a function pointer",
        "fn(f64) -> f64",
        "f64::sqrt",
        "format!(\"{}\", log(4.0))",
        ""
    ),
    skipped!(
        "result-tensor",
        "a tensor",
        "Tensor",
        "$h.exp()",
        "format!(\"{:?}\", log.to_vec::<f64>())",
        ""
    ),
    skipped!(
        "result-tensor",
        "an optional tensor",
        "Option<Tensor>",
        "Some($h.exp())",
        "format!(\"{:?}\", log.as_ref().map(|t| t.to_vec::<f64>()))",
        ""
    ),
    skipped!(
        "result-tensor",
        "a list of tensors",
        "Vec<Tensor>",
        "vec![$h.cos(), $h.exp()]",
        "format!(\"{:?}\", log[1].to_vec::<f64>())",
        ""
    ),
    skipped!(
        "result-tensor",
        "a shared tensor",
        "Rc<Tensor>",
        "Rc::new($h.exp())",
        "format!(\"{:?}\", log.to_vec::<f64>())",
        ""
    ),
    skipped!(
        "result-shared",
        "Rc<RefCell>",
        "Rc<RefCell<Vec<i64>>>",
        "Default::default()",
        "format!(\"{:?}\", log.borrow())",
        "log.borrow_mut().push(1);"
    ),
    skipped!(
        "result-shared",
        "Rc<Cell>",
        "Rc<Cell<i64>>",
        "Rc::new(Cell::new(3))",
        "format!(\"{}\", log.get())",
        "log.set(log.get() + 1);"
    ),
    skipped!(
        "result-shared",
        "Arc<Mutex>",
        "Arc<Mutex<Vec<i64>>>",
        "Arc::default()",
        "format!(\"{:?}\", log.lock().unwrap())",
        "log.lock().unwrap().push(1);"
    ),
    skipped!(
        "result-shared",
        "a list of cells",
        "Vec<Rc<Cell<i64>>>",
        "vec![Default::default()]",
        "format!(\"{:?}\", log)",
        "log[0].set(log[0].get() + 1);"
    ),
];
