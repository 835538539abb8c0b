// Package crds carries the CustomResourceDefinitions of the operator's kinds: the files
// beside this one, in demand/ and in hosts/, which are generated from the types in operator/api.
//
// The chart installs the files beside this one. Those in demand/ and hosts/ belong each to a
// feature that is off by default, and an operator without it needs none of them. Tests and
// generators read all of them from here.
package crds

import (
	"embed"
	"fmt"
	"path"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml demand/*.yaml hosts/*.yaml
var files embed.FS

// All returns the definitions of the kinds of Cluster API, sorted by name. Each call decodes
// them anew, so a caller may change what it gets.
func All() ([]*apiextensionsv1.CustomResourceDefinition, error) { return read(".") }

// Hosts returns the definitions of the kinds of host machines, as All does the others.
func Hosts() ([]*apiextensionsv1.CustomResourceDefinition, error) { return read("hosts") }

// Demand returns the definitions of the kinds of demand mode, as All does the others.
func Demand() ([]*apiextensionsv1.CustomResourceDefinition, error) { return read("demand") }

func read(dir string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the embedded definitions: %w", err)
	}
	all := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		data, err := files.ReadFile(path.Join(dir, entry.Name()))
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", entry.Name(), err)
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(data, crd); err != nil {
			return nil, fmt.Errorf("decode %s: %w", entry.Name(), err)
		}
		all = append(all, crd)
	}
	return all, nil
}
