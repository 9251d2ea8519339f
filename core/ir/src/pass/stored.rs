//! Products that read the elements of a matrix as they are stored.

use super::dce;
use crate::{Aval, DType, Eqn, Op, Program, SecondaryMap, Var};

/// Rows of a product up to which its matrix is read as it is stored.
///
/// With more rows, converting the matrix takes little of the time.
const MOST_ROWS: usize = 32;

/// Elements of a matrix from which on it is read as it is stored.
const LEAST_ELEMENTS: usize = 4096;

/// Gives products of `f32` the elements of 8 or 16 bits that an operand is cast from.
///
/// Such a product reads half or a quarter of the memory. The operand is the large one: a matrix that few rows are
/// multiplied with. Its dtype is then another one than that of the product, which no op that a user writes allows.
pub fn read_stored(mut program: Program) -> Program {
    let mut stored: SecondaryMap<Var, Var> = SecondaryMap::new();
    for eqn in &program.eqns {
        let from = |var: Var| program.aval(var).dtype.filter(|d| d.computed() != *d);
        if eqn.op == Op::Cast
            && from(eqn.args[0]).is_some()
            && program.aval(eqn.out()).dtype == Some(DType::F32)
        {
            stored.insert(eqn.out(), eqn.args[0]);
        }
    }
    if stored.iter().next().is_none() {
        return program;
    }
    let mut eqns = std::mem::take(&mut program.eqns);
    for eqn in eqns.iter_mut().filter(|eqn| is_product(eqn.op)) {
        let replaced = (0..2).find_map(|i| {
            let small = *stored.get(*eqn.args.get(i)?)?;
            is_large(&program, eqn, i).then_some((i, small))
        });
        if let Some((i, small)) = replaced {
            eqn.args[i] = small;
        }
    }
    // A cast that no equation reads any more is dead.
    dce(Program { eqns, ..program })
}

fn is_product(op: Op) -> bool {
    matches!(op, Op::Matmul | Op::MatmulLhsT | Op::MatmulRhsT)
}

/// Returns whether operand `i` of a product is one large matrix, and the other one has few rows.
fn is_large(program: &Program, eqn: &Eqn, i: usize) -> bool {
    let numel = |aval: &Aval| {
        aval.shape
            .known()
            .map(|dims| (dims.len(), dims.iter().product()))
    };
    let of = |var: Var| numel(program.aval(var));
    let (Some((rank, matrix)), Some((_, other)), Some((_, out))) =
        (of(eqn.args[i]), of(eqn.args[1 - i]), of(eqn.out()))
    else {
        return false;
    };
    let [matrix, other, out]: [usize; 3] = [matrix, other, out];
    // With `r` rows of length `k`, and a matrix of `k` by `n`: (r k) (r n) / (k n) = r^2.
    let rows_squared = other.saturating_mul(out) / matrix.max(1);
    rank == 2 && matrix >= LEAST_ELEMENTS && rows_squared <= MOST_ROWS * MOST_ROWS
}
