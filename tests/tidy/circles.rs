//! Which file of a crate uses which, read from its syntax, and the circles among them.
//!
//! A file uses another where its code, tests apart, names an item that is defined there, by whatever re-export. `mod`
//! and `pub use` lines say where things are, and are no use of them. What only method calls or macros of other crates
//! would show is not seen.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::Visit;

/// Index of a module in `Crate::modules`.
type ModuleId = usize;

/// Where a name of a module leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Module(ModuleId),
    /// An item, defined in the file of this number.
    Item(usize),
}

#[derive(Default)]
struct Module {
    file: usize,
    parent: Option<ModuleId>,
    names: BTreeMap<String, Vec<Target>>,
    imports: Vec<(String, Vec<String>)>,
    globs: Vec<Vec<String>>,
    items: Vec<syn::Item>,
}

/// The modules of a crate, and how their names resolve.
#[derive(Default)]
pub struct Crate {
    files: Vec<PathBuf>,
    modules: Vec<Module>,
}

/// For each file the files that it uses, each with one name by which it does.
pub type Uses = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

impl Crate {
    /// Reads the crate whose root module is the file `root`.
    pub fn read(root: &Path) -> Crate {
        let mut found = Crate::default();
        found.read_file(root, None, root.parent().expect("a file in a folder"));
        found
    }

    fn read_file(&mut self, path: &Path, parent: Option<ModuleId>, children: &Path) -> ModuleId {
        let text = std::fs::read_to_string(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        let syntax = syn::parse_file(&text).unwrap_or_else(|err| panic!("{}: {err}", path.display()));
        self.files.push(path.to_owned());
        self.add(self.files.len() - 1, parent, syntax.items, children)
    }

    fn add(&mut self, file: usize, parent: Option<ModuleId>, items: Vec<syn::Item>, children: &Path) -> ModuleId {
        let id = self.modules.len();
        self.modules.push(Module { file, parent, ..Module::default() });
        for item in items {
            if attributes(&item).iter().any(is_test) {
                continue;
            }
            match item {
                syn::Item::Mod(module) => {
                    let name = module.ident.to_string();
                    let below = children.join(&name);
                    let child = match module.content {
                        Some((_, items)) => self.add(file, Some(id), items, &below),
                        None => self.read_file(&file_of(children, &name), Some(id), &below),
                    };
                    self.modules[id].names.entry(name).or_default().push(Target::Module(child));
                }
                syn::Item::Use(tree) => {
                    let exported = !matches!(tree.vis, syn::Visibility::Inherited);
                    self.import(id, &mut Vec::new(), &tree.tree);
                    // A private import is a use itself: of a trait nothing else may show.
                    if !exported {
                        self.modules[id].items.push(syn::Item::Use(tree));
                    }
                }
                other => {
                    if let Some(name) = name_of(&other) {
                        self.modules[id].names.entry(name).or_default().push(Target::Item(file));
                    }
                    self.modules[id].items.push(other);
                }
            }
        }
        id
    }

    fn import(&mut self, module: ModuleId, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.import(module, prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.import(module, prefix, tree)),
            syn::UseTree::Glob(_) => self.modules[module].globs.push(prefix.clone()),
            syn::UseTree::Name(name) => self.import_as(module, prefix, &name.ident, &name.ident),
            syn::UseTree::Rename(renamed) => self.import_as(module, prefix, &renamed.ident, &renamed.rename),
        }
    }

    fn import_as(&mut self, module: ModuleId, prefix: &[String], ident: &syn::Ident, name: &syn::Ident) {
        let mut path = prefix.to_vec();
        if ident != "self" {
            path.push(ident.to_string());
        }
        let name = if name == "self" { path.last().cloned().unwrap_or_default() } else { name.to_string() };
        self.modules[module].imports.push((name, path));
    }

    /// What `path` names in `module`; nothing where that is of another crate.
    fn resolve(&self, module: ModuleId, path: &[String], depth: usize) -> Vec<Target> {
        let Some((first, rest)) = path.split_first().filter(|_| depth < 32) else { return Vec::new() };
        let starts = match first.as_str() {
            "crate" => vec![Target::Module(0)],
            "self" => vec![Target::Module(module)],
            "super" => self.modules[module].parent.map(Target::Module).into_iter().collect(),
            name => self.lookup(module, name, depth),
        };
        starts.into_iter().flat_map(|start| self.follow(start, rest, depth)).collect()
    }

    fn follow(&self, start: Target, rest: &[String], depth: usize) -> Vec<Target> {
        let Target::Module(module) = start else { return vec![start] };
        let Some((name, rest)) = rest.split_first() else { return vec![start] };
        if name == "super" {
            let parent = self.modules[module].parent.map(Target::Module);
            return parent.into_iter().flat_map(|parent| self.follow(parent, rest, depth)).collect();
        }
        let found = self.lookup(module, name, depth);
        found.into_iter().flat_map(|target| self.follow(target, rest, depth)).collect()
    }

    fn lookup(&self, module: ModuleId, name: &str, depth: usize) -> Vec<Target> {
        let own = &self.modules[module];
        let mut found = own.names.get(name).cloned().unwrap_or_default();
        for (_, path) in own.imports.iter().filter(|(known, path)| known == name && path.as_slice() != [name]) {
            found.extend(self.resolve(module, path, depth + 1));
        }
        if found.is_empty() {
            for glob in &own.globs {
                for target in self.resolve(module, glob, depth + 1) {
                    if let Target::Module(other) = target
                        && other != module
                    {
                        found.extend(self.lookup_in(other, name, depth + 1));
                    }
                }
            }
        }
        found
    }

    fn lookup_in(&self, module: ModuleId, name: &str, depth: usize) -> Vec<Target> {
        if depth < 32 { self.lookup(module, name, depth) } else { Vec::new() }
    }

    /// Which file uses which.
    pub fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (id, module) in self.modules.iter().enumerate() {
            let mut named = Named::default();
            module.items.iter().for_each(|item| named.visit_item(item));
            let own = uses.entry(self.files[module.file].clone()).or_default();
            for path in named.paths {
                for target in self.resolve(id, &path, 0) {
                    let Target::Item(file) = target else { continue };
                    if file != module.file {
                        own.entry(self.files[file].clone()).or_insert_with(|| path.join("::"));
                    }
                }
            }
        }
        uses
    }
}

/// The files of each circle: sets of more than one file that all reach one another.
pub fn circles(uses: &Uses) -> Vec<Vec<PathBuf>> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> = uses.keys().map(|file| (file, reach(uses, file))).collect();
    let mut left: BTreeSet<&PathBuf> = uses.keys().collect();
    let mut found = Vec::new();
    while let Some(first) = left.pop_first() {
        let mutual = |other: &&&PathBuf| reached[first].contains(**other) && reached[**other].contains(first);
        let circle: Vec<&PathBuf> = left.iter().filter(mutual).copied().collect();
        if !circle.is_empty() {
            left.retain(|file| !circle.contains(file));
            found.push(std::iter::once(first).chain(circle).cloned().collect());
        }
    }
    found
}

fn reach<'a>(uses: &'a Uses, from: &PathBuf) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&PathBuf> = uses[from].keys().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(uses.get(file).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// All paths that code names, those within macros' arguments too.
#[derive(Default)]
struct Named {
    paths: BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for Named {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        if !attributes(item).iter().any(is_test) {
            syn::visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &'ast syn::ImplItemFn) {
        if !item.attrs.iter().any(is_test) {
            syn::visit::visit_impl_item_fn(self, item);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.paths.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        syn::visit::visit_path(self, path);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.visit_tree(&mut Vec::new(), &item.tree);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        syn::visit::visit_macro(self, call);
        self.visit_tokens(call.tokens.clone());
    }
}

impl Named {
    fn visit_tree(&mut self, prefix: &mut Vec<String>, tree: &syn::UseTree) {
        match tree {
            syn::UseTree::Path(path) => {
                prefix.push(path.ident.to_string());
                self.visit_tree(prefix, &path.tree);
                prefix.pop();
            }
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.visit_tree(prefix, tree)),
            syn::UseTree::Glob(_) => {}
            syn::UseTree::Name(syn::UseName { ident }) | syn::UseTree::Rename(syn::UseRename { ident, .. }) => {
                self.paths.insert(prefix.iter().cloned().chain([ident.to_string()]).collect());
            }
        }
    }

    fn visit_tokens(&mut self, tokens: TokenStream) {
        let mut path: Vec<String> = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 {
                        self.end(&mut path);
                    }
                    path.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.end(&mut path);
                    colons = 0;
                }
                TokenTree::Group(group) => {
                    self.end(&mut path);
                    colons = 0;
                    self.visit_tokens(group.stream());
                }
            }
        }
        self.end(&mut path);
    }

    fn end(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.paths.insert(std::mem::take(path));
        }
    }
}

fn file_of(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(format!("{name}.rs"));
    if file.is_file() { file } else { folder.join(name).join("mod.rs") }
}

fn is_test(attribute: &syn::Attribute) -> bool {
    let syn::Meta::List(list) = &attribute.meta else { return attribute.path().is_ident("test") };
    list.path.is_ident("cfg")
        && list.tokens.to_string().split(|c: char| !c.is_alphanumeric()).any(|word| word == "test")
}

fn attributes(item: &syn::Item) -> &[syn::Attribute] {
    match item {
        syn::Item::Const(item) => &item.attrs,
        syn::Item::Enum(item) => &item.attrs,
        syn::Item::Fn(item) => &item.attrs,
        syn::Item::Impl(item) => &item.attrs,
        syn::Item::Macro(item) => &item.attrs,
        syn::Item::Mod(item) => &item.attrs,
        syn::Item::Static(item) => &item.attrs,
        syn::Item::Struct(item) => &item.attrs,
        syn::Item::Trait(item) => &item.attrs,
        syn::Item::Type(item) => &item.attrs,
        syn::Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn name_of(item: &syn::Item) -> Option<String> {
    let ident = match item {
        syn::Item::Const(item) => &item.ident,
        syn::Item::Enum(item) => &item.ident,
        syn::Item::Fn(item) => &item.sig.ident,
        syn::Item::Macro(item) => item.ident.as_ref()?,
        syn::Item::Static(item) => &item.ident,
        syn::Item::Struct(item) => &item.ident,
        syn::Item::Trait(item) => &item.ident,
        syn::Item::Type(item) => &item.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

#[test]
fn a_circle_is_found_through_re_exports_and_not_in_tests() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("circles");
    std::fs::create_dir_all(folder.join("b")).expect("a folder of its own");
    let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).expect("a file in it");
    write("lib.rs", "mod a; mod b; mod c; pub use b::inner::Inner; fn main() { a::run(); }");
    write("a.rs", "pub fn run() { println!(\"{:?}\", crate::Inner::default()); }");
    write("b/mod.rs", "pub mod inner;");
    write(
        "b/inner.rs",
        "use crate::c::Leaf; #[derive(Debug, Default)] pub struct Inner(Leaf); fn back() { crate::a::run() }",
    );
    write("c.rs", "#[derive(Debug, Default)] pub struct Leaf; #[cfg(test)] mod tests { use crate::Inner; }");
    let found = circles(&Crate::read(&folder.join("lib.rs")).uses());
    assert_eq!(found, [vec![folder.join("a.rs"), folder.join("b/inner.rs")]]);
}
