package demandcluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"nstance.dev/e2e/env/inplace"
	"nstance.dev/e2e/repo/chart"
)

// Usage is what operators did with the rights that their charts give them.
type Usage struct {
	granted map[string]bool // a verb and a resource each, of demand mode
	used    map[string]bool
	Refused []string // what they were not allowed
}

// Add adds what the operator of a cluster was granted for demand mode, used, and was refused, up
// to now.
func (u *Usage) Add(c *Cluster) error {
	if u.granted == nil {
		u.granted, u.used = map[string]bool{}, map[string]bool{}
	}
	with, err := granted(c.installation.Rendered, c.installation.Account)
	if err != nil {
		return err
	}
	without, err := c.grantedWithout()
	if err != nil {
		return err
	}
	for grant := range with {
		if !without[grant] {
			u.granted[grant] = true
		}
	}
	requests, err := c.Audit()
	if err != nil {
		return err
	}
	for _, r := range requests {
		if r.User != c.OperatorUser() {
			continue
		}
		right := r.Verb + " " + resourceName(r.Group, r.Resource, r.Subresource)
		u.used[right] = true
		// What is about no resource, as discovery, is open to every account. An API server that
		// starts refuses it until it has read its roles.
		if r.Unauthorized && r.Resource != "" {
			u.Refused = append(u.Refused, right+": "+r.URI)
		}
	}
	return nil
}

// Unused returns the rights of demand mode that no operator has used. What an informer watches
// it may also list: it does where the API server does not stream what there is.
func (u *Usage) Unused() (all []string) {
	for _, grant := range slices.Sorted(maps.Keys(u.granted)) {
		verb, resource, _ := strings.Cut(grant, " ")
		if !u.used[grant] && (verb != "list" || !u.used["watch "+resource]) {
			all = append(all, grant)
		}
	}
	return all
}

// grantedWithout is what the chart grants an operator without demand mode.
func (c *Cluster) grantedWithout() (map[string]bool, error) {
	off := merge(c.installed, map[string]any{"demand": map[string]any{"enabled": false}})
	rendered, err := inplace.Render(chart.Release{Name: Release, Namespace: Namespace}, off)
	if err != nil {
		return nil, err
	}
	return granted(rendered, c.installation.Account)
}

// granted are the rights that roles give to an account.
func granted(objects chart.Rendered, account string) (map[string]bool, error) {
	rules := map[string][]rbacv1.PolicyRule{}
	var bindings []rbacv1.ClusterRoleBinding
	for _, object := range objects.Objects {
		switch kind := object.GetKind(); kind {
		case "Role", "ClusterRole":
			var role rbacv1.ClusterRole // a Role has the same rules
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &role); err != nil {
				return nil, err
			}
			rules[kind+" "+role.Name] = role.Rules
		case "RoleBinding", "ClusterRoleBinding":
			var binding rbacv1.ClusterRoleBinding
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &binding); err != nil {
				return nil, err
			}
			bindings = append(bindings, binding)
		}
	}
	all := map[string]bool{}
	for _, binding := range bindings {
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Name == account }) {
			continue
		}
		for _, rule := range rules[binding.RoleRef.Kind+" "+binding.RoleRef.Name] {
			for _, right := range rights(rule) {
				all[right] = true
			}
		}
	}
	return all, nil
}

// rights are the single rights of a rule.
func rights(rule rbacv1.PolicyRule) (all []string) {
	for _, verb := range rule.Verbs {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				all = append(all, fmt.Sprintf("%s %s", verb, resourceName(group, resource, "")))
			}
		}
	}
	return all
}

// resourceName is a resource with its group, and the subresource if it is about one.
func resourceName(group, resource, sub string) string {
	if sub != "" {
		resource += "/" + sub
	}
	if group != "" {
		resource += " in " + group
	}
	return resource
}
