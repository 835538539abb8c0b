package chart_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"nstance.dev/e2e/repo/chart"
	operatornames "nstance.dev/operator/capi"
	"nstance.dev/operator/crds"
	"nstance.dev/operator/policies"
	"nstance.dev/operator/webhooks"
)

const dir = "../../../operator/charts/nstance-operator"

type values = map[string]any

// least are the values that every installation has to give.
func least(more ...values) values {
	all := values{"config": values{
		"clusterId": "example",
		"shards":    values{"us-west-2a": values{"operator_addr": "10.0.0.1:8993"}, "us-west-2b": values{"operator_addr": "[fd00::1]:8993"}},
	}}
	for _, m := range more {
		merge(all, m)
	}
	return all
}

func merge(into, from values) {
	for k, v := range from {
		inner, both := into[k].(values)
		if more, ok := v.(values); ok && both {
			merge(inner, more)
			continue
		}
		into[k] = v
	}
}

func render(t *testing.T, v values) chart.Rendered {
	t.Helper()
	r, err := chart.Render(dir, chart.Release{Name: "nstance-operator", Namespace: "nstance"}, v)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// names are the objects as `Kind name`, the definitions and policies left out.
func names(r chart.Rendered) []string {
	var all []string
	for _, o := range r.Objects {
		if k := o.GetKind(); k != "CustomResourceDefinition" && !strings.HasPrefix(k, "ValidatingAdmissionPolicy") {
			all = append(all, k+" "+o.GetName())
		}
	}
	slices.Sort(all)
	return all
}

func find(t *testing.T, r chart.Rendered, kind, name string) *unstructured.Unstructured {
	t.Helper()
	for _, o := range r.Objects {
		if o.GetKind() == kind && o.GetName() == name {
			return o
		}
	}
	t.Fatalf("no %s %s among %v", kind, name, names(r))
	return nil
}

// as decodes an object strictly: what its type does not have is an error.
func as[T any](t *testing.T, o *unstructured.Unstructured) *T {
	t.Helper()
	data, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	out := new(T)
	if err := yaml.UnmarshalStrict(data, out); err != nil {
		t.Fatalf("%s %s: %v", o.GetKind(), o.GetName(), err)
	}
	return out
}

// always is what every installation has.
var always = []string{
	"ClusterRole nstance-operator", "ClusterRole nstance-operator-core", "ClusterRole nstance-operator-edit",
	"ClusterRole nstance-operator-view", "ClusterRole nstance-operator-workload",
	"ClusterRoleBinding nstance-operator", "ClusterRoleBinding nstance-operator-workload",
	"ConfigMap nstance-operator-config", "ConfigMap nstance-shards",
	"Deployment nstance-operator",
	"PodDisruptionBudget nstance-operator",
	"Role nstance-operator", "RoleBinding nstance-operator",
	"Service nstance-operator-webhook",
	"ServiceAccount nstance-capi-workload", "ServiceAccount nstance-operator",
	"ValidatingWebhookConfiguration nstance-operator",
}

func TestWhatIsInstalled(t *testing.T) {
	for _, tt := range []struct {
		name       string
		values     values
		more, less []string
	}{
		{name: "least"},
		{name: "identity given", values: values{"ca": values{"create": true, "pem": "PEM"}, "registration": values{"jwt": "a.b.c"}},
			more: []string{"ConfigMap nstance-cluster-ca", "Secret nstance-operator-nonce"}},
		{name: "configuration by somebody else", values: values{"configMap": values{"create": false}, "config": values{"clusterId": ""}},
			less: []string{"ConfigMap nstance-operator-config", "ConfigMap nstance-shards"}},
		{name: "no webhooks", values: values{"webhook": values{"enabled": false}},
			less: []string{"Service nstance-operator-webhook", "ValidatingWebhookConfiguration nstance-operator"}},
		{name: "Pods of a namespace may ask", values: values{"onDemand": values{"namespaces": []any{"red"}}},
			more: []string{"MutatingWebhookConfiguration nstance-operator"}},
		{name: "host machines", values: values{"hosts": values{"enabled": true}}, more: []string{
			"ClusterRole nstance-operator-hosts", "ClusterRole nstance-operator-hosts-edit", "ClusterRole nstance-operator-hosts-power",
			"ClusterRole nstance-operator-hosts-provision", "ClusterRole nstance-operator-hosts-view", "ClusterRoleBinding nstance-operator-hosts",
			"ClusterRole nstance-operator-node-bootstrap", "ClusterRoleBinding nstance-operator-node-bootstrap", "ServiceAccount nstance-node-bootstrap",
			"Role nstance-operator-hosts", "RoleBinding nstance-operator-hosts",
		}},
		{name: "Pods are left alone", values: values{"onDemand": values{"mode": "annotate", "namespaces": []any{"red"}}}},
		{name: "certificates by cert-manager", values: values{"webhook": values{"certManager": values{"enabled": true}}},
			more: []string{"Certificate nstance-operator-webhook", "Issuer nstance-operator-webhook"}},
		{name: "another workload cluster", values: values{"capi": values{"endpoint": "https://api.example.com:6443"}},
			less: []string{"ClusterRole nstance-operator-workload", "ClusterRoleBinding nstance-operator-workload", "ServiceAccount nstance-capi-workload"}},
		{name: "the autoscaler's rights", values: values{"clusterAutoscaler": values{"rbac": values{"create": true}}},
			more: []string{"ClusterRole nstance-operator-autoscaler", "ClusterRoleBinding nstance-operator-autoscaler"}},
		{name: "a monitor", values: values{"metrics": values{"serviceMonitor": values{"enabled": true}}},
			more: []string{"Service nstance-operator-metrics", "ServiceMonitor nstance-operator"}},
		{name: "rules and a dashboard", values: values{"metrics": values{"rules": values{"enabled": true}, "dashboards": values{"enabled": true}}},
			more: []string{"ConfigMap nstance-operator-dashboard", "PrometheusRule nstance-operator"}},
		{name: "a network policy", values: values{"networkPolicy": values{"enabled": true}}, more: []string{"NetworkPolicy nstance-operator"}},
		{name: "demand mode", values: values{"demand": values{"enabled": true, "priorityClassPenalties": values{"batch": values{"interruptionPenalty": "0.01"}}}},
			more: []string{"ConfigMap nstance-operator-penalties"}},
		{name: "demand mode, Pods in a process of their own", values: values{"demand": values{"enabled": true, "upc": values{"ownProcess": true}}},
			more: []string{
				"ClusterRole nstance-operator-pod-demand", "ClusterRoleBinding nstance-operator-pod-demand", "Deployment nstance-operator-pod-demand",
				"Role nstance-operator-pod-demand", "RoleBinding nstance-operator-pod-demand", "ServiceAccount nstance-operator-pod-demand",
			}},
		{name: "a process that would have nothing to write", values: values{"demand": values{"enabled": true, "podSource": "direct", "upc": values{"ownProcess": true}}}},
		{name: "no budget", values: values{"podDisruptionBudget": values{"minAvailable": nil}}, less: []string{"PodDisruptionBudget nstance-operator"}},
		{name: "rights by somebody else", values: values{"rbac": values{"create": false}, "serviceAccount": values{"create": false, "name": "given"}},
			less: append(slices.DeleteFunc(slices.Clone(always), func(n string) bool {
				return !strings.HasPrefix(n, "ClusterRole") && !strings.HasPrefix(n, "Role")
			}), "ServiceAccount nstance-operator")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := slices.DeleteFunc(slices.Concat(always, tt.more), func(n string) bool { return slices.Contains(tt.less, n) })
			slices.Sort(want)
			if diff := cmp.Diff(want, names(render(t, least(tt.values)))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPodsThatTheOperatorIsAskedAbout: those alone that ask for an instance, of the namespaces
// that may. By the name of the webhook operators know of each other.
func TestPodsThatTheOperatorIsAskedAbout(t *testing.T) {
	const name = "kubernetes.io/metadata.name"
	for _, namespaces := range [][]any{{"*"}, {"red", "blue"}} {
		r := render(t, least(values{"onDemand": values{"namespaces": namespaces}}))
		hook := as[admissionregistrationv1.MutatingWebhookConfiguration](t, find(t, r, "MutatingWebhookConfiguration", "nstance-operator")).Webhooks[0]
		if diff := cmp.Diff(webhooks.PodMatchConditions(), hook.MatchConditions); diff != "" || hook.Name != webhooks.PodWebhook {
			t.Errorf("webhook %s: %s", hook.Name, diff)
		}
		want := []metav1.LabelSelectorRequirement{{Key: name, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"kube-system", "nstance"}}}
		if len(namespaces) > 1 {
			want = append(want, metav1.LabelSelectorRequirement{Key: name, Operator: metav1.LabelSelectorOpIn, Values: []string{"red", "blue"}})
		}
		if diff := cmp.Diff(want, hook.NamespaceSelector.MatchExpressions); diff != "" {
			t.Error(diff)
		}
	}
}

// TestValuesAreChecked: a value that would be overlooked or cannot work is refused with
// its name.
func TestValuesAreChecked(t *testing.T) {
	for want, v := range map[string]values{
		"config.clusterId: it is the cluster_id": {"config": values{"clusterId": "", "shards": values{"a": values{"operator_addr": "h:1"}}}},
		"config.shards: list at least one":       {"config": values{"clusterId": "example"}},
		"operator_addr":                          least(values{"config": values{"shards": values{"a": values{"registration_addr": "h:1"}}}}),
		"replicas":                               least(values{"replicas": 3}),
		"namespaces":                             least(values{"onDemand": values{"namespaces": []any{"Red"}}}),
		"leaderElection.enabled":                 least(values{"leaderElection": values{"enabled": false}}),
		"memoryFactor":                           least(values{"memoryFactor": 1.5}),
		"mode":                                   least(values{"onDemand": values{"mode": "gate"}}),
		"apiServer":                              least(values{"capi": values{"apiServer": "kubernetes"}}),
		"/hosts/apiServer":                       least(values{"hosts": values{"apiServer": "https://api.example.com"}}),
		"ca.pem":                                 least(values{"ca": values{"create": true}}),
		"podSource":                              least(values{"demand": values{"podSource": "pods"}}),
		"interruptionPenalty":                    least(values{"demand": values{"priorityClassPenalties": values{"batch": values{"interruptionPenalty": "-1"}}}}),
		"demand.upc.ownProcess": least(values{
			"demand": values{"enabled": true, "upc": values{"ownProcess": true}}, "capi": values{"endpoint": "https://api.example.com:6443"},
		}),
		"fullnameOverride": least(values{"fullnameOverride": "Upper"}),
	} {
		_, err := chart.Render(dir, chart.Release{Name: "r", Namespace: "n"}, v)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with %q, got %v", want, err)
		}
	}
}

// TestO18_DefinitionsStay: the chart installs the definitions of the operator's kinds as
// they are, and leaves them, and with them every pool, when it is uninstalled.
func TestO18_DefinitionsStay(t *testing.T) {
	all, err := crds.All()
	if err != nil {
		t.Fatal(err)
	}
	ofDemand, err := crds.Demand()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range render(t, least()).Objects {
		if strings.HasSuffix(o.GetName(), ".demand.nstance.dev") {
			t.Errorf("%s is installed without demand mode", o.GetName())
		}
	}
	r := render(t, least(values{"demand": values{"enabled": true}}))
	for _, want := range slices.Concat(all, ofDemand) {
		got := find(t, r, "CustomResourceDefinition", want.Name)
		if got.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the chart", want.Name)
		}
		if diff := cmp.Diff(want.Spec, as[apiextensionsv1.CustomResourceDefinition](t, got).Spec); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	for _, o := range render(t, least(values{"crds": values{"keep": false}})).Objects {
		if o.GetAnnotations()["helm.sh/resource-policy"] != "" {
			t.Errorf("%s is kept", o.GetName())
		}
	}
}

// params are those of the release.
var params = policies.Params{
	Name: "nstance-operator", Namespace: "nstance",
	User: "system:serviceaccount:nstance:nstance-operator", Core: "system:serviceaccount:capi-system:capi-manager",
}

// TestTheAPIServerOfHosts: its address reaches the operator where host machines are on.
func TestTheAPIServerOfHosts(t *testing.T) {
	const address = "https://api.example.com:6443"
	for _, on := range []bool{true, false} {
		d := as[appsv1.Deployment](t, find(t, render(t, least(values{"hosts": values{"enabled": on, "apiServer": address}})), "Deployment", "nstance-operator"))
		if has := slices.Contains(d.Spec.Template.Spec.Containers[0].Args, "--hosts-api-server="+address); has != on {
			t.Errorf("host machines %t: arguments %q", on, d.Spec.Template.Spec.Containers[0].Args)
		}
	}
}

// The kinds of host machines and their policies are installed where they are asked for, and nowhere else.
func TestDefinitionsOfHostMachines(t *testing.T) {
	all, err := crds.Hosts()
	if err != nil {
		t.Fatal(err)
	}
	on := render(t, least(values{"hosts": values{"enabled": true}}))
	for _, want := range all {
		got := find(t, on, "CustomResourceDefinition", want.Name)
		if got.GetAnnotations()["helm.sh/resource-policy"] != "keep" {
			t.Errorf("%s goes with the chart", want.Name)
		}
		if diff := cmp.Diff(want.Spec, as[apiextensionsv1.CustomResourceDefinition](t, got).Spec); diff != "" {
			t.Errorf("%s: %s", want.Name, diff)
		}
	}
	for _, o := range render(t, least()).Objects {
		if strings.HasSuffix(o.GetName(), ".hosts.nstance.dev") {
			t.Errorf("%s is installed where nobody asked for it", o.GetName())
		}
		if o.GetLabels()[policies.HostLabel] != "" {
			t.Errorf("policy %s is installed where nobody asked for it", o.GetName())
		}
	}
	policied, err := policies.Hosts(params)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range policied {
		policy := as[admissionregistrationv1.ValidatingAdmissionPolicy](t, find(t, on, "ValidatingAdmissionPolicy", want.Policy.Name))
		binding := as[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, find(t, on, "ValidatingAdmissionPolicyBinding", want.Binding.Name))
		if diff := cmp.Diff(want, policies.Policy{Policy: policy, Binding: binding}); diff != "" {
			t.Errorf("%s: %s", want.Policy.Name, diff)
		}
	}
}

// TestO15_PoliciesAreTheOperators: the chart puts the same policies in force that the
// package of the policies has, with the names of this release.
func TestO15_PoliciesAreTheOperators(t *testing.T) {
	all, err := policies.All(params)
	if err != nil {
		t.Fatal(err)
	}
	for _, ownProcess := range []bool{false, true} {
		params := policies.DemandParams{Name: "nstance-operator", Controller: "system:serviceaccount:nstance:nstance-operator", MaxUserPriority: 1000000}
		if ownProcess {
			params.Controller = "system:serviceaccount:nstance:nstance-operator-pod-demand"
		}
		ofDemand, err := policies.Demand(params)
		if err != nil {
			t.Fatal(err)
		}
		r := render(t, least(values{"demand": values{"enabled": true, "maxUserPriority": 1000000, "upc": values{"ownProcess": ownProcess}}}))
		samePolicies(t, r, append(ofDemand, all...))
	}
	r := render(t, least())
	samePolicies(t, r, all)
	for _, o := range r.Objects {
		if o.GetName() == "nstance-operator-capacityrequests" {
			t.Errorf("%s is in force without demand mode", o.GetName())
		}
	}
}

// samePolicies compares the policies of a release with those that are wanted.
func samePolicies(t *testing.T, r chart.Rendered, all []policies.Policy) {
	t.Helper()
	for _, want := range all {
		policy := as[admissionregistrationv1.ValidatingAdmissionPolicy](t, find(t, r, "ValidatingAdmissionPolicy", want.Policy.Name))
		binding := as[admissionregistrationv1.ValidatingAdmissionPolicyBinding](t, find(t, r, "ValidatingAdmissionPolicyBinding", want.Binding.Name))
		if diff := cmp.Diff(want, policies.Policy{Policy: policy, Binding: binding}); diff != "" {
			t.Errorf("%s: %s", want.Policy.Name, diff)
		}
	}
}

// TestTwoReleasesDifferInWhatIsNotInANamespace: each tenant has a release of its own.
func TestTwoReleasesDifferInWhatIsNotInANamespace(t *testing.T) {
	render := func(name, namespace string) (global []string) {
		r, err := chart.Render(dir, chart.Release{Name: name, Namespace: namespace}, least(values{"clusterAutoscaler": values{"rbac": values{"create": true}}}))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range r.Objects {
			if o.GetNamespace() == "" && o.GetKind() != "CustomResourceDefinition" {
				global = append(global, o.GetKind()+" "+o.GetName())
			}
		}
		return global
	}
	red, blue := render("red", "nstance-red"), render("blue", "nstance-blue")
	if len(red) != len(blue) || len(red) < 10 {
		t.Fatalf("%v and %v", red, blue)
	}
	for _, name := range red {
		if slices.Contains(blue, name) {
			t.Errorf("both have %s", name)
		}
	}
}

// TestO19_RightsAreListed: nobody gets a verb or a resource by a wildcard, and Secrets of
// one namespace only.
func TestO19_RightsAreListed(t *testing.T) {
	for _, o := range render(t, least(values{"metrics": values{"secure": true}})).Objects {
		if o.GetKind() != "ClusterRole" && o.GetKind() != "Role" {
			continue
		}
		rules, _, err := unstructured.NestedSlice(o.Object, "rules")
		if err != nil || len(rules) == 0 {
			t.Fatalf("%s: %v", o.GetName(), err)
		}
		for _, rule := range rules {
			text := fmt.Sprint(rule)
			if strings.Contains(text, "*") || o.GetKind() == "ClusterRole" && strings.Contains(text, "secrets") {
				t.Errorf("%s %s: %s", o.GetKind(), o.GetName(), text)
			}
		}
	}
}

// TestO19_SecretsByName: the operator reads and changes the Secrets that its program uses, and
// no others in its namespace.
func TestO19_SecretsByName(t *testing.T) {
	long, tenant := strings.Repeat("c", 32), strings.Repeat("d", 19)+"-"+strings.Repeat("e", 12) // cut at the hyphen
	for _, c := range []struct {
		name   string
		values values
		want   map[string]string // by Secret
	}{
		{"as it comes", values{}, map[string]string{
			"nstance-operator-nonce": "get", "nstance-operator-key": "get update", "nstance-operator-cert": "get update",
			"nstance-operator-webhook-cert": "get update", operatornames.Cluster("example", "default") + "-kubeconfig": "get list watch update", "": "create",
		}},
		{"without webhooks, with other names", values{
			"webhook": values{"enabled": false}, "registration": values{"secretName": "n"}, "managedSecrets": values{"key": "k", "cert": "c"},
			"config": values{"tenant": "acme"},
		}, map[string]string{
			"n": "get", "k": "get update", "c": "get update", operatornames.Cluster("example", "acme") + "-kubeconfig": "get list watch update", "": "create",
		}},
		{"a workload cluster elsewhere, a certificate of cert-manager, a long name", values{
			"capi": values{"endpoint": "https://10.0.0.9:6443"}, "webhook": values{"certManager": values{"enabled": true}},
			"config": values{"clusterId": long, "tenant": tenant},
		}, map[string]string{
			"nstance-operator-nonce": "get", "nstance-operator-key": "get update", "nstance-operator-cert": "get update",
			operatornames.Cluster(long, tenant) + "-kubeconfig": "get list watch", "": "create",
		}},
		{"somebody else's ConfigMap, which alone says which cluster this is", values{
			"configMap": values{"create": false}, "config": values{"clusterId": ""},
		}, map[string]string{
			"nstance-operator-nonce": "get", "nstance-operator-key": "get update", "nstance-operator-cert": "get update",
			"nstance-operator-webhook-cert": "get update", "": "create get list watch update",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[string]string{}
			for _, o := range render(t, least(c.values)).Objects {
				if o.GetKind() != "Role" && o.GetKind() != "ClusterRole" {
					continue
				}
				rules, _, _ := unstructured.NestedSlice(o.Object, "rules")
				for _, rule := range rules {
					rule := rule.(map[string]any)
					if resources, _, _ := unstructured.NestedStringSlice(rule, "resources"); !slices.Contains(resources, "secrets") {
						continue
					}
					verbs, _, _ := unstructured.NestedStringSlice(rule, "verbs")
					bound, _, _ := unstructured.NestedStringSlice(rule, "resourceNames")
					if len(bound) == 0 {
						bound = []string{""}
					}
					for _, name := range bound {
						got[name] = strings.TrimSpace(got[name] + " " + strings.Join(verbs, " "))
					}
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEveryValueIsUsedAndChecked: each default is read by a template and known to the
// schema, and the schema knows no other.
func TestEveryValueIsUsedAndChecked(t *testing.T) {
	var defaults, schema values
	read := func(name string, into *values) {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(data, into); err != nil {
			t.Fatal(err)
		}
	}
	read("values.yaml", &defaults)
	read("values.schema.json", &schema)
	var known []string
	paths("", schema["properties"].(values), func(v any) values { p, _ := v.(values)["properties"].(values); return p }, &known)
	var given []string
	paths("", defaults, func(v any) values { m, _ := v.(values); return m }, &given)
	known = slices.DeleteFunc(known, func(p string) bool {
		return p == "global" || p == "resources" || p == "demand.upc.resources" || strings.HasPrefix(p, "demand.priorityClassPenalties.") || strings.HasPrefix(p, "config.shards.") || strings.HasPrefix(p, "imagePullSecrets.")
	})
	given = slices.DeleteFunc(given, func(p string) bool {
		return strings.HasPrefix(p, "resources.") || strings.HasPrefix(p, "demand.upc.resources.")
	})
	if diff := cmp.Diff(given, known); diff != "" {
		t.Errorf("defaults and schema: %s", diff)
	}
	templates := templateText(t)
	for _, p := range given {
		last := p[strings.LastIndexByte(p, '.')+1:]
		if !regexp.MustCompile(`\.`+last+`\b`).MatchString(templates) && !strings.HasPrefix(p, "config.import.") {
			t.Errorf("no template reads %s", p)
		}
	}
}

// paths collects the keys of leaves, joined by dots, in order.
func paths(prefix string, of values, inner func(any) values, into *[]string) {
	for _, key := range slices.Sorted(maps.Keys(of)) {
		path := strings.TrimPrefix(prefix+"."+key, ".")
		if deeper := inner(of[key]); len(deeper) > 0 {
			paths(path, deeper, inner, into)
			continue
		}
		*into = append(*into, path)
	}
}

func templateText(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "templates", "*"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	var text strings.Builder
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(data)
	}
	return text.String()
}

// TestNotesSayWhatIsMissing: whoever installs the chart is told what else it takes.
func TestNotesSayWhatIsMissing(t *testing.T) {
	missing := render(t, least()).Notes
	for _, want := range []string{"create configmap nstance-cluster-ca", "cluster nonce --tenant default", "create secret generic nstance-operator-nonce --from-file=nonce.jwt"} {
		if !strings.Contains(missing, want) {
			t.Errorf("the notes lack %q:\n%s", want, missing)
		}
	}
	given := render(t, least(values{"ca": values{"create": true, "pem": "PEM"}, "registration": values{"jwt": "a.b.c"}})).Notes
	if strings.Contains(given, "kubectl -n nstance create") || strings.Contains(given, "a.b.c") {
		t.Errorf("the notes ask for what was given:\n%s", given)
	}
}
