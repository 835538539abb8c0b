package components

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"nstance.dev/e2e/repo/chart"
)

// What the operator is called, and where it is, when clusterctl has installed it.
const (
	Provider  = "nstance"
	Release   = "nstance-operator"
	Namespace = "nstance"
)

// The label by which clusterctl knows what belongs to a provider, and its value for ours,
// which names the provider's folder in a repository too.
const (
	ProviderLabel = "cluster.x-k8s.io/provider"
	ProviderValue = "infrastructure-" + Provider
)

// Components are what a version of the operator consists of.
type Components struct {
	Version string // of the operator, with a v in front
	YAML    []byte // infrastructure-components.yaml
}

// Make makes the components of the chart in a directory.
func Make(dir string) (Components, error) {
	rendered, err := chart.Render(dir, chart.Release{Name: Release, Namespace: Namespace}, values())
	if err != nil {
		return Components{}, err
	}
	for _, object := range rendered.Objects {
		adapt(object)
	}
	if err := open(rendered.Objects); err != nil {
		return Components{}, err
	}
	text, err := encode(inOrder(rendered.Objects))
	return Components{Version: "v" + rendered.Version, YAML: text}, err
}

// values are those of the chart that a release for everybody has. Definitions are not
// marked for Helm; clusterctl leaves them anyway.
func values() map[string]any {
	return map[string]any{
		"config": map[string]any{"clusterId": example, "shards": map[string]any{example: map[string]any{"operator_addr": example}}},
		"crds":   map[string]any{"keep": false},
	}
}

// adapt takes off an object what Helm says about itself, and labels it for clusterctl.
func adapt(object *unstructured.Unstructured) {
	unlabel(object.Object)
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ProviderLabel] = ProviderValue
	object.SetLabels(labels)
	unname(object)
}

// unname has a rule be about all objects of its kind in the namespace where the chart names
// one after the cluster: which cluster it is is known only to who installs.
func unname(object *unstructured.Unstructured) {
	rules, ok := object.Object["rules"].([]any)
	if !ok {
		return
	}
	for _, rule := range rules {
		if rule, ok := rule.(map[string]any); ok {
			names, _, _ := unstructured.NestedStringSlice(rule, "resourceNames") // an error: it names none
			if slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, example) }) {
				delete(rule, "resourceNames")
			}
		}
	}
}

// unlabel takes Helm's labels off an object and the Pods that it describes.
func unlabel(value any) {
	switch value := value.(type) {
	case map[string]any:
		if labels, ok := value["labels"].(map[string]any); ok {
			delete(labels, "helm.sh/chart")
			delete(labels, "app.kubernetes.io/managed-by")
		}
		for _, inner := range value {
			unlabel(inner)
		}
	case []any:
		for _, inner := range value {
			unlabel(inner)
		}
	}
}

// inOrder puts the namespace in front, then the definitions, then the rest as it was.
func inOrder(objects []*unstructured.Unstructured) []*unstructured.Unstructured {
	namespace := &unstructured.Unstructured{}
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(Namespace)
	adapt(namespace)
	isDefinition := func(o *unstructured.Unstructured) int {
		if o.GetKind() == "CustomResourceDefinition" {
			return 0
		}
		return 1
	}
	sorted := slices.SortedStableFunc(slices.Values(objects), func(a, b *unstructured.Unstructured) int {
		return isDefinition(a) - isDefinition(b)
	})
	return append([]*unstructured.Unstructured{namespace}, sorted...)
}

// encode writes objects as the documents of one file.
func encode(objects []*unstructured.Unstructured) ([]byte, error) {
	var text bytes.Buffer
	text.WriteString("# Made of the chart nstance-operator: change that.\n")
	for _, object := range objects {
		document, err := yaml.Marshal(object.Object)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", object.GetKind(), object.GetName(), err)
		}
		text.WriteString("---\n")
		text.Write(document)
	}
	return text.Bytes(), nil
}
