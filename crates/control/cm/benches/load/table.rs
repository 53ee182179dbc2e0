//! What was asked for, what was seen, and how they compare.

struct Row {
    what: String,
    seen: f64,
    asked: Option<f64>,
    held: bool,
}

pub(crate) struct Table {
    title: String,
    rows: Vec<Row>,
}

impl Table {
    pub(crate) fn new(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            rows: Vec::new(),
        }
    }

    fn row(&mut self, what: &str, seen: f64, asked: Option<f64>, held: bool) {
        // Told at once too: the whole takes minutes.
        eprintln!("{what}: {seen:.3}");
        self.rows.push(Row {
            what: what.to_owned(),
            seen,
            asked,
            held,
        });
    }

    /// Nothing was asked for.
    pub(crate) fn seen(&mut self, what: &str, seen: f64) {
        self.row(what, seen, None, true);
    }

    pub(crate) fn at_most(&mut self, what: &str, seen: f64, asked: f64) {
        self.row(what, seen, Some(asked), seen <= asked);
    }

    pub(crate) fn at_least(&mut self, what: &str, seen: f64, asked: f64) {
        self.row(what, seen, Some(asked), seen >= asked);
    }

    pub(crate) fn is_held(&self) -> bool {
        self.rows.iter().all(|it| it.held)
    }

    pub(crate) fn print(&self) {
        println!("{}", self.title);
        println!("  {:<50} {:>10} {:>10} {:>7}", "", "asked", "seen", "ratio");
        for Row {
            what,
            seen,
            asked,
            held,
        } in &self.rows
        {
            let seen_text = format!("{seen:.2}");
            let (asked_text, ratio) = match asked {
                Some(asked) if *asked > 0.0 => {
                    (format!("{asked:.0}"), format!("{:.2}", seen / asked))
                }
                Some(asked) => (format!("{asked:.0}"), String::new()),
                None => Default::default(),
            };
            let mark = if *held { "" } else { "  missed" };
            println!("  {what:<50} {asked_text:>10} {seen_text:>10} {ratio:>7}{mark}");
        }
    }
}
