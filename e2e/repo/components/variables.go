package components

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Variable is a value that clusterctl fills in, from its environment or its configuration
// file.
type Variable struct {
	Name    string
	Default string // empty: it has to be given
	text    string // of the rendered chart, with %s where the value stands; it occurs once
	chart   string // the value there
}

// example stands in the rendered chart where there is no default.
const example = "example"

// Variables are all that clusterctl asks for.
func Variables() []Variable {
	const apiServer = "https://kubernetes.default.svc:443"
	return []Variable{
		{Name: "NSTANCE_CLUSTER_ID", text: `cluster_id: "%s"`, chart: example},
		{Name: "NSTANCE_SHARDS", text: "%s\n", chart: example + ":\n  operator_addr: " + example},
		{Name: "NSTANCE_TENANT", Default: "default", text: `tenant: "%s"`, chart: "default"},
		{Name: "NSTANCE_IMPORT_POOLS", Default: "aggregate", text: "pools: %s", chart: "aggregate"},
		{Name: "NSTANCE_CAPI_APISERVER", Default: apiServer, text: "%s", chart: apiServer},
		{Name: "NSTANCE_LOG_LEVEL", Default: "info", text: "--log-level=%s", chart: "info"},
	}
}

// reference is how clusterctl writes the variable.
func (v Variable) reference() string {
	if v.Default == "" {
		return "${" + v.Name + "}"
	}
	return "${" + v.Name + ":=" + v.Default + "}"
}

// open puts the variables where their values stand in the texts of objects. It is an error
// if one has no place, or more than one: then the chart has changed.
func open(objects []*unstructured.Unstructured) error {
	for _, v := range Variables() {
		was, becomes := fmt.Sprintf(v.text, v.chart), fmt.Sprintf(v.text, v.reference())
		places := 0
		for _, object := range objects {
			object.Object, _ = replace(object.Object, was, becomes, &places).(map[string]any)
		}
		if places != 1 {
			return fmt.Errorf("%s: %q occurs %d times in the rendered chart, want once", v.Name, was, places)
		}
	}
	return nil
}

// replace returns a value with one text for another in all strings, and counts them.
func replace(value any, was, becomes string, places *int) any {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			value[key] = replace(inner, was, becomes, places)
		}
	case []any:
		for i, inner := range value {
			value[i] = replace(inner, was, becomes, places)
		}
	case string:
		*places += strings.Count(value, was)
		return strings.ReplaceAll(value, was, becomes)
	}
	return value
}
