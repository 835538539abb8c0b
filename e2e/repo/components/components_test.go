package components_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"nstance.dev/e2e/repo/chart"
	"nstance.dev/e2e/repo/components"
)

const (
	operator = "../../../operator"
	charts   = operator + "/charts/nstance-operator"
)

func made(t *testing.T) components.Components {
	t.Helper()
	all, err := components.Make(charts)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// objects are those of a file, whose variables need not be filled in.
func objects(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, document := range strings.Split(text, "\n---\n")[1:] {
		object := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// everywhere are the kinds of ours that are in no namespace.
var everywhere = []string{
	"ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition", "MutatingWebhookConfiguration", "Namespace",
	"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding", "ValidatingWebhookConfiguration",
}

// TestNothingIsOfTheExample: whose cluster it will be is not known when it is made, so nothing
// is named after the one that it was rendered with.
func TestNothingIsOfTheExample(t *testing.T) {
	for line := range strings.Lines(string(made(t).YAML)) {
		if strings.Contains(line, "example--") {
			t.Errorf("%s", line)
		}
	}
}

// TestWhatClusterctlDemands: the rules of its contract with providers, and those by which it
// finds again what it has to delete.
func TestWhatClusterctlDemands(t *testing.T) {
	all := objects(t, string(made(t).YAML))
	if len(all) < 30 || all[0].GetKind() != "Namespace" || all[0].GetName() != components.Namespace {
		t.Fatalf("%d objects, the first one a %s; want the namespace and all of the chart", len(all), all[0].GetKind())
	}
	definitions := 0
	for i, o := range all {
		name := o.GetKind() + " " + o.GetName()
		if i > 0 && o.GetKind() == "Namespace" {
			t.Errorf("%s: there may be one namespace", name)
		}
		if o.GetLabels()[components.ProviderLabel] != components.ProviderValue {
			t.Errorf("%s: the label is %q", name, o.GetLabels()[components.ProviderLabel])
		}
		global := slices.Contains(everywhere, o.GetKind())
		if want := components.Namespace; !global && o.GetNamespace() != want {
			t.Errorf("%s is in the namespace %q", name, o.GetNamespace())
		}
		if o.GetKind() == "CustomResourceDefinition" {
			definitions++
			if o.GetLabels()["cluster.x-k8s.io/v1beta2"] != "v1beta1" {
				t.Errorf("%s does not say which version keeps the contract v1beta2", name)
			}
		} else if global && o.GetName() != components.Namespace && !strings.HasPrefix(o.GetName(), components.Namespace+"-") {
			t.Errorf("%s would stay: its name does not begin with %s-", name, components.Namespace)
		}
		if o.GetKind() == "Deployment" {
			containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
			if err != nil || len(containers) != 1 || containers[0].(map[string]any)["name"] != "manager" {
				t.Errorf("%s: clusterctl waits for a container that is called manager", name)
			}
		}
	}
	if definitions != 6 {
		t.Errorf("%d definitions", definitions)
	}
	if i := strings.Index(strings.ToLower(string(made(t).YAML)), "helm"); i >= 0 {
		t.Errorf("something of Helm is left: %s", made(t).YAML[max(0, i-80):i+80])
	}
}

var reference = regexp.MustCompile(`\$\{(\w+)(?::=([^}]*))?\}`)

// TestVariables: what is open is what the package says, each once.
func TestVariables(t *testing.T) {
	type variable struct{ name, value string }
	var got, want []variable
	for _, found := range reference.FindAllStringSubmatch(string(made(t).YAML), -1) {
		got = append(got, variable{found[1], found[2]})
	}
	for _, v := range components.Variables() {
		want = append(want, variable{v.Name, v.Default})
	}
	byName := func(a, b variable) int { return strings.Compare(a.name, b.name) }
	slices.SortFunc(got, byName)
	slices.SortFunc(want, byName)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(variable{})); diff != "" {
		t.Error(diff)
	}
}

// TestFilledInItIsTheChart: with values for the variables there is what Helm would install
// with the same values, but for what Helm says of itself.
func TestFilledInItIsTheChart(t *testing.T) {
	given := map[string]string{
		"NSTANCE_CLUSTER_ID": "prod", "NSTANCE_SHARDS": `{"a":{"operator_addr":"[fd00::1]:8993"}}`,
		"NSTANCE_TENANT": "red", "NSTANCE_IMPORT_POOLS": "per-shard",
		"NSTANCE_CAPI_APISERVER": "https://10.0.0.9:6443", "NSTANCE_LOG_LEVEL": "debug",
	}
	filled := reference.ReplaceAllStringFunc(string(made(t).YAML), func(found string) string {
		return given[reference.FindStringSubmatch(found)[1]]
	})
	rendered, err := chart.Render(charts, chart.Release{Name: components.Release, Namespace: components.Namespace}, map[string]any{
		"config": map[string]any{
			"clusterId": "prod", "tenant": "red", "import": map[string]any{"pools": "per-shard"},
			"shards": map[string]any{"a": map[string]any{"operator_addr": "[fd00::1]:8993"}},
		},
		"capi": map[string]any{"apiServer": "https://10.0.0.9:6443"}, "log": map[string]any{"level": "debug"},
		"crds": map[string]any{"keep": false},
	})
	if err != nil {
		t.Fatal(err)
	}
	byHelm := byName(t, rendered.Objects)
	byHelm["Role nstance-operator"] = withoutName(t, byHelm["Role nstance-operator"], "prod--red-kubeconfig")
	if diff := cmp.Diff(byHelm, byName(t, objects(t, filled)[1:])); diff != "" {
		t.Errorf("by Helm (-), by clusterctl (+):\n%s", diff)
	}
}

// withoutName is a role whose rule for the one object of that name is for all.
func withoutName(t *testing.T, role map[string]any, name string) map[string]any {
	t.Helper()
	for _, rule := range role["rules"].([]any) {
		rule := rule.(map[string]any)
		if names, _ := rule["resourceNames"].([]any); slices.Contains(names, any(name)) {
			delete(rule, "resourceNames")
			return role
		}
	}
	t.Errorf("no rule of the chart is for %s alone", name)
	return role
}

// byName are objects without their labels and with the shards in one form.
func byName(t *testing.T, all []*unstructured.Unstructured) map[string]map[string]any {
	t.Helper()
	named := map[string]map[string]any{}
	for _, o := range all {
		unlabel(o.Object)
		if data, ok := o.Object["data"].(map[string]any); ok && data["shards.yaml"] != nil {
			var shards any
			if err := yaml.Unmarshal([]byte(data["shards.yaml"].(string)), &shards); err != nil {
				t.Fatal(err)
			}
			data["shards.yaml"] = shards
		}
		// A number is an int64 from one reader and a float64 from the other.
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		object := map[string]any{}
		if err := yaml.Unmarshal(text, &object); err != nil {
			t.Fatal(err)
		}
		named[o.GetKind()+" "+o.GetName()] = object
	}
	return named
}

func unlabel(value any) {
	switch value := value.(type) {
	case map[string]any:
		if metadata, ok := value["metadata"].(map[string]any); ok {
			delete(metadata, "labels")
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

func TestWrite_aRepository(t *testing.T) {
	repository := t.TempDir()
	path, err := components.Write(operator, repository)
	if err != nil {
		t.Fatal(err)
	}
	version := made(t).Version
	if want := filepath.Join(repository, "infrastructure-nstance", version, "infrastructure-components.yaml"); path != want {
		t.Errorf("written to %s, want %s", path, want)
	}
	for name, want := range map[string]string{"infrastructure-components.yaml": string(made(t).YAML), "metadata.yaml": read(t, operator+"/metadata.yaml")} {
		if got := read(t, filepath.Join(filepath.Dir(path), name)); got != want {
			t.Errorf("%s is another one", name)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestWrite_aVersionThatNobodyHasEntered: clusterctl would refuse it where it is installed.
func TestWrite_aVersionThatNobodyHasEntered(t *testing.T) {
	module := t.TempDir()
	if err := os.CopyFS(filepath.Join(module, "charts"), os.DirFS(operator+"/charts")); err != nil {
		t.Fatal(err)
	}
	metadata := strings.ReplaceAll(read(t, operator+"/metadata.yaml"), "minor: 1,", "minor: 99,")
	if err := os.WriteFile(filepath.Join(module, "metadata.yaml"), []byte(metadata), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := components.Write(module, t.TempDir()); !errors.Is(err, components.ErrNoSeries) {
		t.Errorf("error %v, want %v", err, components.ErrNoSeries)
	}
}

// TestThePageListsTheVariables with their defaults.
func TestThePageListsTheVariables(t *testing.T) {
	page := read(t, "../../../docs/kubernetes/install.md")
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(NSTANCE_\\w+)` \\| `?([^|`]*?)`? \\|").FindAllStringSubmatch(page, -1) {
		listed[row[1]] = row[2]
	}
	want := map[string]string{}
	for _, v := range components.Variables() {
		want[v.Name] = v.Default
		if v.Default == "" {
			want[v.Name] = "required"
		}
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Error(diff)
	}
}
