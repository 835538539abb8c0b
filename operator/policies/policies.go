// Package policies are the rules that the API server keeps by itself, with operator and
// webhooks away: who may delete what, and what stays as it is.
//
// Each file beside this one is a ValidatingAdmissionPolicy with its binding. The files
// are templates with the four values of [Params], in the one notation that Go and Helm
// share: the chart renders the same text, so there is no second copy of a rule. What the
// schema of a kind can say by itself stands in the schema. Those in demand/ are about the
// kinds of demand mode, which has them with [DemandParams] where it is on, those in hosts/ about
// the kinds of host machines, where those are on.
//
// Refusals name what was asked for and how to do it all the same. Every rule leaves alone
// whoever carries out what was allowed before: the operator, Cluster API, the garbage
// collector (by its own name or that of the controller manager, as the cluster is set up),
// the end of a namespace, and clusterctl, which deletes here what it has moved elsewhere.
package policies

import (
	"bytes"
	"cmp"
	"embed"
	"errors"
	"fmt"
	"path"
	"regexp"
	"text/template"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"sigs.k8s.io/yaml"
)

//go:embed *.yaml demand/*.yaml hosts/*.yaml
var files embed.FS

// Params are what the policies of one installation depend on. All fields are required.
type Params struct {
	// Name begins the names of the policies, which are the cluster's, not a namespace's.
	Name string
	// Namespace is the one that the operator keeps its objects in.
	Namespace string
	// User is the operator's name for the API server:
	// system:serviceaccount:<namespace>:<name>.
	User string
	// Core is the name of Cluster API's own controllers for the API server. They delete a
	// pool after its MachinePool, and machines after that, when somebody was allowed to.
	Core string
}

// ErrParams is matched by every error about a parameter.
var ErrParams = errors.New("invalid parameter of the policies")

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)
	userPattern = regexp.MustCompile(`^[A-Za-z0-9:._@/-]{1,253}$`)
)

// validate keeps out what would be read as something else than a value in YAML or CEL.
func (p Params) validate() error {
	return errors.Join(
		check("Name", p.Name, namePattern), check("Namespace", p.Namespace, namePattern), check("User", p.User, userPattern), check("Core", p.Core, userPattern),
	)
}

func check(field, value string, pattern *regexp.Regexp) error {
	if !pattern.MatchString(value) {
		return fmt.Errorf("%w: %s: %q does not match %s", ErrParams, field, value, pattern)
	}
	return nil
}

// Policy is a policy and what puts it in force.
type Policy struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// All returns the policies of an installation, in the order of their files; without those of
// [Hosts]. Errors about parameters match [ErrParams].
func All(params Params) ([]Policy, error) { return read(".", params) }

// Hosts returns the policies of host machines, as All does the others. Their objects are the
// cluster's, so no namespace bounds them.
func Hosts(params Params) ([]Policy, error) { return read("hosts", params) }

func read(dir string, params Params) ([]Policy, error) {
	if err := params.validate(); err != nil {
		return nil, err
	}
	return renderAll(dir, map[string]any{
		"name": params.Name, "namespace": params.Namespace, "user": params.User, "core": params.Core,
	})
}

// DemandParams are what the policies of demand mode depend on.
type DemandParams struct {
	// Name begins the names of the policies. Required.
	Name string
	// Controller is the name for the API server of what writes CapacityRequests for Pods: the
	// operator, or a process of its own. Required.
	Controller string
	// MaxUserPriority is the highest priority of a request of a user who may not
	// prioritize requests.
	MaxUserPriority int32
	// PodsOf is the API server of the Pods that machines are bought for; empty: the one of the policies.
	PodsOf string
}

// Demand returns the policies of demand mode, as All does the others.
func Demand(params DemandParams) ([]Policy, error) {
	if err := errors.Join(check("Name", params.Name, namePattern), check("Controller", params.Controller, userPattern)); err != nil {
		return nil, err
	}
	return renderAll("demand", map[string]any{"name": params.Name, "controller": params.Controller, "podsOf": cmp.Or(params.PodsOf, "this one"), "maxUserPriority": params.MaxUserPriority})
}

// renderAll fills in the files of a directory.
func renderAll(dir string, params map[string]any) ([]Policy, error) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the embedded policies: %w", err)
	}
	all := make([]Policy, 0, len(entries))
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		policy, err := render(path.Join(dir, entry.Name()), params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", entry.Name(), err)
		}
		all = append(all, policy)
	}
	return all, nil
}

// render fills in one file, which holds a policy and its binding.
func render(name string, params map[string]any) (Policy, error) {
	parsed, err := template.New(path.Base(name)).Option("missingkey=error").ParseFS(files, name)
	if err != nil {
		return Policy{}, fmt.Errorf("parse: %w", err)
	}
	var text bytes.Buffer
	if err := parsed.Execute(&text, params); err != nil {
		return Policy{}, fmt.Errorf("fill in: %w", err)
	}
	policy, binding, found := bytes.Cut(text.Bytes(), []byte("\n---\n"))
	if !found {
		return Policy{}, errors.New("no binding after the policy")
	}
	both := Policy{&admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}}
	if err := yaml.UnmarshalStrict(policy, both.Policy); err != nil {
		return Policy{}, fmt.Errorf("decode the policy: %w", err)
	}
	if err := yaml.UnmarshalStrict(binding, both.Binding); err != nil {
		return Policy{}, fmt.Errorf("decode the binding: %w", err)
	}
	return both, nil
}
