package fakecloud

import (
	"fmt"
	"strings"
)

type parameter struct {
	value   string
	version int
}

type named struct {
	Name           string
	WithDecryption bool
}

func (a *AWS) getParameter(in named) (any, error) {
	p, ok := a.parameters[in.Name]
	if !ok {
		return nil, apiError{"ParameterNotFound", ""}
	}
	return map[string]any{"Parameter": p.show(in.Name, in.WithDecryption)}, nil
}

func (p parameter) show(name string, decrypted bool) map[string]any {
	value := p.value
	if !decrypted {
		value = "ENCRYPTED"
	}
	return map[string]any{"Name": name, "Type": "SecureString", "Value": value, "Version": p.version}
}

type putParameter struct {
	Name, Value, Type, Tier string
	Overwrite               bool
}

func (a *AWS) putParameter(in putParameter) (any, error) {
	p, exists := a.parameters[in.Name]
	switch {
	case in.Type != "SecureString":
		return nil, invalid(in.Type, "type", "it must be SecureString here")
	case in.Value == "" || len(in.Value) > 4096:
		return nil, invalid(in.Value, "value", "Member must have length from 1 to 4096")
	case exists && !in.Overwrite:
		return nil, apiError{"ParameterAlreadyExists", "The parameter already exists."}
	}
	a.parameters[in.Name] = parameter{value: in.Value, version: p.version + 1}
	return map[string]any{"Version": p.version + 1, "Tier": "Standard"}, nil
}

func (a *AWS) deleteParameter(in named) (any, error) {
	if _, ok := a.parameters[in.Name]; !ok {
		return nil, apiError{"ParameterNotFound", ""}
	}
	delete(a.parameters, in.Name)
	return map[string]any{}, nil
}

type byPath struct {
	Path           string
	Recursive      bool
	WithDecryption bool
	NextToken      string
}

func (a *AWS) getParametersByPath(in byPath) (any, error) {
	if !strings.HasPrefix(in.Path, "/") {
		return nil, invalid(in.Path, "path", "it must begin with /")
	}
	folder := strings.TrimSuffix(in.Path, "/") + "/"
	var names []string
	for name := range a.parameters {
		rest, below := strings.CutPrefix(name, folder)
		if below && (in.Recursive || !strings.Contains(rest, "/")) {
			names = append(names, name)
		}
	}
	names, next := page(names, in.NextToken)
	out := []any{}
	for _, name := range names {
		out = append(out, a.parameters[name].show(name, in.WithDecryption))
	}
	answer := map[string]any{"Parameters": out}
	if next != "" {
		answer["NextToken"] = next
	}
	return answer, nil
}

// Parameters returns the values of all parameters by their full names.
func (a *AWS) Parameters() map[string]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := map[string]string{}
	for name, p := range a.parameters {
		out[name] = p.value
	}
	return out
}

// PutParameter stores a parameter as somebody else would.
func (a *AWS) PutParameter(name, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.putParameter(putParameter{Name: name, Value: value, Type: "SecureString", Overwrite: true}); err != nil {
		panic(fmt.Sprintf("parameter %s: %v", name, err))
	}
}
