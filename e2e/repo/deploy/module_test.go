package deploy_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/typeexpr"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"
)

// module is a directory of Terraform's language, read by what Terraform reads it with.
// Only types of resources are not known here, but for the attributes in [resources].
type module struct {
	dir       string
	settings  []*hclsyntax.Block
	variables map[string]*hclsyntax.Block
	outputs   map[string]*hclsyntax.Block
	// items are what has a value, by the beginning of a reference to it:
	// local.NAME, TYPE.NAME, data.TYPE.NAME and module.NAME.
	items map[string]item
}

// item is a local value's expression or a block.
type item struct {
	expr  hclsyntax.Expression
	block *hclsyntax.Block
}

// readModule reads a module. The error is everything that is wrong with its form:
// syntax, format, and blocks that no module has.
func readModule(dir string) (*module, error) {
	m := &module{dir: dir, variables: map[string]*hclsyntax.Block{}, outputs: map[string]*hclsyntax.Block{}, items: map[string]item{}}
	files, err := filepath.Glob(filepath.Join(dir, "*.tf"))
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("%s: no files: %w", dir, err)
	}
	var errs []error
	for _, path := range files {
		errs = append(errs, m.read(path))
	}
	return m, errors.Join(errs...)
}

func (m *module) read(path string) error {
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(hclwrite.Format(source), source) {
		return fmt.Errorf("%s is not formatted: tofu fmt", path)
	}
	file, problems := hclsyntax.ParseConfig(source, path, hcl.InitialPos)
	if problems.HasErrors() {
		return problems
	}
	body, ok := file.Body.(*hclsyntax.Body)
	if !ok || len(body.Attributes) > 0 {
		return fmt.Errorf("%s: attributes outside of blocks", path)
	}
	for _, block := range body.Blocks {
		if err := m.add(block); err != nil {
			return fmt.Errorf("%s: %w", block.Range(), err)
		}
	}
	return nil
}

func (m *module) add(block *hclsyntax.Block) error {
	switch block.Type {
	case "terraform", "provider":
		m.settings = append(m.settings, block)
	case "variable":
		m.variables[block.Labels[0]] = block
	case "output":
		m.outputs[block.Labels[0]] = block
	case "locals":
		for name, attribute := range block.Body.Attributes {
			m.items["local."+name] = item{expr: attribute.Expr}
		}
	case "resource":
		m.items[strings.Join(block.Labels, ".")] = item{block: block}
	case "data", "module":
		m.items[block.Type+"."+strings.Join(block.Labels, ".")] = item{block: block}
	default:
		return fmt.Errorf("a block %s", block.Type)
	}
	return nil
}

// reference is the beginning of a traversal that names an item or a variable.
func reference(t hcl.Traversal) string {
	parts := []string{t.RootName()}
	long := 2
	if parts[0] == "data" {
		long = 3
	}
	for _, step := range t[1:] {
		attribute, ok := step.(hcl.TraverseAttr)
		if !ok || len(parts) == long {
			break
		}
		parts = append(parts, attribute.Name)
	}
	return strings.Join(parts, ".")
}

// ownNames are roots of references that are no items.
var ownNames = []string{"var", "path", "each", "count", "self"}

// needs are the items that a node refers to.
func needs(node hclsyntax.Node) []string {
	var found []string
	for _, t := range references(node) {
		if !slices.Contains(ownNames, t.RootName()) {
			found = append(found, reference(t))
		}
	}
	return found
}

// references are all references of a node, those in nested blocks too. What stands in
// type constraints and in ignore_changes is none.
func references(node hclsyntax.Node) []hcl.Traversal {
	switch n := node.(type) {
	case hclsyntax.Expression:
		return n.Variables()
	case *hclsyntax.Body:
		var all []hcl.Traversal
		for name, attribute := range n.Attributes {
			if name != "ignore_changes" && name != "type" {
				all = append(all, attribute.Expr.Variables()...)
			}
		}
		for _, block := range n.Blocks {
			all = append(all, references(block.Body)...)
		}
		return all
	}
	return nil
}

// evaluation is a module at work: with values for its variables, and with the values of
// its items as far as they are known.
type evaluation struct {
	*module
	vars  cty.Value
	known map[string]cty.Value
}

// evaluate works out a module as Terraform's plan does: every expression of it, with
// examples in the place of resources. It returns the outputs. The error is everything
// that does not come out: unknown names, missing variables, wrong types.
func evaluate(m *module, given map[string]cty.Value) (map[string]cty.Value, error) {
	vars, err := m.takeVariables(given)
	if err != nil {
		return nil, err
	}
	e := &evaluation{m, cty.ObjectVal(vars), map[string]cty.Value{}}
	if err := e.items(); err != nil {
		return nil, err
	}
	outputs, errs := map[string]cty.Value{}, []error{e.checkConditions()}
	for name, block := range m.outputs {
		v, err := e.value(block.Body.Attributes["value"].Expr, nil)
		outputs[name] = v
		errs = append(errs, err)
	}
	return outputs, errors.Join(errs...)
}

// takeVariables gives each variable its value, of its type.
func (m *module) takeVariables(given map[string]cty.Value) (map[string]cty.Value, error) {
	vars := map[string]cty.Value{}
	var errs []error
	for name := range given {
		if m.variables[name] == nil {
			errs = append(errs, fmt.Errorf("%s has no variable %s", m.dir, name))
		}
	}
	for name, block := range m.variables {
		v, err := variable(block, given[name])
		vars[name] = v
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: variable %s: %w", m.dir, name, err))
		}
	}
	return vars, errors.Join(errs...)
}

// variable is the value of a variable: the given one, or the default.
func variable(block *hclsyntax.Block, v cty.Value) (cty.Value, error) {
	attributes := block.Body.Attributes
	if attributes["type"] == nil {
		return cty.DynamicVal, errors.New("has no type")
	}
	kind, problems := typeexpr.TypeConstraint(attributes["type"].Expr)
	if problems.HasErrors() {
		return cty.DynamicVal, problems
	}
	if v == cty.NilVal {
		if attributes["default"] == nil {
			return cty.DynamicVal, errors.New("is needed")
		}
		if v, problems = attributes["default"].Expr.Value(nil); problems.HasErrors() {
			return cty.DynamicVal, problems
		}
	}
	return convert.Convert(v, kind)
}

// items works out the items, each after those that it needs.
func (e *evaluation) items() error {
	for len(e.known) < len(e.module.items) {
		before := len(e.known)
		for name, i := range e.module.items {
			if _, done := e.known[name]; done || !e.ready(i) {
				continue
			}
			v, err := e.item(name, i)
			if err != nil {
				return fmt.Errorf("%s: %s: %w", e.dir, name, err)
			}
			e.known[name] = v
		}
		if len(e.known) == before {
			return e.stuck()
		}
	}
	return nil
}

func (i item) node() hclsyntax.Node {
	if i.block != nil {
		return i.block.Body
	}
	return i.expr
}

func (e *evaluation) ready(i item) bool {
	return !slices.ContainsFunc(needs(i.node()), func(name string) bool { return e.known[name] == cty.NilVal })
}

// stuck says what the items that are left wait for.
func (e *evaluation) stuck() error {
	var errs []error
	for name, i := range e.module.items {
		for _, need := range needs(i.node()) {
			if _, exists := e.module.items[need]; !exists {
				errs = append(errs, fmt.Errorf("%s: %s refers to %s, which there is not", e.dir, name, need))
			}
		}
	}
	return cmpOr(errors.Join(errs...), fmt.Errorf("%s: items refer to each other in a circle", e.dir))
}

func cmpOr(err, otherwise error) error {
	if err != nil {
		return err
	}
	return otherwise
}
