//! Finds what could be wrong in a source text: mutants of its statements, functions and expressions.

use proc_macro2::Span;
use std::ops::Range;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{BinOp, Expr, GenericArgument, PathArguments, ReturnType, Stmt, Type};

/// What differs from the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// An expression is another one.
    Value(String),
    /// A statement is left out.
    LeftOut,
    /// A function returns this at once.
    Returns(String),
}

/// One mistake.
#[derive(Clone, Debug)]
pub(crate) struct Mutant {
    /// The bytes that are changed.
    pub(crate) region: Range<usize>,
    /// Those of the body of the function around them.
    pub(crate) function: Range<usize>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) change: Change,
    /// The change in one line.
    pub(crate) told: String,
}

/// Lists the mutants of a source text in its order, without tests, constants, patterns, attributes and arguments of
/// macros.
///
/// # Errors
/// It is no Rust.
pub(crate) fn mutants(text: &str) -> Result<Vec<Mutant>, syn::Error> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { text, function: 0..0, found: Vec::new() };
    finder.visit_file(&file);
    finder.found.sort_by_key(|mutant| (mutant.line, mutant.column));
    Ok(finder.found)
}

struct Finder<'t> {
    text: &'t str,
    /// The body that is looked at.
    function: Range<usize>,
    found: Vec<Mutant>,
}

impl Finder<'_> {
    fn of(&self, span: Span) -> &str {
        &self.text[span.byte_range()]
    }

    fn add(&mut self, at: Span, region: Range<usize>, change: Change, told: String) {
        let (line, column) = (at.start().line, at.start().column + 1);
        let words: Vec<&str> = told.split_whitespace().collect();
        let function = self.function.clone();
        self.found.push(Mutant { region, function, line, column, change, told: words.join(" ") });
    }

    fn value(&mut self, span: Span, new: String, told: String) {
        self.add(span, span.byte_range(), Change::Value(new), told);
    }

    /// A condition that always holds, and one that never does.
    fn forced(&mut self, condition: &Expr) {
        if has_let(condition) {
            return;
        }
        for new in ["true", "false"] {
            let told = format!("`{}` -> `{new}`", self.of(condition.span()));
            self.value(condition.span(), new.into(), told);
        }
    }

    fn function(&mut self, signature: &syn::Signature, block: &syn::Block) {
        if signature.constness.is_some() {
            return;
        }
        let around = std::mem::replace(&mut self.function, block.span().byte_range());
        let begin = block.brace_token.span.open().byte_range().end;
        let body = self.text[begin..self.function.end - 1].trim().to_owned();
        for value in returned(&signature.output) {
            if body != value {
                let told = format!("body of `{}` -> `{value}`", signature.ident);
                self.add(signature.ident.span(), begin..begin, Change::Returns(value), told);
            }
        }
        self.visit_block(block);
        self.function = around;
    }
}

impl<'a> Visit<'a> for Finder<'_> {
    fn visit_attribute(&mut self, _: &'a syn::Attribute) {}
    fn visit_pat(&mut self, _: &'a syn::Pat) {}
    fn visit_type(&mut self, _: &'a Type) {}
    fn visit_angle_bracketed_generic_arguments(&mut self, _: &'a syn::AngleBracketedGenericArguments) {}
    fn visit_item_const(&mut self, _: &'a syn::ItemConst) {}
    fn visit_item_static(&mut self, _: &'a syn::ItemStatic) {}
    fn visit_item_enum(&mut self, _: &'a syn::ItemEnum) {}
    fn visit_impl_item_const(&mut self, _: &'a syn::ImplItemConst) {}
    fn visit_trait_item_const(&mut self, _: &'a syn::TraitItemConst) {}
    fn visit_expr_const(&mut self, _: &'a syn::ExprConst) {}

    fn visit_expr_repeat(&mut self, repeat: &'a syn::ExprRepeat) {
        self.visit_expr(&repeat.expr);
    }

    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_test(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }

    /// What is told of a value is not what is stored.
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        let name = item.trait_.as_ref().and_then(|(_, path, _)| path.segments.last());
        let tells = name.is_some_and(|name| ["Debug", "Display", "Error"].iter().any(|known| name.ident == known));
        if !tells && !is_test(&item.attrs) {
            visit::visit_item_impl(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'a syn::ItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'a syn::ImplItemFn) {
        if !is_test(&item.attrs) {
            self.function(&item.sig, &item.block);
        }
    }

    fn visit_trait_item_fn(&mut self, item: &'a syn::TraitItemFn) {
        if let Some(block) = &item.default {
            self.function(&item.sig, block);
        }
    }

    fn visit_stmt(&mut self, statement: &'a Stmt) {
        if let Stmt::Expr(expression, Some(_)) = statement {
            let (span, text) = (statement.span(), self.of(statement.span()).to_owned());
            let counts = ["stats", "Counters::"].iter().any(|word| text.contains(word));
            if counts && !text.contains('\n') {
                return;
            }
            let tried = if let Expr::Try(tried) = expression { &tried.expr } else { expression };
            if matches!(tried, Expr::Call(_) | Expr::MethodCall(_)) {
                self.add(span, span.byte_range(), Change::LeftOut, format!("without `{text}`"));
            }
        }
        visit::visit_stmt(self, statement);
    }

    fn visit_expr_if(&mut self, expression: &'a syn::ExprIf) {
        self.forced(&expression.cond);
        visit::visit_expr_if(self, expression);
    }

    fn visit_arm(&mut self, arm: &'a syn::Arm) {
        if let Some((_, guard)) = &arm.guard {
            self.forced(guard);
        }
        visit::visit_arm(self, arm);
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let is_chain = has_let(&binary.left) || has_let(&binary.right);
        if let Some(other) = other(&binary.op).filter(|_| !is_chain) {
            let (left, right) = (self.of(binary.left.span()), self.of(binary.right.span()));
            // In parentheses: after `as`, `<` would begin types.
            let new = if other.ends_with("+=") || other.ends_with("-=") {
                format!("{left} {other} {right}")
            } else {
                format!("({left}) {other} {right}")
            };
            let told = format!("`{}` -> `{left} {other} {right}`", self.of(binary.span()));
            self.value(binary.span(), new, told);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_unary(&mut self, unary: &'a syn::ExprUnary) {
        if matches!(unary.op, syn::UnOp::Not(_)) {
            let new = self.of(unary.expr.span()).to_owned();
            let told = format!("`{}` -> `{new}`", self.of(unary.span()));
            self.value(unary.span(), new, told);
        }
        visit::visit_expr_unary(self, unary);
    }
}

fn is_test(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list().map(|list| list.tokens.to_string()).unwrap_or_default();
        attribute.path().is_ident("test") || attribute.path().is_ident("cfg") && list.contains("test")
    })
}

/// Whether it binds names: it cannot be put into parentheses.
fn has_let(condition: &Expr) -> bool {
    match condition {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

fn other(operator: &BinOp) -> Option<&'static str> {
    Some(match operator {
        BinOp::Eq(_) => "!=",
        BinOp::Ne(_) => "==",
        BinOp::Lt(_) => "<=",
        BinOp::Le(_) => "<",
        BinOp::Gt(_) => ">=",
        BinOp::Ge(_) => ">",
        BinOp::Add(_) => "-",
        BinOp::Sub(_) => "+",
        BinOp::AddAssign(_) => "-=",
        BinOp::SubAssign(_) => "+=",
        BinOp::And(_) => "||",
        BinOp::Or(_) => "&&",
        _ => return None,
    })
}

/// What a function could return without doing anything.
fn returned(output: &ReturnType) -> Vec<String> {
    match output {
        ReturnType::Default => vec!["()".into()],
        ReturnType::Type(_, of) => values(of),
    }
}

fn values(of: &Type) -> Vec<String> {
    let path = match of {
        Type::Tuple(tuple) if tuple.elems.is_empty() => return vec!["()".into()],
        Type::Path(path) => &path.path,
        _ => return Vec::new(),
    };
    let Some(last) = path.segments.last() else { return Vec::new() };
    let first = match &last.arguments {
        PathArguments::AngleBracketed(list) => list.args.first(),
        _ => None,
    };
    let named = last.ident.to_string();
    let known: &[&str] = match (named.as_str(), first) {
        ("bool", _) => &["true", "false"],
        ("u8" | "u16" | "u32" | "u64" | "u128" | "usize" | "i8" | "i16" | "i32" | "i64" | "isize", _) => &["0", "1"],
        ("Option", _) => &["None"],
        ("Result", Some(GenericArgument::Type(of))) => {
            return values(of).iter().map(|value| format!("Ok({value})")).collect();
        }
        _ => &[],
    };
    known.iter().map(|value| (*value).to_owned()).collect()
}
