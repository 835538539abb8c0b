package policies

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
)

const (
	// HostLabel of a policy of host machines, and of its binding, is the name of its file.
	HostLabel = "hosts.nstance.dev/policy"
	// hostGeneration is an annotation with a number that grows whenever the file changes.
	hostGeneration = "hosts.nstance.dev/policy-generation"
	// shipped is that number, of all files in hosts/.
	shipped = 1
)

// Missing returns which policies of host machines are not in force in an API server, each with
// what is wrong with it: the policy or its binding does not exist, does not refuse, or is of an
// earlier release. Nothing is missing where any policy with the label is as it should be.
func Missing(installed []admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) ([]string, error) {
	entries, err := files.ReadDir("hosts")
	if err != nil {
		return nil, fmt.Errorf("list the embedded policies: %w", err)
	}
	var missing []string
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), path.Ext(entry.Name()))
		if problem := problemOf(name, installed, bindings); problem != "" {
			missing = append(missing, name+": "+problem)
		}
	}
	return missing, nil
}

// problemOf is what is wrong with one policy; empty: one that is as it should be exists.
func problemOf(name string, installed []admissionregistrationv1.ValidatingAdmissionPolicy, bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding) string {
	problem := "the ValidatingAdmissionPolicy does not exist"
	for i := range installed {
		p := &installed[i]
		if p.Labels[HostLabel] != name {
			continue
		}
		if generation, err := strconv.Atoi(p.Annotations[hostGeneration]); err != nil || generation < shipped {
			problem = fmt.Sprintf("ValidatingAdmissionPolicy %s is of an earlier release", p.Name)
			continue
		}
		bound := slices.ContainsFunc(bindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == p.Name && slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
		})
		if bound {
			return ""
		}
		problem = fmt.Sprintf("no ValidatingAdmissionPolicyBinding puts ValidatingAdmissionPolicy %s in force", p.Name)
	}
	return problem
}
