package deploy_test

import (
	"encoding/base64"
	"os"
	"path/filepath"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// functions are those of the language that modules may use. Modules need no more of
// them than this; another one is added here first.
func functions() map[string]function.Function {
	all := map[string]function.Function{
		"base64encode": text(func(s string) (string, error) { return base64.StdEncoding.EncodeToString([]byte(s)), nil }),
		"can":          tryfunc.CanFunc,
		"coalesce":     stdlib.CoalesceFunc,
		"concat":       stdlib.ConcatFunc,
		"contains":     stdlib.ContainsFunc,
		"file": text(func(path string) (string, error) {
			content, err := os.ReadFile(filepath.FromSlash(path))
			return string(content), err
		}),
		"flatten":    stdlib.FlattenFunc,
		"format":     stdlib.FormatFunc,
		"join":       stdlib.JoinFunc,
		"jsonencode": stdlib.JSONEncodeFunc,
		"keys":       stdlib.KeysFunc,
		"length":     length,
		"lookup":     stdlib.LookupFunc,
		"lower":      stdlib.LowerFunc,
		"merge":      stdlib.MergeFunc,
		"one":        one,
		"regex":      stdlib.RegexFunc,
		"replace":    stdlib.ReplaceFunc,
		"sort":       stdlib.SortFunc,
		"substr":     stdlib.SubstrFunc,
		"toset":      stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)),
		"tostring":   stdlib.MakeToFunc(cty.String),
		"trimsuffix": stdlib.TrimSuffixFunc,
		"try":        tryfunc.TryFunc,
		"upper":      stdlib.UpperFunc,
		"values":     stdlib.ValuesFunc,
	}
	all["templatefile"] = templateFile(all)
	return all
}

// text is a function from text to text.
func text(of func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "text", Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			s, err := of(args[0].AsString())
			return cty.StringVal(s), err
		},
	})
}

// length counts the characters of text too, which that of package stdlib does not.
var length = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "of", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.Number),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		if args[0].Type() == cty.String {
			return stdlib.Strlen(args[0])
		}
		if args[0].Type().IsObjectType() {
			return cty.NumberIntVal(int64(args[0].LengthInt())), nil
		}
		return stdlib.Length(args[0])
	},
})

// one is the only member of a list, or null of an empty one.
var one = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "of", Type: cty.DynamicPseudoType}},
	Type:   function.StaticReturnType(cty.DynamicPseudoType),
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
		switch args[0].LengthInt() {
		case 0:
			return cty.NullVal(cty.DynamicPseudoType), nil
		case 1:
			return args[0].AsValueSlice()[0], nil
		}
		return cty.NilVal, function.NewArgErrorf(0, "has %d members", args[0].LengthInt())
	},
})

// templateFile renders a file with variables of its own.
func templateFile(known map[string]function.Function) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: "path", Type: cty.String}, {Name: "vars", Type: cty.DynamicPseudoType}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			path := args[0].AsString()
			source, err := os.ReadFile(path)
			if err != nil {
				return cty.NilVal, err
			}
			template, problems := hclsyntax.ParseTemplate(source, path, hcl.InitialPos)
			if problems.HasErrors() {
				return cty.NilVal, problems
			}
			vars := args[1].AsValueMap()
			used := map[string]bool{}
			for _, reference := range template.Variables() {
				used[reference.RootName()] = true
			}
			for name := range vars {
				if !used[name] {
					return cty.NilVal, function.NewArgErrorf(1, "%s does not use %s", filepath.Base(path), name)
				}
			}
			v, problems := template.Value(&hcl.EvalContext{Variables: vars, Functions: known})
			if problems.HasErrors() {
				return cty.NilVal, problems
			}
			return v, nil
		},
	})
}
