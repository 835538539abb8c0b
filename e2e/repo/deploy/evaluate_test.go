package deploy_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// item works one item out: all of its expressions, and what others see of it.
func (e *evaluation) item(name string, i item) (cty.Value, error) {
	if i.expr != nil {
		return e.value(i.expr, nil)
	}
	return e.repeat(i.block, func(key string, own map[string]cty.Value) (cty.Value, error) {
		if strings.HasPrefix(name, "module.") {
			return e.call(i.block, own)
		}
		kind := strings.TrimSuffix(name, "."+i.block.Labels[1])
		return example(kind, i.block.Labels[1], key), e.body(i.block.Body, own)
	})
}

// repeat works a block out once, or for each member of its for_each, or count times.
func (e *evaluation) repeat(block *hclsyntax.Block, once func(key string, own map[string]cty.Value) (cty.Value, error)) (cty.Value, error) {
	if forEach := block.Body.Attributes["for_each"]; forEach != nil {
		members, err := e.value(forEach.Expr, nil)
		if err != nil {
			return cty.NilVal, err
		}
		all := map[string]cty.Value{}
		for it := members.ElementIterator(); it.Next(); {
			key, value := it.Element()
			if members.Type().IsSetType() {
				key = value
			}
			each := cty.ObjectVal(map[string]cty.Value{"key": key, "value": value})
			v, err := once(key.AsString(), map[string]cty.Value{"each": each})
			if err != nil {
				return cty.NilVal, err
			}
			all[key.AsString()] = v
		}
		return cty.ObjectVal(all), nil
	}
	if count := block.Body.Attributes["count"]; count != nil {
		n, err := e.value(count.Expr, nil)
		if err != nil {
			return cty.NilVal, err
		}
		many, _ := n.AsBigFloat().Int64()
		all := []cty.Value{}
		for index := range many {
			own := cty.ObjectVal(map[string]cty.Value{"index": cty.NumberIntVal(index)})
			v, err := once(strconv.FormatInt(index, 10), map[string]cty.Value{"count": own})
			if err != nil {
				return cty.NilVal, err
			}
			all = append(all, v)
		}
		return cty.TupleVal(all), nil
	}
	return once("", nil)
}

// call works out a module that this one uses.
func (e *evaluation) call(block *hclsyntax.Block, own map[string]cty.Value) (cty.Value, error) {
	given := map[string]cty.Value{}
	for name, attribute := range block.Body.Attributes {
		switch name {
		case "source", "for_each", "count", "depends_on", "providers":
			continue
		}
		v, err := e.value(attribute.Expr, own)
		if err != nil {
			return cty.NilVal, err
		}
		given[name] = v
	}
	source, err := e.value(block.Body.Attributes["source"].Expr, nil)
	if err != nil {
		return cty.NilVal, err
	}
	if !strings.HasPrefix(source.AsString(), "../") {
		return cty.NilVal, fmt.Errorf("source %q is not beside this module", source.AsString())
	}
	m, err := readModule(filepath.Join(e.dir, source.AsString()))
	if err != nil {
		return cty.NilVal, err
	}
	outputs, err := evaluate(m, given)
	return cty.ObjectVal(outputs), err
}

// body works out everything in a block of a resource.
func (e *evaluation) body(body *hclsyntax.Body, own map[string]cty.Value) error {
	var errs []error
	for name, attribute := range body.Attributes {
		switch name {
		case "ignore_changes", "depends_on": // names, which have no value
			continue
		}
		_, err := e.value(attribute.Expr, own)
		errs = append(errs, err)
	}
	for _, block := range body.Blocks {
		errs = append(errs, e.body(block.Body, own))
	}
	return errors.Join(errs...)
}

// attribute works out one attribute of a resource that there is once.
func (e *evaluation) attribute(item, name string) (cty.Value, error) {
	i, exists := e.module.items[item]
	if !exists || i.block == nil || i.block.Body.Attributes[name] == nil {
		return cty.NilVal, fmt.Errorf("%s has no %s with %s", e.dir, item, name)
	}
	return e.value(i.block.Body.Attributes[name].Expr, nil)
}

// checkConditions holds the variables to their validations.
func (e *evaluation) checkConditions() error {
	var errs []error
	for name, block := range e.variables {
		for _, validation := range block.Body.Blocks {
			holds, err := e.value(validation.Body.Attributes["condition"].Expr, nil)
			if err == nil && holds.False() {
				err = fmt.Errorf("%s: variable %s is not valid", e.dir, name)
			}
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// value works out an expression. own are the names that only its block knows.
func (e *evaluation) value(expr hclsyntax.Expression, own map[string]cty.Value) (cty.Value, error) {
	names := map[string]cty.Value{
		"var":  e.vars,
		"path": cty.ObjectVal(map[string]cty.Value{"module": cty.StringVal(e.dir)}),
	}
	for name, value := range own {
		names[name] = value
	}
	tree := map[string]any{}
	for name, value := range e.known {
		plant(tree, strings.Split(name, "."), value)
	}
	for name, branch := range tree {
		names[name] = grown(branch)
	}
	v, problems := expr.Value(&hcl.EvalContext{Variables: names, Functions: functions()})
	if problems.HasErrors() {
		return cty.DynamicVal, problems
	}
	return v, nil
}

func plant(tree map[string]any, path []string, value cty.Value) {
	if len(path) == 1 {
		tree[path[0]] = value
		return
	}
	branch, ok := tree[path[0]].(map[string]any)
	if !ok {
		branch = map[string]any{}
		tree[path[0]] = branch
	}
	plant(branch, path[1:], value)
}

func grown(branch any) cty.Value {
	if value, ok := branch.(cty.Value); ok {
		return value
	}
	all := map[string]cty.Value{}
	for name, below := range branch.(map[string]any) {
		all[name] = grown(below)
	}
	return cty.ObjectVal(all)
}
