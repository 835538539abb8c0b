// Package chart renders the Helm chart of the operator as helm does, without a cluster.
// Its tests hold the chart to what it promises; a command makes of it what clusterctl
// installs.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Release is what a chart is installed as. Both fields are required.
type Release struct{ Name, Namespace string }

// Rendered is what an installation would send to the API server, and say to its user.
type Rendered struct {
	Objects []*unstructured.Unstructured // by file, in the order of each file
	Notes   string
	Version string // of the application
}

// Render renders the chart in a directory with values over its defaults. Values that the
// chart's schema refuses are an error, as is an object that is not YAML.
func Render(dir string, release Release, values map[string]any) (Rendered, error) {
	c, err := loader.Load(dir)
	if err != nil {
		return Rendered{}, fmt.Errorf("load the chart: %w", err)
	}
	options := chartutil.ReleaseOptions{Name: release.Name, Namespace: release.Namespace, Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, values, options, chartutil.DefaultCapabilities)
	if err != nil {
		return Rendered{}, fmt.Errorf("values: %w", err)
	}
	texts, err := engine.Engine{Strict: true}.Render(c, all)
	if err != nil {
		return Rendered{}, fmt.Errorf("render: %w", err)
	}
	out := Rendered{Version: c.AppVersion()}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		switch base := path.Base(name); {
		case base == "NOTES.txt":
			out.Notes = texts[name]
		case strings.HasPrefix(base, "_"):
		default:
			objects, err := decode(texts[name])
			if err != nil {
				return Rendered{}, fmt.Errorf("%s: %w", base, err)
			}
			out.Objects = append(out.Objects, objects...)
		}
	}
	return out, nil
}

// decode reads the objects of a file. Documents of comments alone are none.
func decode(text string) ([]*unstructured.Unstructured, error) {
	var objects []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader([]byte(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("object %d: %w", len(objects)+1, err)
		}
		if len(object.Object) > 0 {
			objects = append(objects, object)
		}
	}
}
