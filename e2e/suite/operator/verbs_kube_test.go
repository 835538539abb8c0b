//go:build kube

package operator_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// unused are rights that no request of these tests shows to be needed, and why they are
// granted all the same. What an informer watches it may also list: it does where the API
// server does not stream what there is.
var unused = map[string]string{
	"nstance-operator update nstancemachinepools/finalizers in infrastructure.cluster.x-k8s.io": "asked for within another request, " +
		"where an API server guards what blocks a deletion",

	"nstance-capi-workload get nodes":    "Cluster API looks a Node up, besides the copies that it keeps",
	"nstance-capi-workload update nodes": "Cluster API's contract: it may write a Node whole",
	"nstance-capi-workload get pods":     "Cluster API looks for its own Pod, which it has none of here",

	"nstance-capi-workload get namespaces":                          "Cluster API's drain, by rules for namespaces",
	"nstance-capi-workload get daemonsets in apps":                  "Cluster API's drain, of Pods of DaemonSets",
	"nstance-capi-workload get persistentvolumes":                   "Cluster API waits for volumes, of which these tests have none attached",
	"nstance-capi-workload get persistentvolumeclaims":              "as that",
	"nstance-operator get machinepools in cluster.x-k8s.io":         "where the one to be made exists although the cache does not show it",
	"nstance-capi-workload get volumeattachments in storage.k8s.io": "as that",
}

// excused is whether a right that was not used is granted for a reason that stands here.
func excused(account, grant string, used map[string]bool) bool {
	verb, resource, _ := strings.Cut(grant, " ")
	if account == coreAccount && slices.Contains([]string{"list", "watch"}, verb) {
		return excused(account, "get "+resource, used) // it keeps copies of what it looks up
	}
	return unused[account+" "+grant] != "" || verb == "list" && used[account+" watch "+resource]
}

// The accounts of the chart: the operator's, which has the name of the release otherwise, and
// that of Cluster API.
const (
	operatorAccount = "nstance-operator"
	coreAccount     = "nstance-capi-workload"
)

// O19: in all these tests the operators, and Cluster API as the accounts that their charts give
// it, were refused nothing for want of a right, and there is no right that none of them used.
// It waits for all tests that have an operator; where only some of them ran, as without the tag
// operator, it says nothing of what was not used.
func TestO19_TheChartGrantsWhatIsUsed(t *testing.T) {
	requests := afterAll(t)
	grants := map[string]map[string]bool{} // by account
	accounts := map[string]string{}        // by user
	for _, i := range common.installed {
		for user, rights := range i.grants(t) {
			account := i.role(user)
			accounts[user] = account
			if grants[account] == nil {
				grants[account] = map[string]bool{}
			}
			for _, right := range rights {
				grants[account][right] = true
			}
		}
	}
	used := map[string]bool{}
	for _, r := range requests {
		account, ours := accounts[r.User]
		if !ours {
			continue
		}
		if r.Unauthorized {
			t.Errorf("%s may not %s %s: %s", r.User, r.Verb, resourceName(r.Group, r.Resource, r.Subresource), r.URI)
		}
		path, _, _ := strings.Cut(r.URI, "?")
		for _, name := range []string{resourceName(r.Group, r.Resource, r.Subresource), path} {
			used[account+" "+r.Verb+" "+name] = true
		}
	}
	if part := flag.Lookup("test.run"); !wholeSuite || part != nil && part.Value.String() != "" {
		return
	}
	for _, account := range slices.Sorted(maps.Keys(grants)) {
		for _, grant := range slices.Sorted(maps.Keys(grants[account])) {
			if !used[account+" "+grant] && !excused(account, grant, used) {
				t.Errorf("%s may %s, and never did", account, grant)
			}
		}
	}
}

// role is what a user is in an installation: the operator, or Cluster API.
func (i *installation) role(user string) string {
	if user == i.user() {
		return operatorAccount
	}
	return coreAccount
}

// resourceName is a resource with its group, and the subresource if it is about one.
func resourceName(group, resource, sub string) string {
	name := resource
	if sub != "" {
		name += "/" + sub
	}
	if group != "" {
		name += " in " + group
	}
	return name
}

// grants are what the chart's roles let the operator and Cluster API do, by user: a verb and a
// resource each, or a verb and a path.
func (i *installation) grants(t *testing.T) map[string][]string {
	t.Helper()
	rules := map[string][]rbacv1.PolicyRule{}
	for _, object := range i.objects.Objects {
		if kind := object.GetKind(); kind == "Role" || kind == "ClusterRole" {
			var role rbacv1.ClusterRole // a Role has the same rules
			as(t, object, &role)
			rules[kind+" "+role.Name] = role.Rules
		}
	}
	grants := map[string][]string{}
	for _, object := range i.objects.Objects {
		if kind := object.GetKind(); kind != "RoleBinding" && kind != "ClusterRoleBinding" {
			continue
		}
		var binding rbacv1.ClusterRoleBinding
		as(t, object, &binding)
		for _, subject := range binding.Subjects {
			if subject.Name != i.account && subject.Name != coreAccount {
				continue
			}
			user := "system:serviceaccount:" + subject.Namespace + ":" + subject.Name
			for _, rule := range rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name] {
				grants[user] = append(grants[user], rights(rule)...)
			}
		}
	}
	return grants
}

func as(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		t.Fatal(err)
	}
}

// rights are the single rights of a rule.
func rights(rule rbacv1.PolicyRule) []string {
	var all []string
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				all = append(all, fmt.Sprintf("%s %s", verb, resourceName(group, resource, "")))
			}
		}
		for _, path := range rule.NonResourceURLs {
			all = append(all, verb+" "+path)
		}
	}
	return all
}
