package chart_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"nstance.dev/e2e/repo/chart"
	"nstance.dev/operator/config"
	"nstance.dev/operator/manager"
)

// TestO19_TheRightsAreThoseOfTheFeatures: the chart grants the operator what its features say
// that they need with the same settings, verb by verb, and nothing else. A feature that is off
// is granted nothing.
func TestO19_TheRightsAreThoseOfTheFeatures(t *testing.T) {
	for _, tt := range []struct {
		name   string
		values values
	}{
		{"as it comes", nil},
		{"Pods may ask", values{"onDemand": values{"namespaces": []any{"red"}}}},
		{"Pods may ask without the webhook", values{"onDemand": values{"mode": "annotate", "namespaces": []any{"red"}}}},
		{"on demand off", values{"onDemand": values{"mode": "off", "namespaces": []any{"red"}}}},
		{"no webhooks", values{"webhook": values{"enabled": false}, "onDemand": values{"namespaces": []any{"*"}}}},
		{"a certificate of cert-manager, one replica, secure metrics", values{
			"webhook": values{"certManager": values{"enabled": true}}, "replicaCount": 1, "leaderElection": values{"enabled": false}, "metrics": values{"secure": true},
		}},
		{"demand mode", values{"demand": values{"enabled": true}}},
		{"demand mode beside Pods that ask", values{"demand": values{"enabled": true}, "onDemand": values{"namespaces": []any{"red"}}}},
		{"demand mode, Pods in a process of their own", values{"demand": values{"enabled": true, "upc": values{"ownProcess": true}}}},
		{"demand mode without requests", values{"demand": values{"enabled": true, "podSource": "direct"}}},
		{"demand mode, requests by another", values{"demand": values{"enabled": true, "podSource": "cr", "podController": false}}},
		{"demand mode with join tokens", values{"demand": bootstrapOf("kubeadm")}},
		{"demand mode with a template that needs none", values{"demand": bootstrapOf("#!/bin/sh\nset -e\n")}},
		{"demand mode with join tokens, Nodes elsewhere", values{"demand": bootstrapOf("k3s"), "capi": values{"endpoint": "https://api.example.com:6443"}}},
		{"host machines", values{"hosts": values{"enabled": true}}},
		{"host machines, Nodes elsewhere", values{"hosts": values{"enabled": true}, "capi": values{"endpoint": "https://api.example.com:6443"}}},
		{"Nodes elsewhere", values{"capi": values{"endpoint": "https://api.example.com:6443"}, "onDemand": values{"namespaces": []any{"red"}}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := least(tt.values)
			s := settings(t, v)
			want := map[string][]string{}
			for _, r := range manager.Rights(s) {
				kind := "ClusterRole"
				switch {
				case r.Where == manager.InNamespace:
					kind = "Role"
				case (r.Where == manager.SystemOfWorkload || r.Where == manager.NamespaceOfWorkload) && s.WorkloadEndpoint != "":
					continue
				case r.Where == manager.NamespaceOfWorkload:
					kind = "Role"
				case r.Where == manager.SystemOfWorkload:
					kind = "Role of kube-system"
				case r.Where == manager.WorkloadCluster && s.WorkloadEndpoint != "":
					continue // its own kubeconfig grants them
				}
				key := kind + " " + r.Group + " " + r.Resource
				want[key] = append(want[key], r.Verbs...)
			}
			compareRights(t, want, render(t, v), "nstance-operator", "nstance-operator-hosts")
		})
	}
}

// TestO19_TheRightsOfTheProcessOfPods: it is granted what the feature needs that it carries out, and what a
// process needs for itself.
func TestO19_TheRightsOfTheProcessOfPods(t *testing.T) {
	for _, secure := range []bool{false, true} {
		v := least(values{"demand": values{"enabled": true, "upc": values{"ownProcess": true}}, "metrics": values{"secure": secure}})
		want := map[string][]string{}
		for _, r := range manager.PodDemandRights(secure) {
			kind := "ClusterRole"
			if r.Where == manager.InNamespace {
				kind = "Role"
			}
			want[kind+" "+r.Group+" "+r.Resource] = r.Verbs
		}
		compareRights(t, want, render(t, v), "nstance-operator-pod-demand")
	}
}

// compareRights compares the rights that a program needs with those that the roles of some names grant.
func compareRights(t *testing.T, want map[string][]string, r chart.Rendered, names ...string) {
	t.Helper()
	got := map[string][]string{}
	for _, o := range r.Objects {
		if slices.Contains(names, o.GetName()) && (o.GetKind() == "Role" || o.GetKind() == "ClusterRole") {
			granted(t, o, got)
		}
	}
	for _, all := range []map[string][]string{want, got} {
		for key := range all {
			slices.Sort(all[key])
			all[key] = slices.Compact(all[key])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("features need -, the chart grants +:\n%s", diff)
	}
}

// granted adds the rules of a role by its kind, group and resource.
func granted(t *testing.T, o *unstructured.Unstructured, all map[string][]string) {
	t.Helper()
	rules, _, err := unstructured.NestedSlice(o.Object, "rules")
	if err != nil {
		t.Fatal(err)
	}
	list := func(rule any, field string) []string {
		some, _, err := unstructured.NestedStringSlice(rule.(map[string]any), field)
		if err != nil {
			t.Fatal(err)
		}
		return some
	}
	for _, rule := range rules {
		for _, group := range list(rule, "apiGroups") {
			for _, resource := range list(rule, "resources") {
				kind := o.GetKind()
				if o.GetNamespace() == metav1.NamespaceSystem {
					kind += " of kube-system"
				}
				key := strings.Join([]string{kind, group, resource}, " ")
				all[key] = append(all[key], list(rule, "verbs")...)
			}
		}
	}
}

// settings are those that the operator of a release has.
func settings(t *testing.T, v values) config.Settings {
	t.Helper()
	c := operator(t, v).Containers[0]
	env := map[string]string{"NSTANCE_NAMESPACE": "nstance"}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			env[e.Name] = e.Value
		}
	}
	s, err := config.ParseFlags(c.Args, func(name string) string { return env[name] }, "")
	if err != nil {
		t.Fatal(err)
	}
	return s
}
