package policies_test

import (
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
)

// M7: machines of instances go with the instance. M28: versions are the operator's. M30, M32: what
// a machine refers to cannot be deleted. All of it holds with the operator away.
func TestM7M28M30M32_HostPoliciesPassAndRefuse(t *testing.T) {
	all, err := policies.Hosts(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	var judges []*policytest.Judge
	for _, policy := range all {
		judge, err := policytest.NewJudge(policy)
		if err != nil {
			t.Fatalf("%s: %v", policy.Policy.Name, err)
		}
		judges = append(judges, judge)
	}
	var names []string
	for _, c := range policytest.HostCases() {
		if slices.Contains(names, c.Name) {
			t.Errorf("two cases are called %q", c.Name)
		}
		names = append(names, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			var refusals []string
			for _, judge := range judges {
				refusal, err := judge.Answer(t.Context(), c)
				if err != nil {
					t.Fatal(err)
				}
				if refusal != "" {
					refusals = append(refusals, refusal)
				}
			}
			if got := strings.Join(refusals, "\n"); got != c.Refused {
				t.Errorf("refused with %q, want %q", got, c.Refused)
			}
		})
	}
}

// The policies bind the whole cluster, and a server that cannot answer refuses.
func TestHostBindings(t *testing.T) {
	all, err := policies.Hosts(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 6 {
		t.Errorf("%d policies, want 6", len(all))
	}
	for _, p := range all {
		spec := p.Binding.Spec
		if !strings.HasPrefix(p.Policy.Name, "nstance-hosts-") || p.Binding.Name != p.Policy.Name || spec.PolicyName != p.Policy.Name {
			t.Errorf("policy %s, binding %s of %s: want one name", p.Policy.Name, p.Binding.Name, spec.PolicyName)
		}
		if spec.MatchResources != nil || !slices.Equal(spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}) {
			t.Errorf("%s: bound to %+v, actions %v", p.Policy.Name, spec.MatchResources, spec.ValidationActions)
		}
		if fail := p.Policy.Spec.FailurePolicy; fail == nil || *fail != admissionregistrationv1.Fail {
			t.Errorf("%s: the failure policy is not Fail", p.Policy.Name)
		}
		if (p.Policy.Spec.ParamKind != nil) != (spec.ParamRef != nil) {
			t.Errorf("%s: parameters of kind %v, bound to %v", p.Policy.Name, p.Policy.Spec.ParamKind, spec.ParamRef)
		}
		if ref := spec.ParamRef; ref != nil && (*ref.ParameterNotFoundAction != admissionregistrationv1.AllowAction || ref.Selector == nil || len(ref.Selector.MatchLabels) > 0) {
			t.Errorf("%s: parameters %+v", p.Policy.Name, ref)
		}
		for _, v := range p.Policy.Spec.Validations {
			if v.Message == "" || v.MessageExpression == "" {
				t.Errorf("%s: a refusal without words", p.Policy.Name)
			}
		}
	}
}

// What is not in force is named, with what is wrong.
func TestMissingHostPolicies(t *testing.T) {
	all, err := policies.Hosts(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	var installed []admissionregistrationv1.ValidatingAdmissionPolicy
	var bindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	for _, p := range all {
		if want := strings.TrimPrefix(p.Policy.Name, "nstance-hosts-"); p.Policy.Labels[policies.HostLabel] != want || p.Binding.Labels[policies.HostLabel] != want {
			t.Errorf("%s has labels %v and %v", p.Policy.Name, p.Policy.Labels, p.Binding.Labels)
		}
		installed, bindings = append(installed, *p.Policy), append(bindings, *p.Binding)
	}
	missing := func() []string {
		t.Helper()
		missing, err := policies.Missing(installed, bindings)
		if err != nil {
			t.Fatal(err)
		}
		return missing
	}
	if got := missing(); len(got) > 0 {
		t.Errorf("with all of them %v is missing", got)
	}
	gone, last := installed[0], len(installed)-1
	installed[0].Labels = nil
	installed[1].Annotations = nil
	bindings[2].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
	bindings = bindings[:last]
	want := []string{
		strings.TrimPrefix(gone.Name, "nstance-hosts-") + ": the ValidatingAdmissionPolicy does not exist",
		strings.TrimPrefix(installed[1].Name, "nstance-hosts-") + ": ValidatingAdmissionPolicy " + installed[1].Name + " is of an earlier release",
		strings.TrimPrefix(installed[2].Name, "nstance-hosts-") + ": no ValidatingAdmissionPolicyBinding puts ValidatingAdmissionPolicy " + installed[2].Name + " in force",
		strings.TrimPrefix(installed[last].Name, "nstance-hosts-") + ": no ValidatingAdmissionPolicyBinding puts ValidatingAdmissionPolicy " + installed[last].Name + " in force",
	}
	if got := missing(); !slices.Equal(got, want) {
		t.Errorf("missing\n%v\nwant\n%v", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
