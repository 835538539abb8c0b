package policies_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"nstance.dev/operator/policies"
	"nstance.dev/operator/policies/policytest"
)

// judges compiles every policy: CEL that does not compile fails here.
func judges(t *testing.T, all []policies.Policy, err error) []*policytest.Judge {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	judges := make([]*policytest.Judge, len(all))
	for i, policy := range all {
		if judges[i], err = policytest.NewJudge(policy); err != nil {
			t.Fatalf("%s: %v", policy.Policy.Name, err)
		}
	}
	return judges
}

// O15: the policies hold with operator and webhooks away.
func TestO15_PoliciesPassAndRefuse(t *testing.T) {
	all, err := policies.All(policytest.Params)
	passAndRefuse(t, judges(t, all, err), policytest.Cases())
}

// Nobody forges the request of a Pod, and nobody outranks Pods who may not.
func TestDemandPoliciesPassAndRefuse(t *testing.T) {
	all, err := policies.Demand(policytest.DemandParams)
	passAndRefuse(t, judges(t, all, err), policytest.DemandCases())
}

func passAndRefuse(t *testing.T, all []*policytest.Judge, cases []policytest.Case) {
	t.Helper()
	var names []string
	for _, c := range cases {
		if slices.Contains(names, c.Name) {
			t.Errorf("two cases are called %q", c.Name)
		}
		names = append(names, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			var refusals []string
			for _, judge := range all {
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

// Each policy is in force in the operator's namespace, those of demand mode in all of them, and a server
// that cannot answer refuses.
func TestBindings(t *testing.T) {
	all, err := policies.All(policytest.Params)
	if err != nil {
		t.Fatal(err)
	}
	ofDemand, err := policies.Demand(policytest.DemandParams)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 8 || len(ofDemand) != 1 {
		t.Errorf("%d policies and %d of demand mode, want 8 and 1", len(all), len(ofDemand))
	}
	for _, p := range all {
		if got := p.Binding.Spec.MatchResources.NamespaceSelector.MatchLabels["kubernetes.io/metadata.name"]; got != "nstance-system" {
			t.Errorf("%s is bound to namespace %q", p.Policy.Name, got)
		}
	}
	for _, p := range ofDemand { // Pods are in all of them
		if p.Binding.Spec.MatchResources != nil {
			t.Errorf("%s is in force in some namespaces alone", p.Policy.Name)
		}
	}
	for _, p := range slices.Concat(all, ofDemand) {
		spec := p.Binding.Spec
		if !strings.HasPrefix(p.Policy.Name, "nstance-") || p.Binding.Name != p.Policy.Name || spec.PolicyName != p.Policy.Name {
			t.Errorf("policy %s, binding %s of %s: want one name", p.Policy.Name, p.Binding.Name, spec.PolicyName)
		}
		if !slices.Equal(spec.ValidationActions, []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny}) {
			t.Errorf("%s: actions %v, want Deny", p.Policy.Name, spec.ValidationActions)
		}
		if fail := p.Policy.Spec.FailurePolicy; fail == nil || *fail != admissionregistrationv1.Fail {
			t.Errorf("%s: the failure policy is not Fail", p.Policy.Name)
		}
		for _, v := range p.Policy.Spec.Validations {
			if v.Message == "" || v.MessageExpression == "" {
				t.Errorf("%s: a refusal without words", p.Policy.Name)
			}
		}
	}
}

// Values end up in YAML and in CEL: what could be read as either is refused.
func TestParamsAreChecked(t *testing.T) {
	good := policytest.Params
	for name, change := range map[string]func(*policies.Params){
		"no name":                  func(p *policies.Params) { p.Name = "" },
		"no namespace":             func(p *policies.Params) { p.Namespace = "" },
		"a name that is not one":   func(p *policies.Params) { p.Name = "Nstance" },
		"a quote in the user":      func(p *policies.Params) { p.User = "x' || true || 'y" },
		"a line break in a user":   func(p *policies.Params) { p.User = "a\nb" },
		"a quote in Core":          func(p *policies.Params) { p.Core = "'" },
		"a namespace with a quote": func(p *policies.Params) { p.Namespace = `a"` },
	} {
		bad := good
		change(&bad)
		if _, err := policies.All(bad); !errors.Is(err, policies.ErrParams) {
			t.Errorf("%s: %v, want ErrParams", name, err)
		}
	}
	for name, bad := range map[string]policies.DemandParams{
		"no name": {Controller: "a"}, "no controller": {Name: "nstance"}, "a quote in the controller": {Name: "nstance", Controller: "x' || true || 'y"},
	} {
		if _, err := policies.Demand(bad); !errors.Is(err, policies.ErrParams) {
			t.Errorf("demand mode, %s: %v, want ErrParams", name, err)
		}
	}
}
