//! Curves and tables of fractions as SVG files.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::error::Error;
use std::fs;
use std::path::Path;

/// Draws named curves over the epochs, which count from 1. Creates the folder of the file if it is
/// missing.
///
/// # Errors
///
/// If the file cannot be written.
pub fn curves(path: &Path, title: &str, curves: &[(&str, Vec<f32>)]) -> Result<(), Box<dyn Error>> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let n = curves.iter().map(|(_, ys)| ys.len()).max().unwrap_or(0);
    let top = curves
        .iter()
        .flat_map(|(_, ys)| ys)
        .copied()
        .fold(0f32, f32::max);
    let area = SVGBackend::new(path, (640, 400)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(36)
        .y_label_area_size(48)
        .build_cartesian_2d(1f32..n.max(2) as f32, 0f32..top * 1.05)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_labels(n.clamp(2, 11)) // a label between two epochs would have the number of one
        .x_label_formatter(&|x| format!("{x:.0}"))
        .x_desc("epoch")
        .y_desc("loss")
        .draw()?;
    for ((name, ys), color) in curves.iter().zip([BLUE, RED, GREEN].iter().cycle()) {
        let points = ys.iter().enumerate().map(|(i, &y)| ((i + 1) as f32, y));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color));
    }
    chart
        .configure_series_labels()
        .background_style(WHITE)
        .border_style(BLACK)
        .draw()?;
    area.present()?;
    Ok(())
}

/// Draws a square for each fraction of a table: red for 0, yellow for a half, green for 1 and above, and none for a
/// fraction that is not known. Creates the folder of the file if it is missing.
///
/// # Errors
///
/// If the file cannot be written.
pub fn heat_map(
    path: &Path,
    title: &str,
    columns: &[String],
    rows: &[(&str, Vec<Option<f64>>)],
) -> Result<(), Box<dyn Error>> {
    /// Width and height of a square.
    const SIDE: i32 = 11;
    /// Space for the names of rows, and for those of columns.
    const NAMES: i32 = 170;
    /// Rows of a panel. The panels stand side by side.
    const PANEL: usize = 80;
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let panel_width = NAMES + SIDE * (columns.len() as i32 + 1);
    let n_panels = rows.len().div_ceil(PANEL).max(1) as i32;
    let height = NAMES + SIDE * (rows.len().min(PANEL) as i32 + 4);
    let size = ((panel_width * n_panels) as u32, height as u32);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let small = ("sans-serif", 10).into_font();
    area.draw(&Text::new(title, (SIDE, SIDE), ("sans-serif", 14)))?;
    let top = NAMES + SIDE;
    for (panel, rows) in rows.chunks(PANEL).enumerate() {
        let left = panel as i32 * panel_width + NAMES;
        for (i, name) in columns.iter().enumerate() {
            let at = (left + i as i32 * SIDE, top - 3);
            let upright = small.clone().transform(FontTransform::Rotate270);
            area.draw(&Text::new(name.as_str(), at, upright))?;
        }
        for (j, (name, fractions)) in rows.iter().enumerate() {
            let y = top + j as i32 * SIDE;
            let right = TextStyle::from(small.clone()).pos(Pos::new(HPos::Right, VPos::Top));
            area.draw(&Text::new(*name, (left - 3, y), right))?;
            for (i, fraction) in fractions.iter().enumerate() {
                let x = left + i as i32 * SIDE;
                if let Some(fraction) = fraction {
                    let square = [(x, y), (x + SIDE - 1, y + SIDE - 1)];
                    area.draw(&Rectangle::new(square, shade(*fraction).filled()))?;
                }
            }
        }
    }
    area.present()?;
    Ok(())
}

/// Returns the colour of a fraction.
fn shade(fraction: f64) -> RGBColor {
    let part = |x: f64| (x.clamp(0.0, 1.0) * 220.0) as u8;
    RGBColor(part(2.0 - 2.0 * fraction), part(2.0 * fraction), 40)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_every_curve() {
        let folder = std::env::temp_dir().join(format!("gradloom-chart-{}", std::process::id()));
        let path = folder.join("new/loss.svg");
        curves(
            &path,
            "a title",
            &[("one", vec![2.0, 1.0]), ("two", vec![1.5])],
        )
        .unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(folder).unwrap();
        for text in ["<svg", "a title", "one", "two", "epoch", "</svg>"] {
            assert!(svg.contains(text), "`{text}` is missing");
        }
    }

    #[test]
    fn a_table_has_a_square_for_each_known_fraction() {
        let folder = std::env::temp_dir().join(format!("gradloom-heat-{}", std::process::id()));
        let path = folder.join("new/heat.svg");
        let columns = ["first".to_owned(), "second".to_owned()];
        let rows = [
            ("add", vec![Some(0.0), Some(1.0)]),
            ("sum", vec![None, Some(0.5)]),
        ];
        heat_map(&path, "a title", &columns, &rows).unwrap();
        let svg = fs::read_to_string(&path).unwrap();
        fs::remove_dir_all(folder).unwrap();
        for text in ["a title", "first", "second", "add", "sum"] {
            assert!(svg.contains(text), "`{text}` is missing");
        }
        // The background is a rectangle, too.
        assert_eq!(svg.matches("<rect").count(), 4);
    }
}
