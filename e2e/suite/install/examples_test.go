package install_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer"

	"nstance.dev/e2e/env/kube"
	"nstance.dev/e2e/suite/install"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/crds/crdtest"
	"nstance.dev/operator/manager"
)

const (
	examples = "../../../operator/examples"
	pages    = "../../../docs/kubernetes"
)

// manifests are the examples, and the objects in the pages, by where they stand.
func manifests(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	read := func(pattern string, take func(path, text string)) {
		paths, err := filepath.Glob(pattern)
		if err != nil || len(paths) == 0 {
			t.Fatalf("%s: nothing there, %v", pattern, err)
		}
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			take(path, string(text))
		}
	}
	read(examples+"/*.yaml", func(path, text string) { found[filepath.Base(path)] = text })
	read(pages+"/*.md", func(path, text string) {
		for _, block := range install.Blocks(text, "yaml") {
			if strings.HasPrefix(block, "apiVersion:") {
				found[filepath.Base(path)] += "---\n" + block
			}
		}
	})
	return found
}

// TestExamplesAreOfTheirKinds: every field exists, and the API server's own code accepts
// what is of our kinds.
func TestExamplesAreOfTheirKinds(t *testing.T) {
	scheme, err := manager.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	judges := judges(t)
	for place, text := range manifests(t) {
		objects, err := kube.Objects([]byte(text))
		if err != nil || len(objects) == 0 {
			t.Errorf("%s: %d objects, %v", place, len(objects), err)
		}
		for _, object := range objects {
			name := place + ": " + object.GetKind() + " " + object.GetName()
			encoded, err := object.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := decoder.Decode(encoded, nil, nil); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if judge := judges[object.GetKind()]; judge != nil {
				if errs := judge.Answer(t.Context(), crdtest.Case{Sent: object.Object}); len(errs) > 0 {
					t.Errorf("%s: %v", name, errs.ToAggregate())
				}
			}
		}
	}
}

// judges answer for the API server, by kind.
func judges(t *testing.T) map[string]*crdtest.Judge {
	t.Helper()
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	byKind := map[string]*crdtest.Judge{}
	for _, crd := range all {
		if byKind[crd.Spec.Names.Kind], err = crdtest.NewJudge(crd); err != nil {
			t.Fatal(err)
		}
	}
	return byKind
}
